//! The stages that compile against CUPTI, and PyTorch in them.

use super::builder_stage::BuilderStage;
use super::instruction::ROOT;
use crate::knowledge::packages::CloudBuildMachine;
use crate::make::shell::command_line::CommandLine;
use crate::make::template::fill_template;
use crate::shell_quote::quote_shell;

/// The stage that compiles against CUPTI.
#[derive(Debug, Clone)]
pub(crate) struct ProjectBuilder {
    pub stage: BuilderStage,
    /// How PyTorch is built, if it is.
    pub pytorch: Option<PytorchBuild>,
}

/// How PyTorch is built from source.
#[derive(Debug, Clone)]
pub(crate) struct PytorchBuild {
    /// The address of the repository.
    pub url: String,
    /// The tag or branch.
    pub reference: String,
    /// The compute capabilities, with the names of their architectures.
    pub capabilities: Vec<(String, String)>,
    /// Whether the user chose them.
    pub has_chosen_gpus: bool,
    /// The number of compilers at a time.
    pub jobs: u32,
    /// The most gigabytes that one compiler takes.
    pub job_memory: u32,
    /// The Cloud Build machine that has the memory for them.
    pub machine: CloudBuildMachine,
}

/// The stage that compiles the PyTorch of a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PytorchBuilder {
    WithCupti,
    WithoutCupti,
}

impl PytorchBuilder {
    /// The name of the stage.
    pub(crate) fn stage(self) -> &'static str {
        match self {
            Self::WithCupti => "builder",
            Self::WithoutCupti => "builder-without-cupti",
        }
    }
}

impl ProjectBuilder {
    /// The stage with the headers and the library, and PyTorch if it is built.
    pub(super) fn stage_text(&self) -> String {
        let BuilderStage {
            from,
            headers,
            loader,
            soname,
            ..
        } = &self.stage;
        let tests: Vec<String> = headers
            .iter()
            .map(|header| format!("test -f {}", quote_shell(header)))
            .collect();
        let list = CommandLine::new("")
            .arg(loader)
            .text(" --list ")
            .arg(soname)
            .text(" > /dev/null");
        let stage = format!(
            "\n# Compiling against CUPTI needs its headers and library. The image that CUPTI is copied from has both.\n\
             FROM {from} AS builder\n{ROOT}RUN {{ {}; }} \\\n    && {}\n",
            tests.join(" || "),
            String::from(list),
        );
        let pytorch = self.pytorch.as_ref().map(|pytorch| self.compile_pytorch(pytorch));
        stage + &pytorch.unwrap_or_default()
    }

    fn compile_pytorch(&self, pytorch: &PytorchBuild) -> String {
        let gpus = pytorch
            .capabilities
            .iter()
            .map(|(capability, name)| format!("{capability} {name}"));
        let capabilities = pytorch.capabilities.iter().map(|(capability, _)| capability.as_str());
        let why_these_gpus = if pytorch.has_chosen_gpus {
            "chosen with --gpu"
        } else {
            "name only those of your GPUs to compile less"
        };
        let values = [
            ("reference", pytorch.reference.clone()),
            ("url", pytorch.url.clone()),
            ("gpus", gpus.collect::<Vec<_>>().join(", ")),
            ("why_these_gpus", why_these_gpus.to_owned()),
            ("capabilities", capabilities.collect::<Vec<_>>().join(";")),
            ("job_memory", pytorch.job_memory.to_string()),
            ("machine", pytorch.machine.machine.clone()),
            ("machine_memory", pytorch.machine.memory.to_string()),
            ("jobs", pytorch.jobs.to_string()),
            ("compile", self.compile_commands()),
            ("soname", self.stage.soname.clone()),
        ];
        fill_template("pytorch-builder.Dockerfile", &values)
    }

    /// The stage with a PyTorch that does not link libcupti.
    pub(super) fn stage_without_cupti(&self) -> String {
        let values = [
            ("compile", self.compile_commands()),
            ("soname", self.stage.soname.clone()),
        ];
        fill_template("pytorch-without-cupti.Dockerfile", &values)
    }

    fn compile_commands(&self) -> String {
        fill_template("pytorch-compile.sh", &[("loader", quote_shell(&self.stage.loader))])
    }
}
