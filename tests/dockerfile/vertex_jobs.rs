//! The Vertex AI jobs of `dockerfile --vertex`. `tests/real_parts/real_vertex.rs` reads them by Google's definition.

use std::fs;
use std::path::Path;
use std::process::Output;

const IMAGE: &str = "europe-docker.pkg.dev/p/r/trainer";

fn run(folder: &Path, image: &str, options: &[&str]) -> Output {
    let vertex = format!("--vertex={}", folder.display());
    let image = format!("oci:testdata/images/{image}");
    let arguments = [
        "dockerfile",
        &image,
        "--base",
        "trainer:1",
        &vertex,
        "--bucket",
        "gs://traces/",
    ];
    crate::support::run(&[&arguments, options].concat())
}

/// The error, for options that are refused. No file may be left.
fn refused(image: &str, options: &[&str]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let output = run(folder.path(), image, options);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn each_phase_gets_a_job_and_only_phases_with_a_profiler_get_tensorboard() {
    let folder = tempfile::tempdir().unwrap();
    let board = [
        "--tensorboard",
        "projects/p/locations/l/tensorboards/7",
        "--service-account",
        "a@p",
    ];
    let options = [&["--all-phases", "--image-uri", IMAGE][..], &board].concat();
    let output = run(folder.path(), "no-cupti", &options);
    assert!(output.status.success(), "{output:?}");
    for phase in ["training", "profiling", "inference"] {
        let job = fs::read_to_string(folder.path().join(format!("vertex-{phase}.yaml"))).unwrap();
        insta::assert_snapshot!(format!("vertex_{phase}"), job);
    }
    let again = run(folder.path(), "no-cupti", &options);
    let said = String::from_utf8(again.stderr).unwrap();
    assert!(
        said.contains("vertex-training.yaml is there already; --force writes over it"),
        "{said}"
    );
}

#[test]
fn a_job_for_one_phase_keeps_the_tag_of_its_image() {
    let folder = tempfile::tempdir().unwrap();
    let output = run(
        folder.path(),
        "no-cupti",
        &["--phase", "training", "--image-uri", "reg:5000/trainer:7"],
    );
    assert!(output.status.success(), "{output:?}");
    let job = fs::read_to_string(folder.path().join("vertex-training.yaml")).unwrap();
    assert!(job.contains("imageUri: \"reg:5000/trainer:7\"\n"), "{job}");
}

#[test]
fn a_job_that_could_not_work_is_refused() {
    let training = ["--phase", "training", "--image-uri", IMAGE];
    for (image, options, says) in [
        (
            "no-cupti",
            &[&training[..], &["--accelerator", "b200:8"]].concat()[..],
            "error: CUPTI of CUDA 12.4 does not support NVIDIA_B200, which needs CUDA 12.8 and newer; \
             choose another GPU with --accelerator\n",
        ),
        (
            "devel",
            &[&training[..], &["--accelerator", "b200:8"]].concat(),
            "error: CUPTI of CUDA 12.4 does not support NVIDIA_B200, which needs CUDA 12.8 and newer; \
             choose another GPU with --accelerator\n",
        ),
        (
            "no-cupti",
            &[&training[..], &["--accelerator", "l4:3"]].concat(),
            "error: no machine with 3 NVIDIA_L4 is known; there is one with 1, 2, 4, 8\n",
        ),
        (
            "no-cupti",
            &["--all-phases", "--image-uri", "trainer:1"],
            "error: trainer:1 is one image, and each phase has its own: leave out the tag\n",
        ),
    ] {
        assert_eq!(refused(image, options), says);
    }
    let arm = refused("arm64", &[&training[..], &["--platform", "linux/arm64"]].concat());
    assert!(
        arm.ends_with("is for arm64, and the known machines of Vertex AI are amd64\n"),
        "{arm}"
    );
    for (options, says) in [
        (&["--phase", "training"][..], "--image-uri <NAME>"),
        (
            &[
                &training[..],
                &["--tensorboard", "projects/p/locations/l/tensorboards/7"],
            ]
            .concat(),
            "--service-account <EMAIL>",
        ),
        (
            &[&training[..], &["--tensorboard", "7"]].concat(),
            "expected projects/PROJECT/locations/REGION/tensorboards/ID",
        ),
        (
            &[&training[..], &["--service-account", "trainer"]].concat(),
            "expected NAME@PROJECT.iam.gserviceaccount.com",
        ),
        (
            &["--phase", "training", "--image-uri", "a b"],
            "the name of an image cannot be written",
        ),
    ] {
        let said = refused("no-cupti", options);
        assert!(said.contains(says), "{said}");
    }
}
