//! A Dockerfile with a target for each phase of a project, and the Cloud Build config for it.

use serde::Serialize;

use super::phase_page::PhasePage;
use super::templates::{DockerfileTemplates, TemplateError, tidy};
use crate::judge::plan::Verdict;
use crate::knowledge::packages::{CloudBuildMachine, CloudBuildMachines};
use crate::make::remedy::builder_stage::BuilderStage;
use crate::make::remedy::copy_plan::{CopiedFile, CopyPlan};
use crate::make::remedy::install_folder::FolderDiscovery;
use crate::make::remedy::install_method::InstallMethod;
use crate::make::remedy::method_choice::ConsideredMethod;
use crate::make::remedy::phase_recipe::BroughtRelease;
use crate::make::remedy::required_libraries::RequiredLibrary;
use crate::make::remedy::search_path_setup::SearchPathSetup;
use image_linkage::path::RootPath;

/// The folder of the CUPTI stage; the phases copy CUPTI from it.
const GATHERED: &str = "/cupti";

/// The time limit in seconds of a Cloud Build step that compiles PyTorch. Two of them fit into the 24 hours of a build.
const COMPILE_SECONDS: u32 = 36_000;

/// The time limit in seconds of any other step; these only install.
const INSTALL_SECONDS: u32 = 600;

/// The input for a project's Dockerfile.
pub(crate) struct ProjectDockerfile<'a> {
    /// The pages of the phases in project order. The targets that install CUPTI share the layers of the first of them.
    pub pages: Vec<PhasePage<'a>>,
    pub builder: Option<BuilderPage>,
    /// The machines of Cloud Build.
    pub machines: &'a CloudBuildMachines,
}

/// The stage that compiles against CUPTI.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct BuilderPage {
    #[serde(flatten)]
    pub stage: BuilderStage,
    /// How PyTorch is built, if it is.
    pub pytorch: Option<PytorchBuild>,
}

/// How PyTorch is built from source.
#[derive(Debug, Clone, Serialize)]
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

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct BuildTarget {
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

#[derive(Serialize)]
struct ProjectPage<'a> {
    image: &'a str,
    triggers: &'a [String],
    gpus: &'a str,
    targets: Vec<BuildTarget>,
    considered: &'a [ConsideredMethod],
    release: Option<&'a BroughtRelease>,
    source: String,
    builder: String,
    /// The text of each target.
    sections: Vec<String>,
}

impl<'a> ProjectDockerfile<'a> {
    /// The targets in file order.
    pub(crate) fn targets(&self) -> Vec<BuildTarget> {
        let mut targets: Vec<BuildTarget> = Vec::new();
        if let Some(builder) = &self.builder {
            let says = match builder.pytorch {
                Some(_) => "compiles PyTorch against CUPTI",
                None => "has what compiles against CUPTI",
            };
            targets.push(self.builder_target(PytorchBuilder::WithCupti, says));
        }
        for page in &self.pages {
            if self.begins_without_cupti(page) {
                targets.push(self.builder_target(PytorchBuilder::WithoutCupti, "compiles PyTorch without CUPTI"));
            }
            targets.push(BuildTarget {
                name: page.phase.to_owned(),
                says: page.summary.to_owned(),
                audited: true,
                seconds: INSTALL_SECONDS,
                fail_on: if page.recipe.predicted.verdict == Verdict::Warn {
                    "error"
                } else {
                    "warning"
                },
            });
        }
        targets
    }

