//! Fills a page from a recipe.

use std::collections::BTreeSet;

use super::phase_page::{
    BuildCheckPage, ComponentPage, FilePage, ForetoldPage, LinkPage, LinkedPage, MethodPage, NeedPage, PhasePage,
    RemovalGroupPage, RemovalPage, RepositoryPage, SearchPathPage,
};
use super::{config_instructions, quote};
use crate::judge::facts::ImageFacts;
use crate::judge::facts::cuda_runtime::site_packages_of;
use crate::judge::plan::Plan;
use crate::knowledge::LibraryProfile;
use crate::knowledge::file_interest::LIBRARY_PATH;
use crate::make::remedy::RemedyError;
use crate::make::remedy::build_check::{BuildCheck, LinkedObject};
use crate::make::remedy::copy_plan::{CopiedFile, CopyPlan, CreatedLink};
use crate::make::remedy::install_folder::FolderDiscovery;
use crate::make::remedy::install_method::{InstallMethod, RepositorySetup};
use crate::make::remedy::method_choice::MethodChoice;
use crate::make::remedy::phase_recipe::PhaseRecipe;
use crate::make::remedy::removal::RemovalPlan;
use crate::make::remedy::required_libraries::RequiredLibrary;
use crate::make::remedy::search_path_setup::SearchPathSetup;
use crate::shell_quote::quote_shell;
use image_linkage::escape;
use image_linkage::loader::folders_of_cache;
use image_linkage::path::RootPath;

/// What there is to say of a recipe.
///
/// Errors: [`RemedyError::Name`], when a name of the image cannot be written into a Dockerfile.
pub(crate) fn fill_page(
    facts: &ImageFacts,
    plan: &Plan,
    recipe: &PhaseRecipe,
    base: &str,
) -> Result<PhasePage, RemedyError> {
    let user = facts.image.config.user.as_deref();
    // A group may stand behind a colon (image-spec, config.md, "User"). Who is root already need not become it.
    let user = user.filter(|user| !matches!(user.split(':').next(), Some("root" | "0")));
    let considered = recipe.choice.iter().flat_map(|choice| &choice.considered);
    let own_path = facts.image.config.env(LIBRARY_PATH);
    let search_path = recipe.library_path.as_ref().map(|path| path.value.as_str());
    let search_path = search_path.or(own_path).unwrap_or_default();
    let search_path = quote::require_writable(LIBRARY_PATH, search_path)?;
    let soname = recipe.choice.as_ref().map(|choice| choice.way.soname());
    let soname = soname.unwrap_or_default();
    Ok(PhasePage {
        phase: plan.phase.clone(),
        image: escape::escape_bytes(facts.image.reference.as_bytes()),
        summary: plan.summary.clone(),
        verdict: plan.verdict.name(),
        because: plan.because.clone(),
        base: base.to_owned(),
        considered: considered.cloned().collect(),
        release: recipe.release.clone(),
        adds: recipe.adds,
        leaves: recipe.leaves.iter().map(ToString::to_string).collect(),
        foretold: ForetoldPage {
            verdict: recipe.foretold.verdict.name(),
            because: recipe.foretold.because.clone(),
        },
        triggers: facts.image.config.settings.on_build.clone(),
        clears: recipe.clears.iter().map(path).collect::<Result<_, _>>()?,
        lacks_sbin: recipe.system.lacks_sbin,
        ldconfig: ldconfig_call(facts)?,
        user: user
            .map(|user| quote::require_plain("the user of the image", user.as_bytes()))
            .transpose()?,
        shell: recipe.system.shell,
        lacks: recipe.system.lacks.clone(),
        own_shell: own_shell(&facts.image.config.settings.shell),
        way: recipe
            .choice
            .as_ref()
            .map(|choice| way(choice, recipe, facts.library))
            .transpose()?,
        needs: recipe
            .needs
            .iter()
            .map(|need| NeedPage {
                name: need.stem,
                loaded: facts.library.loaded_name(need.stem, &soname).to_owned(),
                because: need.because.to_string(),
            })
            .collect(),
        spare: recipe.spare.clone(),
        search_setup: search_path_page(&recipe.search_setup)?,
        library_path: recipe.library_path.clone(),
        search_path: search_path.to_owned(),
        removal: recipe
            .removal
            .as_ref()
            .map(|plan| removal_page(plan, recipe.system.has_cache)),
        // Set later: only a project builds PyTorch, and only a copy of the files into `scratch` loses the config.
        pytorch: false,
        python: recipe.system.python.as_ref().map(path).transpose()?.unwrap_or_default(),
        soname,
        folder: path(&recipe.search.folder)?,
        conf: match &recipe.search.by {
            FolderDiscovery::Conf(conf) => Some(path(conf)?),
            FolderDiscovery::Default => None,
        },
        config: Vec::new(),
        check: build_check_page(facts, &recipe.check)?,
    })
}

