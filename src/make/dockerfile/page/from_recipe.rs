//! Fills a page from a recipe.

use super::{
    ComponentPage, FilePage, FreshPage, GroupPage, LeadPage, LibraryPath, Line, LinkPage,
    LinkedPage, Page, ProofPage, Release, RepositoryPage, WayPage,
};
use crate::judge::facts::ImageFacts;
use crate::judge::plan::Plan;
use crate::make::dockerfile::quote;
use crate::make::remedy::Refusal;
use crate::make::remedy::build_check::{Linked, Proof};
use crate::make::remedy::copy_plan::{Bring, File, Link};
use crate::make::remedy::install_folder::FOLDER;
use crate::make::remedy::install_method::{Setup, Way};
use crate::make::remedy::method_choice::Choice;
use crate::make::remedy::recipe::Recipe;
use crate::make::remedy::removal::Fresh;
use crate::make::remedy::required_libraries::{CUPTI, Need};
use crate::make::remedy::search_path_setup::Lead;
use image_linkage::escape;
use image_linkage::path::RootPath;

/// What there is to say of a recipe.
///
/// # Errors
/// [`Refusal::Name`], when a name of the image cannot be written into a Dockerfile.
pub fn page(facts: &ImageFacts, plan: &Plan, recipe: &Recipe, base: &str) -> Result<Page, Refusal> {
    let user = facts.image.config.user.as_deref();
    let user = user.filter(|user| !matches!(user.split(':').next(), Some("root" | "0")));
    let considered = recipe.choice.iter().flat_map(|choice| &choice.considered);
    let library_path = recipe.library_path.clone();
    let own_path = facts.image.config.env("LD_LIBRARY_PATH");
    let search_path = recipe.library_path.as_ref();
    let search_path = search_path.map(|(value, _)| value.as_str());
    let search_path = search_path.or(own_path).unwrap_or_default();
    if !quote::is_writable(search_path.as_bytes()) {
        return Err(Refusal::Name {
            what: "LD_LIBRARY_PATH".to_owned(),
            name: escape::text(search_path.as_bytes()),
        });
    }
    Ok(Page {
        phase: plan.phase.clone(),
        image: escape::text(facts.image.reference.as_bytes()),
        summary: plan.summary.clone(),
        verdict: plan.verdict.name(),
        because: plan.because.clone(),
        base: base.to_owned(),
        considered: considered.map(|way| line(way.name, &way.why)).collect(),
        release: recipe.release.as_ref().map(|(version, because)| Release {
            version: version.clone(),
            because: because.clone(),
        }),
        adds: recipe.adds,
        leaves: recipe.leaves.clone(),
        user: user
            .map(|user| quote::plain("the user of the image", user.as_bytes()))
            .transpose()?,
        shell: recipe.system.shell,
        way: recipe
            .choice
            .as_ref()
            .map(|choice| way(choice, recipe))
            .transpose()?,
        needs: recipe
            .needs
            .iter()
            .map(|need| line(need.stem, &need.words()))
            .collect(),
        spare: recipe.spare.clone(),
        lead: lead(&recipe.lead)?,
        library_path: library_path.map(|(value, because)| LibraryPath { value, because }),
        search_path: search_path.to_owned(),
        fresh: recipe.fresh.as_ref().map(fresh),
        pytorch: false,
        soname: recipe
            .choice
            .as_ref()
            .map(|choice| choice.way.soname())
            .unwrap_or_default(),
        folder: path(&recipe.folder)?,
        config: Vec::new(),
        proof: proof(facts, &recipe.proof)?,
    })
}

fn line(name: &str, why: &str) -> Line {
    Line {
        name: name.to_owned(),
        why: why.to_owned(),
        because: why.to_owned(),
    }
}

fn path(path: &RootPath) -> Result<String, Refusal> {
    quote::plain("a path", &path.absolute())
}

fn files(bring: &Bring) -> Result<Vec<FilePage>, Refusal> {
    let file = |file: &File| {
        Ok(FilePage {
            from: path(&file.from)?,
            to: path(&file.to)?,
            because: format!("{}: {}", escape::text(&file.name), file.because),
        })
    };
    bring.files.iter().map(file).collect()
}

fn links(bring: &Bring) -> Result<Vec<LinkPage>, Refusal> {
    let link = |link: &Link| {
        Ok(LinkPage {
            at: path(&link.at)?,
            name: escape::text(link.at.name()),
            to: quote::plain("a link", &link.to)?,
            because: link.because.clone(),
        })
    };
    bring.links.iter().map(link).collect()
}

