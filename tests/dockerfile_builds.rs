//! Does an image that a real Docker Engine builds from our Dockerfile load CUPTI by its own loader, and pass the audit?

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "the judge is a real engine, and what runs in its containers"
)]

#[path = "support/builder.rs"]
mod builder;
#[path = "support/cupti_parts.rs"]
mod cupti_parts;
#[path = "support/engine.rs"]
mod docker;
mod support;

use builder::Builder;

/// Opens what it is told, as a program without search paths does.
const PROBE: &str = include_str!("support/probe.c");

const LIB: &str = "usr/local/cuda-12.4/targets/x86_64-linux/lib";
const INCLUDE: &str = "usr/local/cuda-12.4/extras/CUPTI/include";

/// Makes the images that the tests begin with: `runtime:1` without CUPTI, `devel:1` with all of it, each with a
/// program that opens what it is told.
fn images(builder: &Builder) {
    builder.put("probe", cupti_parts::program(PROBE, &[]));
    for file in [
        "libnvperf_host.so",
        "libnvperf_target.so",
        "libpcsamplingutil.so",
        "libcheckpoint.so",
    ] {
        builder.put(&format!("devel/{LIB}/{file}"), cupti_parts::cupti_12(file));
    }
    let cupti = cupti_parts::cupti_12("libcupti.so.12");
    builder.put(&format!("devel/{LIB}/libcupti.so.2024.1.1"), cupti);
    let wheel = cupti_parts::wheel("nvidia-cuda-cupti-cu12-12.4.127/nvidia/cuda_cupti/include");
    for header in ["cupti.h", "cupti_version.h"] {
        builder.lend(&wheel.join(header), &format!("devel/{INCLUDE}/{header}"));
    }
    let runtime = "FROM debian:12\nCOPY probe /probe\nRUN chmod 755 /probe\nENV CUDA_VERSION=12.4.1\nUSER 1000:1000\n";
    builder.must_build("runtime:1", runtime);
    builder.must_build(
        "devel:1",
        &format!(
            "FROM debian:12\nCOPY devel /\n\
             RUN cd /{LIB} && ln -s libcupti.so.2024.1.1 libcupti.so.12 && ln -s libcupti.so.12 libcupti.so \\\n\
             && ln -s cuda-12.4 /usr/local/cuda && echo /{LIB} > /etc/ld.so.conf.d/000_cuda.conf && ldconfig\n\
             ENV CUDA_VERSION=12.4.1\n"
        ),
    );
}

/// An engine with the images, where every part is there.
fn start() -> Option<Builder> {
    let builder = cupti_parts::are_there().then(Builder::start)??;
    images(&builder);
    Some(builder)
}

/// Builds what is written for an image and a phase; the result passes the audit, and its own loader opens `names`.
/// Returns the bytes that were added.
fn serves(builder: &Builder, image: &str, phase: &str, more: &[&str], names: &[&str]) -> u64 {
    let text = builder.dockerfile(image, phase, more);
    assert_eq!(
        text,
        builder.dockerfile(image, phase, more),
        "the same again"
    );
    let before = builder.audit(image, phase);
    assert_ne!(before.verdict, "pass", "{image}");
    builder.must_build("made:1", &text);
    for name in names {
        let output = builder.run("made:1", &["/probe", "lazy", name]);
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success() && said.contains(name),
            "{name}: {output:?}\n{text}"
        );
    }
    let after = builder.audit("made:1", phase);
    let verdict = (after.verdict.as_str(), after.because.as_slice());
    assert_eq!(verdict, ("pass", [].as_slice()), "{text}");
    let added = builder.size("made:1") - builder.size(image);
    println!("{image} for {phase} {more:?}: {added} bytes more");
    added
}

#[test]
fn files_of_another_image_are_copied_and_no_more_than_the_phase_needs() {
    let Some(builder) = start() else { return };
    let from = ["--from", "docker-daemon:devel:1"];
    let added = serves(
        &builder,
        "runtime:1",
        "training",
        &from,
        &["libcupti.so.12"],
    );
    assert!((7_700_000..7_900_000).contains(&added), "{added}");
    let names = ["libcupti.so.12", "libnvperf_host.so", "libnvperf_target.so"];
    let added = serves(&builder, "runtime:1", "profiling", &from, &names);
    assert!((41_400_000..41_600_000).contains(&added), "{added}");
    // The image's own user is there again.
    let output =
        builder
            .engine
            .must(&["image", "inspect", "--format", "{{.Config.User}}", "made:1"]);
    assert_eq!(output, "1000:1000");
}

#[test]
fn debians_own_package_is_installed_and_what_is_not_needed_takes_no_room() {
    let Some(builder) = start() else { return };
    let image = "FROM debian:12\nCOPY probe /probe\nRUN chmod 755 /probe\n";
    builder.must_build("plain:1", image);
    let added = serves(
        &builder,
        "plain:1",
        "training",
        &["--via", "apt"],
        &["libcupti.so.11.8"],
    );
    // The library, and what apt and dpkg write of it.
    assert!((7_200_000..12_000_000).contains(&added), "{added}");
}
