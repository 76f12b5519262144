//! Damaged files that the loader finds before a good copy.

use testkit::elf::{Class, Elf, Machine};
use testkit::layer::Layer;

use super::{Layout, Step, layout};
use crate::cupti_parts::cupti_12;

/// The images.
pub fn all() -> Vec<Layout> {
    use Step::Add;
    const PATH: &[(&str, &str)] = &[("LD_LIBRARY_PATH", "/opt/first:/opt/second")];
    let damaged = |name, first: Vec<u8>| {
        let layer = Layer::new()
            .file("opt/first/libcupti.so.12", first)
            .file("opt/second/libcupti.so.12", cupti_12("libcupti.so.12"));
        layout(name, PATH, vec![Add(layer)])
    };
    let cut = |bytes: usize| {
        let mut whole = cupti_12("libcupti.so.12");
        whole.truncate(bytes);
        whole
    };
    let whole = cupti_12("libcupti.so.12").len();
    vec![
        damaged(
            "a text file first",
            b"this stands in for a library and is long enough to be one, almost\n".repeat(3),
        ),
        damaged("an empty file first", Vec::new()),
        damaged("a copy of 40 bytes first", cut(40)),
        damaged("a copy of 1000 bytes first", cut(1000)),
        damaged("half a copy first", cut(whole / 2)),
        // Its last segment ends at 0x76_3158.
        damaged("a copy that lacks its last page first", cut(0x76_3000)),
        damaged("a copy that is cut in its last page first", cut(0x76_3100)),
        damaged("a copy that lacks its section headers first", cut(whole - 64)),
        damaged(
            "a copy for 32 bits first",
            Elf::library("libcupti.so.12")
                .class(Class::Elf32)
                .machine(Machine::I386)
                .build(),
        ),
        damaged(
            "a copy for AArch64 first",
            Elf::library("libcupti.so.12").machine(Machine::Aarch64).build(),
        ),
        damaged(
            "a copy that needs a newer glibc first",
            Elf::library("libcupti.so.12")
                .needed("libc.so.6")
                .verneed("libc.so.6", "GLIBC_2.99")
                .build(),
        ),
        layout(
            "a folder of that name first",
            PATH,
            vec![Add(Layer::new()
                .dir("opt/first/libcupti.so.12")
                .file("opt/second/libcupti.so.12", cupti_12("libcupti.so.12")))],
        ),
        layout(
            "only a copy for 32 bits",
            PATH,
            vec![Add(Layer::new().file(
                "opt/second/libcupti.so.12",
                Elf::library("libcupti.so.12")
                    .class(Class::Elf32)
                    .machine(Machine::I386)
                    .build(),
            ))],
        ),
    ]
}
