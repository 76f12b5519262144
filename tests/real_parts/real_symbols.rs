//! Compares the missing symbols in the audit with the real `ld.so`, if LD_LIBRARY_PATH has an older CUPTI.

use crate::chroot::Root;
use cupti_audit::facts::ConsumerOutcome;
use testkit::layer::Layer;

const NEW: &str = "nvidia-cuda-cupti-cu12-12.4.127";
const OLD: &str = "nvidia-cuda-cupti-cu12-12.1.105";
const LIB: &str = "nvidia/cuda_cupti/lib";
/// The consumer's calls: old functions of both libraries, new ones of both, and a weak one.
const SOURCE: &str = "
int cuptiGetVersion(void *), cuptiGetErrorMessage(int, void *), cuptiSassMetricsEnable(void *);
int cuptiGetGraphExecId(void *, void *) __attribute__((weak));
int NVPW_InitializeHost(void *), NVPW_Config_GetRawCounters(void *);
int main(int count, char **words) {
  if (count == 1) return 0;
  if (cuptiGetGraphExecId) cuptiGetGraphExecId(0, 0);
  return cuptiGetVersion(words) + cuptiGetErrorMessage(0, words) + cuptiSassMetricsEnable(words)
    + NVPW_InitializeHost(words) + NVPW_Config_GetRawCounters(words);
}";

/// Tests a consumer with the new release in its search path and the old one in LD_LIBRARY_PATH.
fn check(dtags: &str, expected: &[&str]) {
    let new = crate::cupti_parts::wheel(NEW).join(LIB);
    let host = new.join("libnvperf_host.so");
    let rpath = format!("-Wl,--{dtags}-new-dtags,-rpath,/opt/new/{LIB}");
    let arguments = [&rpath, "LIB12", host.to_str().unwrap()];
    let program = crate::cupti_parts::program(SOURCE, &arguments);
    let layer = crate::cupti_parts::pip(Layer::new(), NEW, "opt/new");
    let layer = crate::cupti_parts::pip(layer, OLD, "opt/old").executable("opt/bin/program", &program);
    let mut root = Root::new(b"");
    root.add(&layer);
    let path = format!("LD_LIBRARY_PATH=/opt/old/{LIB}");
    let ours = ours(&root, &path);
    assert_eq!(ours, expected, "ours, {dtags}");
    assert_eq!(real(&root, &path), ours, "the real loader, {dtags}");
    let started = [path.as_str(), "LD_BIND_NOW=1", "/opt/bin/program"];
    let output = root.command(&started).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.success(), expected.is_empty(), "{said}");
    assert!(expected.is_empty() || said.contains("symbol lookup error: "), "{said}");
}

#[test]
fn an_older_copy_lacks_the_symbols_that_the_real_loader_does_not_find() {
    let parts = [NEW, OLD].map(|name| format!("wheels/{name}"));
    if !crate::cupti_parts::are_there() || !parts.iter().all(|part| crate::support::part(part).is_some()) {
        return;
    }
    let lacks = [
        "NVPW_Config_GetRawCounters",
        "cuptiGetErrorMessage",
        "cuptiSassMetricsEnable",
    ];
    check("enable", &lacks);
    check("disable", &[]);
    println!("2 of 2 lists of missing symbols agree with the real loader");
}

/// The CUPTI symbols in the output of `ldd -r`: those that nothing in the process defines.
fn real(root: &Root, path: &str) -> Vec<String> {
    let trace = [
        path,
        "LD_TRACE_LOADED_OBJECTS=1",
        "LD_WARN=yes",
        "LD_BIND_NOW=yes",
        "/opt/bin/program",
    ];
    let output = root.command(&trace).output().unwrap();
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    let mut symbols: Vec<String> = text
        .lines()
        .filter_map(|line| line.split_once("undefined symbol: ")?.1.split([',', '\t', ' ']).next())
        .map(ToOwned::to_owned)
        .collect();
    symbols.sort();
    symbols.dedup();
    symbols
}

fn ours(root: &Root, path: &str) -> Vec<String> {
    let gets = outcome(root, path);
    let text = |name: &image_linkage::elf::ByteString| String::from_utf8_lossy(name).into_owned();
    gets.missing_symbols.iter().map(text).collect()
}

/// The program's outcome.
fn outcome(root: &Root, path: &str) -> ConsumerOutcome {
    let (_, path) = path.split_once('=').unwrap();
    let facts = crate::facts_of_root::facts(root, "/", &[("LD_LIBRARY_PATH", path)], &[]);
    let is_program = |object: &str| object == "/opt/bin/program";
    let mut consumers = facts.answers.consumers.iter();
    let consumer = consumers.find(|consumer| is_program(&consumer.object.to_string()));
    consumer.unwrap().outcome.as_is.clone()
}

/// Opens the library and binds all its symbols.
const OPENER: &str = "
#include <dlfcn.h>
int main(void) { return dlopen(\"libcupti.so.12\", RTLD_NOW) == 0; }";

/// A library that is linked with only these arguments.
fn library(soname: &str, source: &str, words: &[&str]) -> Vec<u8> {
    let soname = format!("-Wl,-soname,{soname}");
    let own = ["-shared", "-fPIC", "-nostdlib", &soname];
    crate::cupti_parts::program(source, &[&own, words].concat())
}

#[test]
fn a_library_without_versions_does_for_nobody_who_was_linked_with_one() {
    if !crate::cupti_parts::are_there() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    std::fs::write(file("versions"), "V1 { global: helps; };").unwrap();
    let script = format!("-Wl,--version-script={}", file("versions").display());
    let helper = |source: &str, words: &[&str]| library("libhelp.so", source, words);
    let (plain, versioned) = ("int helps(void) { return 1; }", [script.as_str()]);
    std::fs::write(file("libhelp.so"), helper(plain, &versioned)).unwrap();
    let needed = file("libhelp.so");
    let cupti = "int helps(void); int cuptiGetVersion(void) { return helps(); }";
    let cupti = library("libcupti.so.12", cupti, &[needed.to_str().unwrap(), "-Wl,-z,lazy"]);
    let mut agreed = 0;
    for (help, loads) in [
        (helper(plain, &versioned), true),
        (helper(plain, &[]), false),
        // Nothing binds to it, and no other object has the symbol.
        (helper("int other(void) { return 1; }", &[]), false),
    ] {
        let layer = Layer::new()
            .executable("opt/lib/libcupti.so.12", &cupti)
            .executable("opt/lib/libhelp.so", &help)
            .executable("opt/bin/program", crate::cupti_parts::program(OPENER, &[]));
        let mut root = Root::new(b"");
        root.add(&layer);
        let path = "LD_LIBRARY_PATH=/opt/lib";
        let real = root.command(&[path, "/opt/bin/program"]).output().unwrap();
        assert_eq!(
            real.status.success(),
            loads,
            "{}",
            String::from_utf8_lossy(&real.stderr)
        );
        let ours = outcome(&root, path);
        assert_eq!(ours.answer.is_loaded(), loads, "{}", ours.answer.message());
        agreed += 1;
    }
    println!("{agreed} of 3 libraries with and without versions agree with the real loader");
}