/// The image's own words for a `RUN`, as JSON; `None` where they are Docker's.
fn own_shell(words: &[String]) -> Option<String> {
    let is_usual = words.is_empty() || words == ["/bin/sh", "-c"];
    (!is_usual).then(|| config_instructions::array(words))
}

fn path(path: &RootPath) -> Result<String, RemedyError> {
    quote::require_literal("a path", &path.absolute())
}

fn ldconfig_call(facts: &ImageFacts) -> Result<String, RemedyError> {
    let context = &facts.contexts.as_is;
    let linker = context.linker.iter();
    let mut words = vec!["ldconfig".to_owned()];
    for folder in linker.flat_map(|linker| folders_of_cache(&context.rootfs, linker)) {
        words.push(quote_shell(&path(&RootPath::new(&folder))?));
    }
    Ok(words.join(" "))
}

fn files(copy_plan: &CopyPlan) -> Result<Vec<FilePage>, RemedyError> {
    let file = |file: &CopiedFile| {
        Ok(FilePage {
            from: path(&file.from)?,
            to: path(&file.to)?,
            because: format!("{}: {}", escape::escape_bytes(&file.name), file.because),
        })
    };
    copy_plan.files.iter().map(file).collect()
}

/// Files that are copied: in one layer where all keep their names.
fn copied(from: String, files: Vec<FilePage>, links: Vec<LinkPage>) -> MethodPage {
    let folder_of = |path: &str| path.rsplit_once('/').map(|(folder, _)| format!("{folder}/"));
    let name_of = |path: &str| path.rsplit('/').next().map(str::to_owned);
    let folder = files.first().and_then(|file| folder_of(&file.to));
    let fits = |file: &FilePage| folder_of(&file.to) == folder && name_of(&file.from) == name_of(&file.to);
    MethodPage::Copy {
        folder: folder.clone().filter(|_| files.iter().all(fits)),
        from,
        files,
        links,
    }
}

fn links(copy_plan: &CopyPlan) -> Result<Vec<LinkPage>, RemedyError> {
    let link = |link: &CreatedLink| {
        Ok(LinkPage {
            at: path(&link.at)?,
            name: escape::escape_bytes(link.at.name()),
            to: quote::require_plain("a link", &link.to)?,
            because: link.because.clone(),
        })
    };
    copy_plan.links.iter().map(link).collect()
}

fn default_links(way: &InstallMethod) -> Result<Vec<LinkPage>, RemedyError> {
    let files = way.default_links().iter();
    files.map(|file| link(&(file.to.clone(), file.from.clone()))).collect()
}