    fn builder_target(&self, builder: PytorchBuilder, says: &str) -> BuildTarget {
        BuildTarget {
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

    /// Whether the page is the first whose PyTorch does not link libcupti. The stage that compiles it is before this
    /// page, because Docker's classic builder builds every stage up to its target.
    fn begins_without_cupti(&self, page: &PhasePage<'_>) -> bool {
        let is_without = |page: &&PhasePage<'_>| page.pytorch.as_ref().is_some_and(|pytorch| !pytorch.links_cupti);
        self.pages
            .iter()
            .find(is_without)
            .is_some_and(|first| first.phase == page.phase)
    }

    /// The Dockerfile with a target for each phase.
    ///
    /// Errors: [`TemplateError`] if a template fails.
    pub(crate) fn dockerfile(&self, templates: &DockerfileTemplates) -> Result<String, TemplateError> {
        // The needs of the phases are nested, so the longest list covers all of them.
        let brings = self.bringing_pages().max_by_key(|page| page.recipe.needs.len());
        let source = match brings {
            Some(page) => source(templates, page)?,
            None => String::new(),
        };
        let mut sections = Vec::new();
        let mut before: Option<PhasePage<'_>> = None;
        for page in &self.pages {
            if self.begins_without_cupti(page) {
                sections.push(templates.render("builder-without-cupti.j2", &self.builder)?);
            }
            let brings = page.recipe.way.is_some() && page.recipe.removal.is_none();
            let page = shared(page, before.as_ref());
            sections.push(templates.render("target.j2", &page)?);
            // Every target with CUPTI is based on the first of them; no other target is.
            before = before.or(Some(page).filter(|_| brings));
        }
        let builder = match &self.builder {
            Some(builder) => templates.render("builder.j2", builder)?,
            None => String::new(),
        };
        let first = self.pages.first();
        let all = ProjectPage {
            image: first.map(|page| page.image.as_str()).unwrap_or_default(),
            triggers: first.map(|page| page.triggers).unwrap_or_default(),
            gpus: first.map(|page| page.gpus.as_str()).unwrap_or_default(),
            targets: self.targets(),
            considered: brings.map(|page| &*page.recipe.considered).unwrap_or_default(),
            release: brings.and_then(|page| page.recipe.release.as_ref()),
            source,
            builder,
            sections,
        };
        Ok(tidy(&templates.render("all.j2", all)?))
    }

    fn bringing_pages(&self) -> impl Iterator<Item = &PhasePage<'a>> {
        self.pages.iter().filter(|page| page.recipe.way.is_some())
    }

    fn builds_pytorch(&self) -> bool {
        self.builder.as_ref().is_some_and(|builder| builder.pytorch.is_some())
    }

    /// The Cloud Build config for a file of this name, which pushes to `image`.
    ///
    /// Errors: [`TemplateError`] if a template fails.
    pub(crate) fn cloudbuild(
        &self,
        templates: &DockerfileTemplates,
        file: &str,
        image: Option<&str>,
    ) -> Result<String, TemplateError> {
        #[derive(Serialize)]
        struct CloudBuild<'f> {
            file: &'f str,
            image: &'f str,
            machine: &'f str,
            seconds: u32,
            targets: Vec<BuildTarget>,
        }
        let targets = self.targets();
        let page = CloudBuild {
            // Cloud Build replaces variables in all fields.
            file: &file.replace('$', "$$"),
            image: image.unwrap_or("europe-docker.pkg.dev/$PROJECT_ID/repository/project"),
            machine: if self.builds_pytorch() {
                &self.machines.compiles.machine
            } else {
                &self.machines.installs.machine
            },
            // Ten more minutes for each audit, the time limit of its step in the template.
            seconds: targets.iter().map(|target| target.seconds + 600).sum(),
            targets,
        };
        Ok(tidy(&templates.render("cloudbuild.yaml.j2", page)?))
    }
}

/// A page that copies its files from the shared stage. If it installs CUPTI, it is based on the first target that does,
/// unless that one has another PyTorch.
fn shared<'a>(page: &PhasePage<'a>, first: Option<&PhasePage<'a>>) -> PhasePage<'a> {
    let brings = page.recipe.way.is_some() && page.recipe.removal.is_none();
    let mut page = gathered(page);
    let Some(first) = first.filter(|first| brings && first.pytorch == page.pytorch) else {
        return page;
    };
    if let (Some(InstallMethod::Copy { copy_plan, .. }), Some(InstallMethod::Copy { copy_plan: had, .. })) =
        (&mut page.recipe.way, &first.recipe.way)
    {
        copy_plan
            .files
            .retain(|file| !had.files.iter().any(|other| other.to == file.to));
        copy_plan.links.clear();
        let has_all = copy_plan.files.is_empty();
        page.recipe.clears.clear();
        // Based on that target, so that the shared layers are stored and pushed once.
        first.phase.clone_into(&mut page.base);
        page.is_named_below = true;
        if has_all {
            page.recipe.way = None;
        }
        page.pytorch = None;
    }
    page
}

fn is_installed(page: &PhasePage<'_>) -> bool {
    let way = page.recipe.way.as_ref();
    way.is_some_and(|way| way.copy_plan().is_none())
}

/// The stage with the files: the image that contains them, or a stage that installs them.
fn source(templates: &DockerfileTemplates, page: &PhasePage<'_>) -> Result<String, TemplateError> {
    let stages = templates.render("stages.j2", page)?;
    if !is_installed(page) {
        return Ok(stages);
    }
    // Only the files are copied from this stage, so it needs no cleanup and no search path.
    let mut whole = page.clone();
    whole.recipe.spare = Vec::new();
    whole.recipe.search_setup = SearchPathSetup::nothing("");
    Ok(stages + &templates.render("gather.j2", whole)?)
}

/// The page with its files copied from the shared stage.
fn gathered<'a>(page: &PhasePage<'a>) -> PhasePage<'a> {
    let mut page = page.clone();
    if !is_installed(&page) {
        return page;
    }
    let search = page.recipe.search.clone();
    let file = |need: &RequiredLibrary| {
        let name = page.library.loaded_name(need.stem, &page.soname).as_bytes();
        CopiedFile::unread(
            RootPath::from(GATHERED).join(name),
            &search.folder,
            need.because.clone(),
        )
    };
    // The stage stores each file under its requested name, so no links are needed.
    page.recipe.way = Some(InstallMethod::Copy {
        from: String::new(),
        copy_plan: CopyPlan {
            soname: page.soname.as_bytes().into(),
            release: None,
            files: page.recipe.needs.iter().map(file).collect(),
            links: Vec::new(),
            search: search.clone(),
        },
        is_read: false,
    });
    page.recipe.search_setup = match search.by {
        FolderDiscovery::Conf(conf) => SearchPathSetup::Folder {
            conf,
            folder: search.folder,
            because: "ldconfig finds it for every process".to_owned(),
        },
        FolderDiscovery::Default => SearchPathSetup::nothing("the loader looks there by itself"),
    };
    page
}
