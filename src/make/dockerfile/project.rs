//! One file with a target for each phase of a project's life, and the Cloud Build that goes with it.

use serde::Serialize;

use super::phase_page::{FilePage, ForetoldPage, MethodPage, NeedPage, PhasePage, SearchPathPage};
use super::templates::{DockerfileTemplates, TemplateError, tidy};
use crate::knowledge::packages::GitSource;
use crate::make::remedy::builder_stage::BuilderStage;
use crate::make::remedy::method_choice::ConsideredMethod;
use crate::make::remedy::phase_recipe::BroughtRelease;

/// The folder of the stage that CUPTI is installed in, out of which the phases take it.
const GATHERED: &str = "/cupti";

/// How long a step of Cloud Build may take that compiles PyTorch.
const COMPILE_SECONDS: u32 = 14_400;

/// How long any other step may take, which only installs.
const INSTALL_SECONDS: u32 = 600;

/// What a file for a project is made of.
pub(crate) struct ProjectDockerfile {
    /// The pages of the phases in the order of a project; targets that bring CUPTI share what the first of them has.
    pub pages: Vec<PhasePage>,
    pub builder: Option<BuilderPage>,
}

/// The stage that compiles against CUPTI.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct BuilderPage {
    #[serde(flatten)]
    pub stage: BuilderStage,
    /// What PyTorch is built from, where it is to be built.
    pub pytorch: Option<GitSource>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct BuildTarget {
    /// Its name, which is that of its phase.
    pub name: String,
    /// What it is for.
    pub says: String,
    /// Whether it is audited.
    pub audited: bool,
    /// How long it may take to build.
    pub seconds: u32,
    /// From which severity on its audit stops the build: an audit that is foretold to warn must not.
    pub fail_on: &'static str,
}

#[derive(Serialize)]
struct TargetSection {
    name: String,
    verdict: &'static str,
    because: Vec<String>,
    adds: Option<u64>,
    foretold: ForetoldPage,
    saves: Option<SizeSavings>,
    leaves: Vec<String>,
    text: String,
}

#[derive(Serialize)]
struct SizeSavings {
    before: u64,
    after: u64,
    layers: usize,
}

#[derive(Serialize)]
struct ProjectPage {
    image: String,
    triggers: Vec<String>,
    targets: Vec<BuildTarget>,
    considered: Vec<ConsideredMethod>,
    release: Option<BroughtRelease>,
    source: String,
    builder: String,
    sections: Vec<TargetSection>,
}

#[derive(Serialize)]
struct GatherPage<'p> {
    #[serde(flatten)]
    page: &'p PhasePage,
    soname: &'p str,
    beside: Vec<&'p str>,
}

impl ProjectDockerfile {
    /// The targets, in the order of the file.
    pub(crate) fn targets(&self) -> Vec<BuildTarget> {
        let builds = self.builds_pytorch();
        let builder = self.builder.iter().map(|builder| BuildTarget {
            name: "builder".to_owned(),
            says: match builder.pytorch {
                Some(_) => "compiles PyTorch against CUPTI".to_owned(),
                None => "has what compiles against CUPTI".to_owned(),
            },
            audited: false,
            seconds: if builds { COMPILE_SECONDS } else { INSTALL_SECONDS },
            fail_on: "",
        });
        let phases = self.pages.iter().map(|page| BuildTarget {
            name: page.phase.clone(),
            says: page.summary.clone(),
            audited: true,
            seconds: INSTALL_SECONDS,
            fail_on: if page.foretold.verdict == "warn" {
                "error"
            } else {
                "warning"
            },
        });
        builder.chain(phases).collect()
    }

    /// The Dockerfile with a target for each phase.
    ///
    /// Errors: [`TemplateError`], when a template cannot be used.
    pub(crate) fn dockerfile(&self, templates: &DockerfileTemplates) -> Result<String, TemplateError> {
        let brings = self.pages.iter().filter(|page| page.way.is_some());
        // The phase that needs most needs all that the others do.
        let brings = brings.max_by_key(|page| page.needs.len());
        let source = match brings {
            Some(page) => source(templates, page)?,
            None => String::new(),
        };
        let mut sections = Vec::new();
        let mut before: Option<PhasePage> = None;
        for page in &self.pages {
            let brings = page.way.is_some() && page.removal.is_none();
            let page = self.shared(page, before.as_ref());
            sections.push(section(templates, &page)?);
            // The targets that bring CUPTI stand on the first of them, not on one another; no other one does.
            before = before.or(Some(page).filter(|_| brings));
        }
        let builder = match &self.builder {
            Some(builder) => templates.render("builder.j2", builder)?,
            None => String::new(),
        };
        let all = ProjectPage {
            image: self.pages.first().map(|page| page.image.clone()).unwrap_or_default(),
            triggers: self.pages.first().map(|page| page.triggers.clone()).unwrap_or_default(),
            targets: self.targets(),
            considered: brings.map(|page| page.considered.clone()).unwrap_or_default(),
            release: brings.and_then(|page| page.release.clone()),
            source,
            builder,
            sections,
        };
        Ok(tidy(&templates.render("all.j2", all)?))
    }

    fn builds_pytorch(&self) -> bool {
        self.builder.as_ref().is_some_and(|builder| builder.pytorch.is_some())
    }