fn way(choice: &MethodChoice, recipe: &PhaseRecipe, library: &LibraryProfile) -> Result<MethodPage, RemedyError> {
    Ok(match &choice.way {
        InstallMethod::Place(place) => MethodPage::Place {
            files: files(&place.copy_plan)?,
            links: default_links(&choice.way)?,
        },
        InstallMethod::Copy { from, copy_plan } => {
            // Without a shell nothing makes links, and the files have the names that are asked for.
            let links = if recipe.system.shell {
                links(copy_plan)?
            } else {
                Vec::new()
            };
            copied(from.clone(), files(copy_plan)?, links)
        }
        InstallMethod::Devel { from, folder, release } => {
            let files = of_devel(folder, |stem| library.loaded_name(stem, &release.soname), recipe)?;
            copied(from.clone(), files, Vec::new())
        }
        InstallMethod::Package(package) => MethodPage::Package {
            manager: package.manager.program(),
            name: package.name.clone(),
            version: package.version.clone(),
            repository: package.setup.as_ref().and_then(repository),
            component: package.setup.as_ref().map(component).transpose()?.flatten(),
        },
        InstallMethod::Pip(pip) => MethodPage::Pip {
            interpreter: path(&pip.interpreter)?,
            name: pip.name.clone(),
            version: pip.version.clone(),
            folder: path(&pip.folder)?,
            headers: if pip.is_shared {
                None
            } else {
                Some(path(&pip.folder.parent().join(b"include"))?)
            },
            site: path(&pip.site)?,
            distribution: pip.name.replace('-', "_"),
            listed: pip.is_listed,
            managed: pip.is_managed,
        },
        InstallMethod::Conda(conda) => MethodPage::Conda {
            program: path(&conda.environment.program)?,
            prefix: path(&conda.environment.prefix)?,
            packages: conda.packages.clone(),
        },
    })
}

/// The files of a devel image by their sonames: `COPY` follows the links, so that each is a file of that name.
fn of_devel<'n>(
    folder: &RootPath,
    loaded_name: impl Fn(&'static str) -> &'n str,
    recipe: &PhaseRecipe,
) -> Result<Vec<FilePage>, RemedyError> {
    let own = &recipe.search.folder;
    let file = |need: &RequiredLibrary| {
        let name = loaded_name(need.stem);
        Ok(FilePage {
            from: path(&folder.join(name.as_bytes()))?,
            to: path(&own.join(name.as_bytes()))?,
            because: format!("{name}: {}", need.because),
        })
    };
    recipe.needs.iter().map(file).collect()
}

fn repository(setup: &RepositorySetup) -> Option<RepositoryPage> {
    match setup {
        RepositorySetup::Repository {
            url,
            file,
            keyring,
            certificates,
            // Words of `packages.yaml` and not of the image, so that they are not checked as names.
        } => Some(RepositoryPage {
            file: file.clone(),
            url: url.clone(),
            keyring: keyring.clone(),
            certificates: *certificates,
        }),
        RepositorySetup::Component { .. } => None,
    }
}

fn component(setup: &RepositorySetup) -> Result<Option<ComponentPage>, RemedyError> {
    Ok(match setup {
        RepositorySetup::Component { component, file } => Some(ComponentPage {
            name: component.clone(),
            // apt itself tells the two forms apart by the ending of the file (sources.list(5)).
            deb822: file.name().ends_with(b".sources"),
            file: path(file)?,
        }),
        RepositorySetup::Repository { .. } => None,
    })
}

fn search_path_page(search_setup: &SearchPathSetup) -> Result<SearchPathPage, RemedyError> {
    Ok(match search_setup {
        SearchPathSetup::Nothing(because) => SearchPathPage::Nothing {
            because: because.clone(),
        },
        SearchPathSetup::Folder { conf, folder, because } => SearchPathPage::Folder {
            conf: path(conf)?,
            folder: path(folder)?,
            because: because.clone(),
        },
        SearchPathSetup::Links {
            conf,
            folder,
            links,
            because,
        } => SearchPathPage::Links {
            conf: path(conf)?,
            folder: path(folder)?,
            links: links.iter().map(link).collect::<Result<_, _>>()?,
            because: because.clone(),
        },
        SearchPathSetup::Listed { conf } => SearchPathPage::Listed { conf: path(conf)? },
    })
}

