//! Dockerfiles for generated images: the result matches the prediction, and every program that loaded CUPTI still does.
//!
//! The program writes a Dockerfile for each phase of each image. Each builder builds one of them, and the result is
//! audited and started. `CUPTI_AUDIT_ALL=1` builds forty images with each builder instead of four.

use std::collections::BTreeMap;

use crate::builder::{BuildEngine, Builder};
use crate::processes::runner::Outcome;
use crate::processes::spec::ImageSpec;
use crate::processes::world::WORLD;
use crate::processes::{audit, engine_images, generate, layers};

/// The first seed.
const FIRST: u64 = 20_001;
/// The number of images built by `make test` and by `make test-all`.
const BUILT: (usize, usize) = (4, 40);
const PHASES: [&str; 3] = ["training", "profiling", "inference"];
const FROM: [&str; 2] = ["--from", "docker-daemon:devel:1"];

/// The results of all builds.
#[derive(Debug, Default)]
struct Tally {
    written: usize,
    refused: usize,
    built: usize,
    verdicts: usize,
    sizes: usize,
    measured: usize,
    got: usize,
    stays: usize,
    differences: Vec<String>,
    reasons: BTreeMap<String, usize>,
}

#[test]
#[ignore = "it builds images for minutes: make test-builds"]
fn generated_images_become_what_was_predicted_and_their_programs_still_get_cupti() {
    let Some(world) = &*WORLD else { return };
    let Some(builder) = crate::cupti_parts::are_there().then(Builder::start).flatten() else {
        return;
    };
    devel(&builder);
    let built = if std::env::var_os("CUPTI_AUDIT_ALL").is_some() {
        BUILT.1
    } else {
        BUILT.0
    };
    let seeds = FIRST..FIRST + 2 * built as u64;
    // `CUPTI_AUDIT_SEED` selects one image.
    let asked = std::env::var("CUPTI_AUDIT_SEED").ok();
    let asked = asked.map(|seed| usize::try_from(seed.parse::<u64>().unwrap() - FIRST).unwrap());
    let built = asked.map_or(built, |_| 1);
    let specs: Vec<ImageSpec> = seeds.map(generate::make).collect();
    let image = |spec: &ImageSpec| {
        let members = layers::members(spec, &world.compiler, world.base(spec));
        audit::image(world, spec, &members)
    };
    let images: Vec<_> = specs.iter().map(image).collect();
    engine_images::load(&builder.engine, &images);
    let mut tally = Tally::default();
    for (number, spec) in specs.iter().enumerate() {
        if asked.is_some_and(|asked| asked != number) {
            continue;
        }
        if tally.built >= built * builder.builders().len() {
            break;
        }
        one(&builder, number, spec, &mut tally);
    }
    println!(
        "{} of {} built images agree with the verdict that was predicted, {} of {} with the bytes; {} of {} programs that got CUPTI before get it after ({} Dockerfiles written, {} refused)",
        tally.verdicts, tally.built, tally.sizes, tally.measured, tally.stays, tally.got, tally.written, tally.refused
    );
    for (why, count) in &tally.reasons {
        println!("  {count} refused: {why}");
    }
    assert!(tally.differences.is_empty(), "{}", tally.differences.join("\n\n"));
    assert!(tally.built >= built * builder.builders().len(), "{tally:?}");
}

/// The image that files are copied from, with the system programs that a `RUN` needs.
fn devel(builder: &Builder) {
    for file in ["libcupti.so.12", "libnvperf_host.so", "libnvperf_target.so"] {
        builder.put(&format!("devel/opt/lib/{file}"), crate::cupti_parts::cupti_12(file));
    }
    // The image is read for every Dockerfile, so it is small. It has the proof's programs, and the libraries that they
    // and CUPTI need.
    let lib = "/usr/lib/x86_64-linux-gnu";
    let image = format!(
        "FROM debian:12 AS whole\nRUN mkdir -p /t/bin /t/sbin /t/etc /t/lib64 /t/tmp /t{lib} && ln -s usr/lib /t/lib \
         && cp /bin/sh /bin/rm /bin/ln /bin/mkdir /bin/cat /bin/cp /t/bin/ && cp /sbin/ldconfig /usr/sbin/chroot /t/sbin/ \
         && cp /lib64/ld-linux-x86-64.so.2 /t/lib64/ && cd {lib} && cp ld-linux-x86-64.so.2 libc.so.6 libm.so.6 \
         libpthread.so.0 librt.so.1 libdl.so.2 libutil.so.1 libgcc_s.so.1 libselinux.so.1 libpcre2-8.so.0 libacl.so.1 \
         libattr.so.1 /t{lib}/\nFROM scratch\nCOPY --from=whole /t /\nCOPY devel /\n\
         RUN echo /opt/lib > /etc/ld.so.conf && ldconfig\nENV PATH=/bin:/sbin\n"
    );
    builder.must_build("devel:1", &image);
}

