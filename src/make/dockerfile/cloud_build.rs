//! The Cloud Build config for a project's Dockerfile.

use super::builder::PytorchBuilder;
use super::project::ProjectDockerfile;
use crate::judge::plan::Verdict;
use crate::make::quote::{comment_line, quote_json};
use crate::make::template::{fill_template, tidy};

/// The time limit in seconds of a step that compiles PyTorch. Two of them fit into the 24 hours of a build.
const COMPILE_SECONDS: u32 = 36_000;

/// The time limit in seconds of any other step; these only install.
const INSTALL_SECONDS: u32 = 600;

/// The build of one target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TargetBuild {
    /// The name of the target and of its phase.
    pub name: String,
    /// The purpose of the target.
    pub says: String,
    /// Whether it is audited.
    pub audited: bool,
    /// The time limit of its build in seconds.
    pub seconds: u32,
    /// The lowest severity with which its audit stops the build. A predicted warning must not stop it.
    pub fail_on: &'static str,
}

impl ProjectDockerfile<'_> {
    /// The builds of the targets in file order.
    pub(super) fn builds(&self) -> Vec<TargetBuild> {
        let mut builds: Vec<TargetBuild> = Vec::new();
        if let Some(builder) = &self.builder {
            let says = match builder.pytorch {
                Some(_) => "compiles PyTorch against CUPTI",
                None => "has what compiles against CUPTI",
            };
            builds.push(self.build_builder(PytorchBuilder::WithCupti, says));
        }
        for target in &self.targets {
            if self.begins_without_cupti(target) {
                builds.push(self.build_builder(PytorchBuilder::WithoutCupti, "compiles PyTorch without CUPTI"));
            }
            builds.push(TargetBuild {
                name: target.phase.to_owned(),
                says: target.summary.to_owned(),
                audited: true,
                seconds: INSTALL_SECONDS,
                fail_on: if target.predicted.verdict == Verdict::Warn {
                    "error"
                } else {
                    "warning"
                },
            });
        }
        builds
    }

    fn build_builder(&self, builder: PytorchBuilder, says: &str) -> TargetBuild {
        TargetBuild {
            name: builder.stage().to_owned(),
            says: says.to_owned(),
            audited: false,
            seconds: if self.builds_pytorch() {
                COMPILE_SECONDS
            } else {
                INSTALL_SECONDS
            },
            fail_on: "",
        }
    }

    /// The Cloud Build config for a file of this name, which pushes to `image`.
    pub(crate) fn cloudbuild(&self, file: &str, image: Option<&str>) -> String {
        let builds = self.builds();
        let machine = if self.builds_pytorch() {
            &self.machines.compiles.machine
        } else {
            &self.machines.installs.machine
        };
        // Cloud Build replaces variables in all fields.
        let file = file.replace('$', "$$");
        let mut before = "'-'".to_owned();
        let mut steps = String::new();
        for build in &builds {
            steps += &build.steps(&file, &before);
            before = format!("build-{}", build.name);
        }
        let audited = builds.iter().filter(|build| build.audited);
        let images =
            audited.map(|TargetBuild { name, .. }| format!("- ${{_IMAGE}}:{name}-$BUILD_ID\n- ${{_IMAGE}}:{name}\n"));
        // Ten more minutes for each audit, the time limit of its step in the template.
        let seconds: u32 = builds.iter().map(|build| build.seconds + 600).sum();
        let image = image.unwrap_or("europe-docker.pkg.dev/$PROJECT_ID/repository/project");
        let values = [
            ("file", comment_line(&file)),
            ("steps", steps),
            ("images", images.collect()),
            ("image", image.to_owned()),
            ("machine", machine.clone()),
            ("seconds", seconds.to_string()),
        ];
        tidy(&fill_template("cloudbuild.yaml", &values))
    }
}

impl TargetBuild {
    /// The steps that build and audit the target after the step `before`.
    fn steps(&self, file: &str, before: &str) -> String {
        let name = &self.name;
        let cache = format!("--cache-from, '${{_IMAGE}}:{name}', --build-arg, BUILDKIT_INLINE_CACHE=1,");
        let values = [
            ("target", name.clone()),
            ("cache", if self.audited { cache } else { String::new() }),
            ("file", quote_json(file)),
            ("before", before.to_owned()),
            ("seconds", self.seconds.to_string()),
        ];
        let build = fill_template("cloudbuild-step.yaml", &values);
        if !self.audited {
            return build + "\n";
        }
        let audited = [("target", name.clone()), ("fail_on", self.fail_on.to_owned())];
        build + &fill_template("cloudbuild-audit.yaml", &audited) + "\n"
    }
}
