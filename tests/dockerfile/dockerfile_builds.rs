//! A real Docker Engine builds our Dockerfiles. The resulting images load CUPTI with their own loader and pass the
//! audit.

use crate::builder::{BuildEngine, Builder};
use crate::project_targets;

/// Opens the libraries in its arguments, without a search path of its own.
const PROBE: &str = include_str!("../support/probe.c");

const LIB: &str = "usr/local/cuda-12.4/targets/x86_64-linux/lib";
const INCLUDE: &str = "usr/local/cuda-12.4/extras/CUPTI/include";

/// Makes the base images: `runtime:1` without CUPTI, and `devel:1` with all of it. Each has a program that opens the
/// libraries in its arguments.
fn images(builder: &Builder) {
    builder.put("probe", crate::cupti_parts::program(PROBE, &[]));
    for file in [
        "libnvperf_host.so",
        "libnvperf_target.so",
        "libpcsamplingutil.so",
        "libcheckpoint.so",
    ] {
        builder.put(&format!("devel/{LIB}/{file}"), crate::cupti_parts::cupti_12(file));
    }
    let cupti = crate::cupti_parts::cupti_12("libcupti.so.12");
    builder.put(&format!("devel/{LIB}/libcupti.so.2024.1.1"), cupti);
    let wheel = crate::cupti_parts::wheel("nvidia-cuda-cupti-cu12-12.4.127/nvidia/cuda_cupti/include");
    for header in ["cupti.h", "cupti_version.h"] {
        builder.lend(&wheel.join(header), &format!("devel/{INCLUDE}/{header}"));
    }
    let runtime = "FROM debian:12\nCOPY probe /probe\nRUN chmod 755 /probe\nENV CUDA_VERSION=12.4.1\nUSER 1000:1000\n";
    builder.must_build("runtime:1", runtime);
    builder.must_build(
        "devel:1",
        &format!(
            "FROM runtime:1\nUSER root\nCOPY devel /\n\
             RUN cd /{LIB} && ln -s libcupti.so.2024.1.1 libcupti.so.12 && ln -s libcupti.so.12 libcupti.so \\\n\
             && ln -s cuda-12.4 /usr/local/cuda && echo /{LIB} > /etc/ld.so.conf.d/000_cuda.conf && ldconfig\n\
             ENV CUDA_VERSION=12.4.1\n"
        ),
    );
}

/// An engine with the images; `None` if a part is missing.
fn start() -> Option<Builder> {
    let builder = crate::cupti_parts::are_there().then(Builder::start)??;
    images(&builder);
    Some(builder)
}

/// Builds the Dockerfile for an image and a phase. The result passes the audit, and its own loader opens `names`.
/// Returns the number of added bytes.
fn serves(builder: &Builder, image: &str, phase: &str, more: &[&str], names: &[&str]) -> u64 {
    serves_by(builder, BuildEngine::Classic, image, phase, more, names)
}

/// The same with the given builder.
fn serves_by(builder: &Builder, by: BuildEngine, image: &str, phase: &str, more: &[&str], names: &[&str]) -> u64 {
    let text = builder.dockerfile(image, phase, more);
    assert!(!text.contains("before: pass"), "{text}");
    let output = builder.build_by(by, "made:1", &text, &[]);
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success(), "{by:?}: {text}\n{said}");
    for name in names {
        let output = builder.run("made:1", &["/probe", "lazy", name]);
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success() && said.contains(name),
            "{name}: {output:?}\n{text}"
        );
    }
    let after = builder.audit("made:1", phase);
    assert_eq!(after.said_verdict(), "pass", "{text}");
    assert_eq!(Builder::predicted(&text, phase), "pass", "{text}");
    let added = builder.size("made:1") - builder.size(image);
    near(&text, added);
    println!("{image} for {phase} {more:?}: {added} bytes more");
    added
}