/// Every other image gets system programs. An image without them is tested in a copy that has them.
fn base(builder: &Builder, number: usize, spec: &ImageSpec) -> String {
    let name = format!("generated:n{number}");
    if number.is_multiple_of(2) {
        return name;
    }
    let tools = "/bin/rm /bin/ln /bin/mkdir /bin/cat /bin/cp";
    let tooled = format!("tooled:n{number}");
    let user = spec
        .user
        .as_ref()
        .map(|user| format!("USER {user}\n"))
        .unwrap_or_default();
    let lib = "/usr/lib/x86_64-linux-gnu";
    builder.must_build(
        &tooled,
        &format!(
            "FROM debian:12 AS whole\nRUN mkdir -p /t/usr/bin /t/usr/sbin /t{lib} && cp {tools} /t/usr/bin/ \
             && cp /sbin/ldconfig /t/usr/sbin/ && cp {lib}/libselinux.so.1 {lib}/libpcre2-8.so.0 {lib}/libacl.so.1 {lib}/libattr.so.1 /t{lib}/\n\
             FROM {name}\nUSER 0\nCOPY --from=whole /t/usr/ /usr/\n{user}"
        ),
    );
    tooled
}

fn one(builder: &Builder, number: usize, spec: &ImageSpec, tally: &mut Tally) {
    let base = base(builder, number, spec);
    let mut texts = Vec::new();
    for phase in PHASES {
        let name = format!("docker-daemon:{base}");
        let output = builder.cupti_audit(&[&["dockerfile", &name, "--phase", phase], &FROM[..]].concat());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        if output.status.success() {
            tally.written += 1;
            texts.push((phase, String::from_utf8(output.stdout).unwrap()));
        } else {
            tally.refused += 1;
            assert_eq!((output.status.code(), said.lines().count()), (Some(2), 1), "{said}");
            // The reason for the last method, or the only reason.
            let why = said.trim().rsplit("; ").nth(1).unwrap_or(&said);
            *tally.reasons.entry(why.replace(&base, "IMAGE")).or_default() += 1;
        }
    }
    // The phase varies with the image number, so that all phases are built.
    let Some((phase, text)) = texts.get(number % texts.len().max(1)) else {
        return;
    };
    let before = builder.outcome(&base);
    for by in builder.builders() {
        build(builder, by, &base, (*phase, text), &before, tally);
    }
}

fn build(
    builder: &Builder,
    by: BuildEngine,
    base: &str,
    (phase, text): (&str, &String),
    before: &Outcome,
    tally: &mut Tally,
) {
    let output = builder.build_by(by, "made:1", text, &[]);
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    tally.built += 1;
    if !output.status.success() {
        tally
            .differences
            .push(format!("{base} {phase} by {by:?} is not built: {text}\n{said}"));
        return;
    }
    let (predicted, real) = (
        Builder::predicted(text, phase),
        builder.audit("made:1", phase).said_verdict(),
    );
    if predicted == real {
        tally.verdicts += 1;
    } else {
        tally.differences.push(format!(
            "{base} {phase} by {by:?}: {predicted} predicted, {real} real: {text}"
        ));
    }
    if let Some(bytes) = Builder::predicted_bytes(text).filter(|_| !text.contains("FROM scratch AS")) {
        tally.measured += 1;
        #[expect(clippy::cast_precision_loss, reason = "megabytes, to one part in a hundred")]
        let added = builder.size("made:1") as f64 - builder.size(base) as f64;
        if (added - bytes).abs() <= added / 50.0 + 20_000.0 {
            tally.sizes += 1;
        } else {
            tally.differences.push(format!(
                "{base} {phase} by {by:?}: {bytes} bytes predicted, {added} real: {text}"
            ));
        }
    }
    if matches!(before, Outcome::Gets(_)) {
        tally.got += 1;
        let after = builder.outcome("made:1");
        if matches!(after, Outcome::Gets(_)) {
            tally.stays += 1;
        } else {
            tally.differences.push(format!(
                "{base} {phase} by {by:?}: {before:?} before, {after:?} after: {text}"
            ));
        }
    }
}

impl Builder {
    /// The result of the process that an image starts.
    fn outcome(&self, image: &str) -> Outcome {
        let output = self.engine.docker(&["run", "--rm", "--network=none", image]);
        let text = [output.stdout, output.stderr].concat();
        let status = output
            .status
            .code()
            .map_or("signal".to_owned(), |code| code.to_string());
        crate::processes::runner::outcome(&String::from_utf8_lossy(&text), &status)
    }
}