fn way(choice: &Choice, recipe: &Recipe) -> Result<WayPage, Refusal> {
    Ok(match &choice.way {
        Way::Place(place) => WayPage::Place {
            files: files(&place.bring)?,
        },
        Way::Copy { from, bring } => WayPage::Copy {
            from: from.clone(),
            files: files(bring)?,
            // Without a shell nothing makes links, and the files have the names that are asked for.
            links: if recipe.system.shell {
                links(bring)?
            } else {
                Vec::new()
            },
        },
        Way::Devel {
            from,
            folder,
            release,
        } => WayPage::Copy {
            from: from.clone(),
            files: of_devel(folder, &release.soname(), recipe)?,
            links: Vec::new(),
        },
        Way::Package(package) => WayPage::Package {
            manager: package.manager,
            name: package.name.clone(),
            version: package.version.clone(),
            repository: package.setup.as_ref().and_then(repository),
            component: package.setup.as_ref().map(component).transpose()?.flatten(),
        },
        Way::Pip(pip) => WayPage::Pip {
            interpreter: path(&pip.interpreter)?,
            name: pip.name.clone(),
            version: pip.version.clone(),
            folder: path(&pip.folder)?,
            listed: pip.is_listed,
            managed: pip.is_managed,
        },
        Way::Conda(conda) => WayPage::Conda {
            program: path(&conda.program)?,
            prefix: path(&conda.prefix)?,
            packages: conda.packages.clone(),
        },
    })
}

/// The files of a devel image by their sonames: `COPY` follows the links, so that each is a file of that name.
fn of_devel(folder: &RootPath, soname: &str, recipe: &Recipe) -> Result<Vec<FilePage>, Refusal> {
    let own = &recipe.folder;
    let file = |need: &Need| {
        let is_cupti = need.stem == CUPTI;
        let name = if is_cupti { soname } else { need.stem };
        Ok(FilePage {
            from: path(&folder.join(name.as_bytes()))?,
            to: path(&own.join(name.as_bytes()))?,
            because: format!("{name}: {}", need.words()),
        })
    };
    recipe.needs.iter().map(file).collect()
}

fn repository(setup: &Setup) -> Option<RepositoryPage> {
    match setup {
        Setup::Repository {
            url,
            keyring,
            certificates,
        } => {
            let mut parts = url.rsplit('/').skip(1);
            let name = parts.next().unwrap_or_default();
            Some(RepositoryPage {
                file: format!("cuda-{name}.repo"),
                url: url.clone(),
                keyring: keyring.clone(),
                certificates: *certificates,
            })
        }
        Setup::Component { .. } => None,
    }
}

fn component(setup: &Setup) -> Result<Option<ComponentPage>, Refusal> {
    Ok(match setup {
        Setup::Component { component, file } => Some(ComponentPage {
            name: component.clone(),
            deb822: file.name().ends_with(b".sources"),
            file: path(file)?,
        }),
        Setup::Repository { .. } => None,
    })
}

fn lead(lead: &Lead) -> Result<LeadPage, Refusal> {
    Ok(match lead {
        Lead::Nothing(because) => LeadPage::Nothing {
            because: because.clone(),
        },
        Lead::Folder {
            conf,
            folder,
            because,
        } => LeadPage::Folder {
            conf: path(conf)?,
            folder: path(folder)?,
            because: because.clone(),
        },
        Lead::Links {
            conf,
            links,
            because,
        } => LeadPage::Links {
            conf: path(conf)?,
            folder: format!("/{FOLDER}"),
            links: links.iter().map(link).collect::<Result<_, _>>()?,
            because: because.clone(),
        },
        Lead::Listed { conf } => LeadPage::Listed { conf: path(conf)? },
    })
}

fn link((at, to): &(RootPath, RootPath)) -> Result<LinkPage, Refusal> {
    Ok(LinkPage {
        name: escape::text(at.name()),
        at: path(at)?,
        to: path(to)?,
        because: String::new(),
    })
}

fn fresh(fresh: &Fresh) -> FreshPage {
    let mut unwritable = 0;
    let mut groups = Vec::new();
    for group in &fresh.groups {
        let (can, cannot): (Vec<&RootPath>, Vec<&RootPath>) = group
            .paths
            .iter()
            .partition(|path| quote::is_writable(path.as_bytes()));
        unwritable += cannot.len();
        let text = |path: &&RootPath| String::from_utf8_lossy(&path.absolute()).into_owned();
        groups.push(GroupPage {
            kind: group.kind,
            bytes: group.bytes,
            because: group.because.clone(),
            paths: can.iter().map(text).collect(),
        });
    }
    groups.retain(|group| !group.paths.is_empty());
    FreshPage {
        groups,
        unwritable,
        before: fresh.before,
        after: fresh.after,
        layers: fresh.layers,
    }
}

fn proof(facts: &ImageFacts, proof: &Proof) -> Result<ProofPage, Refusal> {
    let rootfs = &facts.grounds.as_is.rootfs;
    let linked = |it: &Linked| {
        Ok(LinkedPage {
            name: it.name.clone(),
            object: path(&it.object)?,
            program: it
                .program
                .as_ref()
                .filter(|it| rootfs.lookup(&it.absolute()).is_ok())
                .map(path)
                .transpose()?,
            wants: quote::plain("the name of a library", &it.wants)?,
        })
    };
    Ok(ProofPage {
        loader: quote::plain("the path of the loader", &proof.loader)?,
        names: proof.names.clone(),
        linked: proof.linked.iter().map(linked).collect::<Result<_, _>>()?,
        libc: quote::plain("the path of the C library", &proof.libc)?,
        elsewhere: proof.elsewhere,
    })
}