/// The predicted size matches the engine's within 2 %, plus the files that a package manager writes.
fn near(text: &str, added: u64) {
    let Some(predicted) = Builder::predicted_bytes(text) else {
        return;
    };
    #[expect(clippy::cast_precision_loss, reason = "megabytes, to one part in a hundred")]
    let real = added as f64;
    println!("  {predicted} bytes predicted, {real} real");
    assert!(
        (real - predicted).abs() <= real / 50.0 + 20_000.0,
        "{predicted} {real}\n{text}"
    );
}

/// The name of a case, and the function that builds it.
type Case = (&'static str, fn(&Builder));

/// One engine for all cases, because filling it takes longer than most builds.
#[test]
#[ignore = "it builds images for minutes: make test-builds"]
fn what_is_built_is_loaded_by_its_own_loader_and_passes_the_audit() {
    let Some(builder) = start() else { return };
    let cases: [Case; 16] = [
        ("copied files are those of the phase", copied),
        ("files in the image are only led to", in_place),
        ("Debian's own package", own_package),
        ("NVIDIA's package", nvidias_package),
        ("headers alone", headers_alone),
        ("an image without a shell and libgcc_s", without_shell),
        ("what hides it on LD_LIBRARY_PATH", hidden),
        ("a wheel, and what it leaves for inference", wheel),
        ("a target for each phase", project_targets::without_pytorch),
        ("a target for each phase, with PyTorch", project_targets::with_pytorch),
        (
            "a PyTorch that is not what the phase needs",
            project_targets::unlike_pytorch,
        ),
        ("names that are not true", misleading),
        ("what is the user's", of_the_user),
        ("a CUPTI that lacks libgcc_s", without_libgcc),
        ("a result that does not work", broken),
        ("musl, and what is easily lost", easily_lost),
    ];
    // `CUPTI_AUDIT_CASE` selects cases by name.
    let asked = std::env::var("CUPTI_AUDIT_CASE").unwrap_or_default();
    for (name, case) in cases.into_iter().filter(|(name, _)| name.contains(&asked)) {
        println!("{name}");
        let begun = std::time::Instant::now();
        case(&builder);
        println!("{name}: {} s", begun.elapsed().as_secs());
    }
}

fn copied(builder: &Builder) {
    let from = ["--from", "docker-daemon:devel:1"];
    let added = serves(builder, "runtime:1", "training", &from, &["libcupti.so.12"]);
    assert!((7_700_000..7_900_000).contains(&added), "{added}");
    let names = ["libcupti.so.12", "libnvperf_host.so", "libnvperf_target.so"];
    let added = serves(builder, "runtime:1", "profiling", &from, &names);
    assert!((41_400_000..41_600_000).contains(&added), "{added}");
    // The image's own user is restored.
    let user = ["image", "inspect", "--format", "{{.Config.User}}", "made:1"];
    assert_eq!(builder.engine.must(&user), "1000:1000");
}

fn in_place(builder: &Builder) {
    let extras = "/usr/local/cuda-12.4/extras/CUPTI/lib64";
    let moved = format!("FROM devel:1\nRUN mv /{LIB} {extras} && ldconfig\n");
    builder.must_build("extras:1", &moved);
    let names = ["libcupti.so.12", "libnvperf_host.so"];
    let added = serves(builder, "extras:1", "profiling", &[], &names);
    assert!(added < 100_000, "{added}");
    // The directory has other libraries, so only the needed ones get links.
    let shared =
        "FROM extras:1\nRUN cp /lib/x86_64-linux-gnu/libc.so.6 /usr/local/cuda-12.4/extras/CUPTI/lib64/libother.so\n";
    builder.must_build("shared:1", shared);
    serves(builder, "shared:1", "profiling", &[], &names);
    let other = builder.run("made:1", &["/probe", "lazy", "libother.so"]);
    assert!(!other.status.success(), "{other:?}");
}

fn own_package(builder: &Builder) {
    let plain = "FROM debian:12\nCOPY probe /probe\nRUN chmod 755 /probe\n";
    builder.must_build("plain:1", plain);
    let added = serves(builder, "plain:1", "training", &["--via", "apt"], &["libcupti.so.11.8"]);
    // The library, and the files that apt and dpkg write.
    assert!((7_200_000..10_000_000).contains(&added), "{added}");
}

fn nvidias_package(builder: &Builder) {
    nvidias_archive(builder);
    let text = builder.dockerfile("nvidia:1", "profiling", &[]);
    assert!(
        text.contains("cuda-cupti-12-4=12.4.") && !text.contains("keyring"),
        "{text}"
    );
    let names = ["libcupti.so.12", "libnvperf_host.so", "libnvperf_target.so"];
    let added = serves(builder, "nvidia:1", "profiling", &["--via", "apt"], &names);
    assert!((41_400_000..44_000_000).contains(&added), "{added}");
    let added = serves(builder, "nvidia:1", "training", &[], &["libcupti.so.12"]);
    assert!((7_700_000..10_000_000).contains(&added), "{added}");
}

/// Makes `nvidia:1`, which has a package with NVIDIA's layout and files; an archive in the image replaces the repository.
pub fn nvidias_archive(builder: &Builder) {
    let root = "devel/";
    let control = "Package: cuda-cupti-12-4\nVersion: 12.4.127-1\nArchitecture: amd64\nMaintainer: a test\n\
                   Depends: libc6, libgcc-s1\nDescription: CUPTI\n";
    builder.put("control", control);
    builder.put(
        "make",
        format!(
            "set -eu\nmkdir /archive /package /package/DEBIAN\ncp -r /context/{root}usr /package/\n\
        rm -r /package/usr/local/cuda-12.4/extras\ncd /package/{LIB}\nln -s libcupti.so.2024.1.1 libcupti.so.12\n\
        cp /context/control /package/DEBIAN/\ndpkg-deb -Znone --build /package /archive/cupti.deb\n\
        cd /archive\n{{ dpkg-deb --field cupti.deb; echo 'Filename: ./cupti.deb'; echo Size: $(stat -c %s cupti.deb); \
        echo SHA256: $(sha256sum cupti.deb | cut -d' ' -f1); }} > Packages\n\
        echo 'deb [trusted=yes] file:/archive ./' > /etc/apt/sources.list.d/cuda-debian12-x86_64.list\n"
        ),
    );
    let image = "FROM runtime:1 AS archive\nUSER root\nCOPY . /context\nRUN sh /context/make\n\
                 FROM runtime:1\nUSER root\nCOPY --from=archive /archive /archive\n\
                 COPY --from=archive /etc/apt/sources.list.d/ /etc/apt/sources.list.d/\n";
    builder.must_build("nvidia:1", image);
}

/// A common hand-written Dockerfile fails the audit, and ours passes.
fn headers_alone(builder: &Builder) {
    let by_hand =
        "FROM runtime:1\nCOPY --from=devel:1 /usr/local/cuda-12.4/extras/CUPTI /usr/local/cuda/extras/CUPTI\n";
    builder.must_build("headers:1", by_hand);
    let audited = builder.audit("headers:1", "profiling");
    assert_eq!(audited.verdict, "fail");
    assert!(
        audited.because.contains(&"headers-only-cupti".to_owned()),
        "{audited:?}"
    );
    let from = ["--from", "docker-daemon:devel:1"];
    serves(
        builder,
        "headers:1",
        "profiling",
        &from,
        &["libcupti.so.12", "libnvperf_host.so"],
    );
}

fn without_shell(builder: &Builder) {
    let libraries = "ld-linux-x86-64.so.2 libc.so.6 libm.so.6 libpthread.so.0 librt.so.1 libdl.so.2 libutil.so.1";
    let copies: Vec<String> = libraries
        .split(' ')
        .map(|name| format!("COPY --from=debian:12 /lib/x86_64-linux-gnu/{name} /lib/x86_64-linux-gnu/{name}\n"))
        .collect();
    let image = format!(
        "FROM scratch\n{}COPY --from=debian:12 /lib64/ld-linux-x86-64.so.2 /lib64/ld-linux-x86-64.so.2\n\
         COPY --from=runtime:1 /probe /probe\nENV CUDA_VERSION=12.4.1\n",
        copies.concat()
    );
    builder.must_build("small:1", &image);
    // CUPTI is in a directory outside the search path, so it only gets links.
    let unwinder = "/lib/x86_64-linux-gnu/libgcc_s.so.1";
    let lying = format!("FROM small:1\nCOPY --from=debian:12 {unwinder} {unwinder}\nCOPY devel/{LIB} /opt/prof\n");
    builder.must_build("lying:1", &lying);
    for by in builder.builders() {
        let names = ["libcupti.so.12", "libnvperf_host.so"];
        let added = serves_by(builder, by, "lying:1", "profiling", &[], &names);
        assert!(added < 1000, "{added}");
    }
    let from = ["--from", "docker-daemon:devel:1"];
    serves(builder, "small:1", "training", &from, &["libcupti.so.12"]);
    serves(
        builder,
        "small:1",
        "profiling",
        &from,
        &["libcupti.so.12", "libnvperf_host.so"],
    );
}

fn hidden(builder: &Builder) {
    builder.put("text", "no library\n".repeat(20));
    let image = "FROM runtime:1\nCOPY text /opt/bad/libcupti.so.12\nENV LD_LIBRARY_PATH=/opt/bad:\n";
    builder.must_build("hidden:1", image);
    let from = ["--from", "docker-daemon:devel:1"];
    serves(builder, "hidden:1", "training", &from, &["libcupti.so.12"]);
}

/// The environment that pip needs on this machine: certificates, proxies and a package index.
fn pip_environment(builder: &Builder) -> String {
    let certificates = std::env::var("PIP_CERT").unwrap_or_else(|_| "/etc/ssl/certs/ca-certificates.crt".to_owned());
    builder.lend(certificates.as_ref(), "ca.crt");
    let names = [
        "PIP_INDEX_URL",
        "PIP_EXTRA_INDEX_URL",
        "http_proxy",
        "https_proxy",
        "no_proxy",
    ];
    let set = names
        .iter()
        .filter_map(|name| Some(format!("ENV {name}=\"{}\"\n", std::env::var(name).ok()?)));
    ["COPY ca.crt /ca.crt\nENV PIP_CERT=/ca.crt\n".to_owned()]
        .into_iter()
        .chain(set)
        .collect()
}

const SITE: &str = "/opt/venv/lib/python3.11/site-packages";
const TORCH: &str =
    "unsigned cuptiGetVersion(unsigned *); unsigned torch(void) { unsigned v; return cuptiGetVersion(&v); }";
const RPATH: &str = "-Wl,--disable-new-dtags,-rpath,$ORIGIN/../../nvidia/cuda_cupti/lib";

fn wheel(builder: &Builder) {
    let python = format!(
        "FROM runtime:1\nUSER root\n\
         RUN apt-get update && apt-get install -y --no-install-recommends python3-pip python3-venv && apt-get clean \\\n\
         && rm -rf /var/lib/apt/lists/* && python3 -m venv /opt/venv\n{}",
        pip_environment(builder)
    );
    builder.must_build("python:1", &python);
    let names = ["libcupti.so.12", "libnvperf_host.so"];
    let added = serves(builder, "python:1", "profiling", &["--via", "pip"], &names);
    assert!((41_400_000..44_000_000).contains(&added), "{added}");

    // PyTorch links libcupti, and finds it through its DT_RPATH.
    builder.put(
        "torch/lib/libtorch_cpu.so",
        crate::cupti_parts::object(TORCH, &[RPATH, "LIB12"]),
    );
    let metadata =
        "Metadata-Version: 2.1\nName: torch\nVersion: 2.5.1\nRequires-Dist: nvidia-cuda-cupti-cu12 (==12.4.127)\n";
    builder.put("torch-2.5.1.dist-info/METADATA", metadata);
    let torch = format!(
        "FROM python:1\nCOPY torch {SITE}/torch\nCOPY torch-2.5.1.dist-info {SITE}/torch-2.5.1.dist-info\n\
         LABEL by=\"a $test\"\nVOLUME /v\\$d\\\"x\\\\y\nVOLUME [\"/my data\"]\nRUN touch /srv/mine && chown 1000:1000 /srv/mine && chmod 4750 /srv/mine\n\
         USER 1000\nWORKDIR /srv\nCMD [\"python3\", \"-c\", \"print('hello')\"]\n"
    );
    builder.must_build("torch:1", &torch);
    let object = format!("{SITE}/torch/lib/libtorch_cpu.so");
    let text = builder.dockerfile("torch:1", "inference", &[]);
    assert!(text.contains("nvidia-cuda-cupti-cu12==12.4.127"), "{text}");
    let added = serves(builder, "torch:1", "inference", &[], &[&object]);
    assert!((7_700_000..10_000_000).contains(&added), "{added}");

    let whole = "FROM torch:1\nUSER root\nRUN /opt/venv/bin/pip install --no-cache-dir nvidia-cuda-cupti-cu12==12.4.127\nUSER 1000\n";
    builder.must_build("whole:1", whole);
    for_inference(builder, &object);
}

/// Unneeded files are removed, the image shrinks, and everything else is unchanged.
fn for_inference(builder: &Builder, object: &str) {
    let text = builder.dockerfile("whole:1", "inference", &[]);
    builder.must_build("made:1", &text);
    let output = builder.run("made:1", &["/probe", "lazy", object]);
    assert!(output.status.success(), "{output:?}\n{text}");
    let audited = builder.audit("made:1", "inference");
    assert_eq!(audited.verdict, "pass");
    assert_eq!(audited.report["phases"]["inference"]["drop_bytes"], 0);
    let saved = builder.size("whole:1") - builder.size("made:1");
    println!("whole:1 for inference: {saved} bytes less");
    assert!(saved > 36_000_000, "{saved}\n{text}");
    let config = |image: &str| {
        let what = "{{json .Config.Env}} {{json .Config.Cmd}} {{.Config.User}} {{.Config.WorkingDir}} {{json .Config.Labels}} {{json .Config.Volumes}}";
        builder.engine.must(&["image", "inspect", "--format", what, image])
    };
    assert_eq!(config("made:1"), config("whole:1"));
    let file = |image: &str| {
        let said = builder.run(image, &["/bin/stat", "-c", "%u:%g %a", "/srv/mine", "/tmp", "/probe"]);
        String::from_utf8(said.stdout).unwrap()
    };
    assert_eq!(file("made:1"), file("whole:1"));
    // The predicted size equals the size of the only layer.
    let layers = audited.report["image"]["layers"].as_array().unwrap();
    let bytes: u64 = layers.iter().map(|layer| layer["bytes"].as_u64().unwrap()).sum();
    let predicted = text.split("after: about ").nth(1).unwrap().split(' ').next().unwrap();
    let predicted: f64 = predicted.parse().unwrap();
    #[expect(clippy::cast_precision_loss, reason = "megabytes, to one part in a hundred")]
    let real = bytes as f64 / 1e6;
    assert!((real - predicted).abs() < real / 100.0, "{real} MB, not {predicted}");
}

/// Dangling links and links to another release are removed, so that they do not cause warnings.
fn misleading(builder: &Builder) {
    let from = ["--from", "docker-daemon:devel:1"];
    let folder = "/usr/local/cuda-12.4/extras/CUPTI/lib64";
    builder.put("old/libcupti.so.11.8", crate::cupti_parts::cupti_11());
    for (name, names) in [
        ("dangling:1", "ln -s libcupti.so.2024.1.1 libcupti.so.12"),
        (
            "majors:1",
            "mv /old/libcupti.so.11.8 . && ln -s libcupti.so.11.8 libcupti.so.12",
        ),
    ] {
        let image = format!(
            "FROM runtime:1\nUSER root\nCOPY old /old\nRUN mkdir -p {folder} && cd {folder} && {names}\nUSER 1000\n"
        );
        builder.must_build(name, &image);
        for by in builder.builders() {
            serves_by(
                builder,
                by,
                name,
                "profiling",
                &from,
                &["libcupti.so.12", "libnvperf_host.so"],
            );
            let gate = ["--phase", "profiling", "--fail-on", "warning", "docker-daemon:made:1"];
            let output = builder.cupti_audit(&gate);
            assert_eq!(output.status.code(), Some(0), "{name}: {output:?}");
        }
    }
}

/// The user's ldconfig files, a PATH without /sbin, volumes, spaces and triggers are unchanged, and CUPTI is found.
fn of_the_user(builder: &Builder) {
    let own_conf = "RUN echo /opt/mine > /etc/ld.so.conf.d/000-cupti.conf";
    let no_include = "RUN mkdir /opt/mine && printf /opt/mine > /etc/ld.so.conf && cp /lib/x86_64-linux-gnu/libm.so.6 /opt/mine/libmine.so";
    let spaces = "WORKDIR /my work\nRUN cp -r /usr/lib/x86_64-linux-gnu/libm.so.6 'lib m.so'";
    let cases = [
        ("an own file", own_conf, "cat /etc/ld.so.conf.d/000-cupti.conf"),
        (
            "no include",
            no_include,
            "tail -c 9 /etc/ld.so.conf; /sbin/ldconfig -p | grep -c libmine",
        ),
        ("no sbin", "ENV PATH=/usr/bin:/bin", "echo $PATH"),
        ("a volume", "VOLUME /opt", "ls -d /opt"),
        (
            "a volume of the system",
            "VOLUME [\"/etc\", \"/opt\"]",
            "cat /etc/debian_version",
        ),
        ("spaces", spaces, "pwd; ls"),
        (
            "a trigger",
            "ONBUILD RUN touch /triggered",
            "ls /debian-binary 2>&1; true",
        ),
    ];
    for (what, lines, asks) in cases {
        builder.must_build("user:1", &format!("FROM runtime:1\nUSER root\n{lines}\n"));
        let says = |image: &str| {
            let output = builder.run(image, &["/bin/sh", "-c", asks]);
            String::from_utf8(output.stdout).unwrap()
        };
        for by in builder.builders() {
            for more in [
                &["--from", "docker-daemon:devel:1"][..],
                &["--via", "apt", "--cuda", "11.8"],
            ] {
                // Installing with apt is slow and only matters for two of the cases.
                let bears = ["no sbin", "a volume of the system"].contains(&what);
                if more[0] == "--via" && !bears && std::env::var_os("CUPTI_AUDIT_ALL").is_none() {
                    continue;
                }
                // The package would be written into a volume, so this is refused.
                if what == "a volume of the system" && more[0] == "--via" {
                    let output = builder
                        .cupti_audit(&[&["dockerfile", "docker-daemon:user:1", "--phase", "training"], more].concat());
                    let said = String::from_utf8(output.stderr).unwrap();
                    assert!(said.contains("/etc is a volume of the image"), "{said}");
                    continue;
                }
                let name = if more[0] == "--via" {
                    "libcupti.so.11.8"
                } else {
                    "libcupti.so.12"
                };
                println!("{what} by {by:?} {more:?}");
                serves_by(builder, by, "user:1", "training", more, &[name]);
                assert_eq!(says("made:1"), says("user:1"), "{what}");
            }
        }
    }
}

/// Inference needs no added files. For training, missing libraries are copied from an image that has them.
fn without_libgcc(builder: &Builder) {
    let lib = "/usr/lib/x86_64-linux-gnu";
    let image = format!(
        "FROM debian:12 AS whole\nRUN mkdir -p /small/bin /small/sbin /small/etc /small{lib} /small/lib64 /small/usr/bin \\\n\
         && cp /bin/sh /bin/rm /bin/cat /bin/ln /bin/mkdir /small/bin/ && cp {lib}/libselinux.so.1 {lib}/libpcre2-8.so.0 /small{lib}/ && cp /sbin/ldconfig /small/sbin/ \\\n\
         && ln -s usr/lib /small/lib \\\n\
         && for file in ld-linux-x86-64.so.2 libc.so.6 libm.so.6 libpthread.so.0 librt.so.1 libdl.so.2 libutil.so.1; do \\\n\
         cp {lib}/$file /small{lib}/; done && cp /lib64/ld-linux-x86-64.so.2 /small/lib64/\n\
         FROM scratch\nCOPY --from=whole /small /\nCOPY --from=runtime:1 /probe /probe\n\
         COPY devel/{LIB}/libcupti.so.2024.1.1 {lib}/libcupti.so.2024.1.1\nRUN [\"/sbin/ldconfig\"]\nENV CUDA_VERSION=12.4.1\n"
    );
    builder.must_build("unwound:1", &image);
    for by in builder.builders() {
        let text = builder.dockerfile("unwound:1", "inference", &[]);
        assert!(!text.contains("install") && !text.contains("AS cupti"), "{text}");
        assert!(builder.build_by(by, "made:1", &text, &[]).status.success(), "{text}");
        let audited = builder.audit("made:1", "inference");
        assert_eq!(audited.said_verdict(), Builder::predicted(&text, "inference"), "{text}");
        let from = ["--from", "docker-daemon:devel:1"];
        serves_by(builder, by, "unwound:1", "training", &from, &["libcupti.so.12"]);
    }
    let output = builder.cupti_audit(&["dockerfile", "docker-daemon:unwound:1", "--phase", "training"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("libgcc_s.so.1"), "{said}");
}

/// The build fails if the result would not work.
fn broken(builder: &Builder) {
    let from = ["--from", "docker-daemon:devel:1"];
    let text = builder.dockerfile("runtime:1", "profiling", &from);
    let elsewhere = text.replace("echo /opt/cupti/lib >", "echo /opt/elsewhere >");
    let no_host = text.replace(&format!("\"/{LIB}/libnvperf_host.so\", "), "");
    let no_libgcc = text.replace("USER 1000:1000", "RUN rm /lib/x86_64-linux-gnu/libgcc_s.so.1");
    let no_cupti = text.replace("USER 1000:1000", "RUN echo text > /opt/cupti/lib/libcupti.so.2024.1.1");
    for (broken, says) in [
        (elsewhere, "libcupti.so.12' from LD_PRELOAD cannot be preloaded"),
        (no_host, "libnvperf_host.so' from LD_PRELOAD cannot be preloaded"),
        (no_libgcc, "libgcc_s.so.1"),
        (no_cupti, "file too short"),
    ] {
        assert_ne!(broken, text, "{says}");
        let output = builder.build("broken:1", &broken, &[]);
        let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        assert!(!output.status.success() && said.contains(says), "{says}: {said}");
    }
}

/// A small image with musl, and files and settings that builders lose.
const EASILY_LOST: &str = r#"set -eu
mkdir -p bin lib srv opt/bin etc tmp usr/local/cuda/lib64
for name in sh ln mkdir rm cat stat; do ln -s busybox bin/$name; done
cp -L /lib/ld-musl-x86_64.so.1 lib/
head -c 3000000 /dev/zero > usr/local/cuda/lib64/libcublas_static.a
ln usr/local/cuda/lib64/libcublas_static.a usr/local/cuda/lib64/libcurand_static.a
head -c 2000000 /dev/zero > srv/1
ln srv/1 srv/2
mkfifo srv/fifo
mknod srv/null c 1 3
echo mine > srv/guarded
python3 - << 'END'
import os, struct
rows = [(1, 6, -1), (2, 4, 1000), (4, 4, -1), (16, 4, -1), (32, 4, -1)]
rows = b"".join(struct.pack("<HHi", *row) for row in rows)
os.setxattr("srv/guarded", "system.posix_acl_access", struct.pack("<I", 2) + rows)
END
tar --xattrs --xattrs-include='*' -cf ../root.tar .
"#;

fn easily_lost(builder: &Builder) {
    let root = builder.at("root");
    std::fs::create_dir_all(root.join("bin")).unwrap();
    let busybox = crate::support::part("launchers").unwrap().join("bin/busybox");
    std::fs::copy(busybox, root.join("bin/busybox")).unwrap();
    let made = std::process::Command::new("sh")
        .args(["-c", EASILY_LOST])
        .current_dir(&root)
        .output()
        .unwrap();
    assert!(made.status.success(), "{made:?}");
    builder
        .engine
        .must(&["import", builder.at("root.tar").to_str().unwrap(), "musl:1"]);
    let settings = "FROM musl:1\nENV PATH=/opt/bin TABBED=\"a\tb  \\\\c \\$D\"\nLABEL by=\"a\tb\"\n\
                    HEALTHCHECK CMD test\t-e /srv/1\nONBUILD RUN true\t1\n";
    builder.must_build("lost:1", settings);
    let config = |image: &str| {
        let what = "{{json .Config.Env}} {{json .Config.Labels}} {{json .Config.Healthcheck}} {{json .Config.OnBuild}}";
        builder.engine.must(&["image", "inspect", "--format", what, image])
    };
    let version = builder.engine.must(&["version", "--format", "{{.Server.Version}}"]);
    let is_before_24 = version.split('.').next().unwrap().parse::<u32>().unwrap() < 24;
    let text = builder.dockerfile("lost:1", "inference", &[]);
    assert!(text.contains("static-libraries, 3.0 MB: "), "{text}");
    for loss in [": /srv/fifo and 1 more\n", " slim keeps them: /srv/guarded\n"] {
        assert!(text.contains(loss), "{text}");
    }
    for by in builder.builders() {
        let output = builder.build_by(by, "made:1", &text, &[]);
        assert!(output.status.success(), "{by:?}: {text}\n{output:?}");
        assert_eq!(config("made:1"), config("lost:1"));
        let audited = builder.audit("made:1", "inference");
        assert_eq!(audited.said_verdict(), Builder::predicted(&text, "inference"), "{text}");
        let layers = audited.report["image"]["layers"].as_array().unwrap();
        let bytes: u64 = layers.iter().map(|layer| layer["bytes"].as_u64().unwrap()).sum();
        let after = text.split("after: about ").nth(1).unwrap().split(' ').next().unwrap();
        #[expect(clippy::cast_precision_loss, reason = "megabytes, to one part in twenty")]
        let real = bytes as f64 / 1e6;
        let after: f64 = after.parse().unwrap();
        assert!((real - after).abs() < 0.1, "{real} MB, not {after}");
        let words = ["/bin/stat", "-c", "%n %F", "/srv/fifo", "/srv/null"];
        let said = builder.run("made:1", &words);
        let kinds = String::from_utf8(said.stdout).unwrap();
        let kept = "/srv/fifo fifo\n/srv/null character special file\n";
        let is_lost = by == BuildEngine::BuildKit && is_before_24;
        assert_eq!(
            kinds,
            if is_lost {
                "/srv/null regular empty file\n"
            } else {
                kept
            },
            "{by:?}"
        );
    }
}