fn link((at, to): &(RootPath, RootPath)) -> Result<LinkPage, RemedyError> {
    Ok(LinkPage {
        name: escape::escape_bytes(at.name()),
        at: path(at)?,
        to: path(to)?,
        because: String::new(),
    })
}

fn removal_page(removal: &RemovalPlan, caches: bool) -> RemovalPage {
    let mut unwritable = 0;
    let mut groups = Vec::new();
    for group in &removal.groups {
        // A line break in a name would end the instruction. Such a file stays, and the page says how many do.
        let (can, cannot): (Vec<&RootPath>, Vec<&RootPath>) =
            group.paths.iter().partition(|path| quote::is_writable(path.as_bytes()));
        unwritable += cannot.len();
        // What can be written is UTF-8: nothing is lost.
        let text = |path: &&RootPath| String::from_utf8_lossy(&path.absolute()).into_owned();
        groups.push(RemovalGroupPage {
            kind: group.kind,
            bytes: group.bytes,
            because: group.because.clone(),
            paths: can.iter().map(text).collect(),
        });
    }
    groups.retain(|group| !group.paths.is_empty());
    let dropped = removal.groups.iter().flat_map(|group| &group.paths);
    let sites: BTreeSet<RootPath> = dropped.filter_map(site_packages_of).collect();
    let sites = sites.iter().filter_map(|site| path(site).ok());
    RemovalPage {
        sites: sites.collect(),
        groups,
        unwritable,
        before: removal.before,
        after: removal.after,
        layers: removal.layers,
        caches,
        has_dpkg_lists: removal.has_dpkg_lists,
    }
}

fn build_check_page(facts: &ImageFacts, check: &BuildCheck) -> Result<BuildCheckPage, RemedyError> {
    let rootfs = &facts.contexts.as_is.rootfs;
    let linked = |it: &LinkedObject| {
        Ok(LinkedPage {
            name: it.name.clone(),
            object: path(&it.object)?,
            program: it
                .program
                .as_ref()
                // The loader cannot list a program that is not there; the object alone is listed then.
                .filter(|it| rootfs.lookup(&it.absolute()).is_ok())
                .map(path)
                .transpose()?,
            wants: quote::require_plain("the name of a library", &it.wants)?,
        })
    };
    let entry = &facts.contexts.as_is.entry;
    let value = entry.variables.get(LIBRARY_PATH);
    let before = facts.contexts.as_is.commands.environment.get(LIBRARY_PATH);
    let is_changed = value != before && !entry.unknown.contains_key(LIBRARY_PATH);
    // The loader takes an empty one for none (glibc elf/rtld.c, `process_envvars`).
    let library_path = is_changed.then(|| value.cloned().unwrap_or_default());
    let library_path = library_path.map(|value| match &entry.working_dir {
        Some(folder) => absolute_elements(&value, folder),
        None => value,
    });
    Ok(BuildCheckPage {
        loader: quote::require_plain("the path of the loader", &check.loader)?,
        preloads: quote::require_writable("what is preloaded", &String::from_utf8_lossy(&check.preloads))?.to_owned(),
        names: check.names.clone(),
        linked: check.linked.iter().map(linked).collect::<Result<_, _>>()?,
        libc: quote::require_plain("the path of the C library", &check.libc)?,
        library_path: library_path
            .map(|value| quote::require_writable(LIBRARY_PATH, &value).map(str::to_owned))
            .transpose()?,
        elsewhere: check.elsewhere,
    })
}

/// An LD_LIBRARY_PATH whose relative elements are those below `folder`, where the container's command goes before it starts
/// its program: the check of a build runs elsewhere.
fn absolute_elements(value: &str, folder: &str) -> String {
    let absolute = |element: &str| match element {
        "" => folder.to_owned(),
        _ if element.starts_with(['/', '$']) => element.to_owned(),
        _ => format!("{folder}/{element}"),
    };
    if value.is_empty() {
        return String::new();
    }
    let elements: Vec<String> = value.split([':', ';']).map(absolute).collect();
    elements.join(":")
}