    /// A page whose files come out of the stage that all share, on top of the first target that brings CUPTI where this
    /// one brings it as well.
    fn shared(&self, page: &PhasePage, first: Option<&PhasePage>) -> PhasePage {
        let brings = page.way.is_some();
        let mut page = gathered(page);
        page.pytorch = self.builds_pytorch();
        // The PyTorch of the builder links libcupti, whatever else the phase needs: the least that is brought comes along.
        let least = self.pages.iter().filter(|page| page.way.is_some());
        let least = least
            .min_by_key(|page| page.needs.len())
            .filter(|_| page.pytorch && !brings);
        if let Some(least) = least.map(gathered) {
            page.way = least.way;
            page.search_setup = least.search_setup;
            page.check.names = least.check.names;
        }
        let Some(first) = first.filter(|_| brings && page.removal.is_none()) else {
            return page;
        };
        let had = files(first).to_vec();
        if let Some(MethodPage::Copy { files, links, .. }) = &mut page.way
            && !had.is_empty()
        {
            files.retain(|file| !had.iter().any(|other| other.to == file.to));
            links.clear();
            page.clears.clear();
            // On top of that target: the layers that both have are stored and pushed once.
            page.base.clone_from(&first.phase);
            if files.is_empty() {
                page.way = None;
            } else if matches!(page.search_setup, SearchPathPage::Folder { .. }) {
                page.search_setup = SearchPathPage::Again;
            }
            page.pytorch = false;
        }
        page
    }

    /// The Cloud Build for a file of this name.
    ///
    /// Errors: [`TemplateError`], when a template cannot be used.
    pub(crate) fn cloudbuild(&self, templates: &DockerfileTemplates, file: &str) -> Result<String, TemplateError> {
        #[derive(Serialize)]
        struct CloudBuild<'f> {
            file: &'f str,
            name: &'static str,
            builds: bool,
            seconds: u32,
            targets: Vec<BuildTarget>,
        }
        let targets = self.targets();
        let page = CloudBuild {
            file,
            name: "project",
            builds: self.builds_pytorch(),
            // Ten minutes more for the audit of each, the time that its step has in the template.
            seconds: targets.iter().map(|target| target.seconds + 600).sum(),
            targets,
        };
        Ok(tidy(&templates.render("cloudbuild.yaml.j2", page)?))
    }
}

fn files(page: &PhasePage) -> &[FilePage] {
    match &page.way {
        Some(MethodPage::Copy { files, .. }) => files,
        _ => &[],
    }
}

fn is_installed(way: &MethodPage) -> bool {
    !matches!(way, MethodPage::Copy { .. } | MethodPage::Place { .. })
}

/// The stage that the files come from: the image that has them, or one in which they are installed.
fn source(templates: &DockerfileTemplates, page: &PhasePage) -> Result<String, TemplateError> {
    if !page.way.as_ref().is_some_and(is_installed) {
        return templates.render("stages.j2", page);
    }
    // Of this stage only the files are taken: nothing in it has to be removed, or found by its loader.
    let whole = PhasePage {
        spare: Vec::new(),
        search_setup: SearchPathPage::Nothing { because: String::new() },
        ..page.clone()
    };
    let stages = templates.render("stages.j2", page)?;
    let beside = page.needs.iter().filter(|need| need.loaded != page.soname);
    let gather = GatherPage {
        page: &whole,
        soname: &page.soname,
        beside: beside.map(|need| need.name).collect(),
    };
    Ok(stages + &templates.render("gather.j2", gather)?)
}

/// The page with its files copied out of the stage that they were gathered in.
fn gathered(page: &PhasePage) -> PhasePage {
    let mut page = page.clone();
    if !page.way.as_ref().is_some_and(is_installed) {
        return page;
    }
    let folder = page.folder.clone();
    let file = |need: &NeedPage| {
        let name = &need.loaded;
        FilePage {
            from: format!("{GATHERED}/{name}"),
            to: format!("{folder}/{name}"),
            because: format!("{name}: {}", need.because),
        }
    };
    // The stage has put each file under the name that is asked for, so that no links are needed.
    page.way = Some(MethodPage::Copy {
        from: String::new(),
        folder: Some(format!("{folder}/")),
        files: page.needs.iter().map(file).collect(),
        links: Vec::new(),
    });
    page.search_setup = match page.conf.clone() {
        Some(conf) => SearchPathPage::Folder {
            conf,
            folder,
            because: "ldconfig finds it for every process".to_owned(),
        },
        None => SearchPathPage::Nothing {
            because: "the loader looks there by itself".to_owned(),
        },
    };
    page
}

fn section(templates: &DockerfileTemplates, page: &PhasePage) -> Result<TargetSection, TemplateError> {
    Ok(TargetSection {
        name: page.phase.clone(),
        verdict: page.verdict,
        because: page.because.clone(),
        adds: page.adds,
        saves: page.removal.as_ref().map(|removal| SizeSavings {
            before: removal.before,
            after: removal.after,
            layers: removal.layers,
        }),
        foretold: page.foretold.clone(),
        leaves: page.leaves.clone(),
        text: templates.render("section.j2", page)?,
    })
}
