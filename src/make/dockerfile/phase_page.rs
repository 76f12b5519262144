//! What the templates have to say: a recipe as text, every name in it checked.

use serde::Serialize;

use crate::make::remedy::method_choice::ConsideredMethod;
use crate::make::remedy::phase_recipe::BroughtRelease;
use crate::make::remedy::search_path_setup::ChangedLibraryPath;

/// What is said of one phase of an image.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct PhasePage {
    /// The phase, and the name of its stage.
    pub phase: String,
    /// The image as the user named it.
    pub image: String,
    /// What is done in the phase.
    pub summary: String,
    /// What the image makes of the phase now.
    pub verdict: &'static str,
    /// The rules that say so.
    pub because: Vec<String>,
    /// The name of the image for `FROM`.
    pub base: String,
    /// The ways that were looked at; the last is taken.
    pub considered: Vec<ConsideredMethod>,
    pub release: Option<BroughtRelease>,
    pub adds: Option<u64>,
    /// What stays to be wished for.
    pub leaves: Vec<String>,
    /// What an audit will say of the result.
    pub foretold: ForetoldPage,
    // Instructions of the image's own that every build on it runs first, whatever stands here.
    pub triggers: Vec<String>,
    /// The names that lead nowhere, which go.
    pub clears: Vec<String>,
    // Whether `PATH` of the image hides ldconfig, and what dpkg calls, from a RUN.
    pub lacks_sbin: bool,
    /// The call of ldconfig, with the folders that the image's cache alone knows: without them it would forget them.
    pub ldconfig: String,
    /// The image's own user, where that is not root.
    // What is installed is installed as root; the last lines go back to this user, or the container would run as root.
    pub user: Option<String>,
    pub shell: bool,
    /// What of a shell and the programs of a `RUN` is not there, as `no shell` or `no rm and no cat`.
    pub lacks: String,
    // The words of the image's `SHELL`, which may name anything: what is written here is for /bin/sh.
    pub own_shell: Option<String>,
    pub way: Option<MethodPage>,
    /// The soname of the libcupti that comes in; empty where none does.
    pub soname: String,
    /// The folder that files are copied into.
    pub folder: String,
    /// The file that names it for ldconfig; `None` where the loader looks there by itself.
    pub conf: Option<String>,
    pub needs: Vec<NeedPage>,
    // The libraries that a package brings and the phase does not need. They go in the RUN that installs it: a later
    // layer would hide them, and they would still be pulled.
    pub spare: Vec<&'static str>,
    /// How the loader comes to find it.
    pub search_setup: SearchPathPage,
    pub library_path: Option<ChangedLibraryPath>,
    /// `LD_LIBRARY_PATH` as it is in the end; empty where it is not set.
    pub search_path: String,
    pub removal: Option<RemovalPage>,
    /// Whether the PyTorch of the builder is taken over.
    pub pytorch: bool,
    /// The Python that a container of the image starts; empty where there is none.
    pub python: String,
    /// The lines that set what a copy of the files does not bring along.
    pub config: Vec<String>,
    /// What is asked of the image's own loader.
    pub check: BuildCheckPage,
}

/// What an audit will say of the result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct ForetoldPage {
    pub verdict: &'static str,
    /// The rules that make it.
    pub because: Vec<String>,
}

#[derive(Debug, Clone, Serialize)]
pub(crate) struct NeedPage {
    /// Its name up to the number of its soname.
    pub name: &'static str,
    /// The name that the loader is asked for.
    pub loaded: String,
    pub because: String,
}

#[derive(Debug, Clone, Serialize)]
pub(crate) struct FilePage {
    pub from: String,
    pub to: String,
    pub because: String,
}

#[derive(Debug, Clone, Serialize)]
pub(crate) struct LinkPage {
    pub at: String,
    pub name: String,
    /// What it leads to.
    pub to: String,
    pub because: String,
}

#[derive(Debug, Clone, Serialize)]
// The kind is a part of a file's name: `way-copy.j2` is the template of `Copy`.
#[serde(tag = "kind", rename_all = "lowercase")]
pub(crate) enum MethodPage {
    Place {
        files: Vec<FilePage>,
        /// The links to them in a folder of the loader's own, where none of theirs can be named.
        links: Vec<LinkPage>,
    },
    /// Files of another image.
    Copy {
        from: String,
        /// The folder that all are copied into under their own names; `None` where one gets another name.
        folder: Option<String>,
        files: Vec<FilePage>,
        links: Vec<LinkPage>,
    },
    Package {
        manager: &'static str,
        name: String,
        version: String,
        repository: Option<RepositoryPage>,
        component: Option<ComponentPage>,
    },
    Pip {
        interpreter: String,
        name: String,
        version: String,
        folder: String,
        /// The folder of its headers, where they are its alone.
        headers: Option<String>,
        /// The folder of packages, and what the name of its metadata there begins with.
        site: String,
        distribution: String,
        listed: bool,
        managed: bool,
    },
    Conda {
        program: String,
        prefix: String,
        packages: Vec<String>,
    },
}

#[derive(Debug, Clone, Serialize)]
pub(crate) struct RepositoryPage {
    pub url: String,
    /// The package with its key, for apt.
    pub keyring: String,
    /// The file that names it, for dnf.
    pub file: String,
    // Whether ca-certificates is installed first: without it apt trusts no server of an https repository.
    pub certificates: bool,
}

#[derive(Debug, Clone, Serialize)]
pub(crate) struct ComponentPage {
    pub name: String,
    pub file: String,
    // The form of `debian.sources` in Debian's images since 12, and of `ubuntu.sources` since 24.04 (sources.list(5));
    // lines that begin with `deb` are the form before it.
    pub deb822: bool,
}

/// How the loader comes to find it.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub(crate) enum SearchPathPage {
    Nothing {
        because: String,
    },
    Folder {
        conf: String,
        folder: String,
        because: String,
    },
    /// Links are made in a folder that is named.
    Links {
        conf: String,
        folder: String,
        links: Vec<LinkPage>,
        because: String,
    },
    /// The folder is named already, and holds more.
    Again,
    /// The folders of a package are named.
    Listed {
        conf: String,
    },
}

#[derive(Debug, Clone, Serialize)]
pub(crate) struct RemovalPage {
    pub groups: Vec<RemovalGroupPage>,
    /// The paths with names that no Dockerfile can hold.
    pub unwritable: usize,
    pub before: u64,
    pub after: u64,
    pub layers: usize,
    /// The folders of Python packages that lose files, whose lists are kept true.
    pub sites: Vec<String>,
    /// Whether the loader's cache, which may name what goes, is made anew.
    pub caches: bool,
    /// Whether dpkg's lists may name what goes.
    pub has_dpkg_lists: bool,
}

/// Paths that are removed for one reason.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct RemovalGroupPage {
    pub kind: &'static str,
    pub bytes: u64,
    pub because: String,
    pub paths: Vec<String>,
}

/// What is asked of the image's own loader.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct BuildCheckPage {
    pub loader: String,
    /// What is preloaded into every program, with a space behind each name.
    pub preloads: String,
    pub names: Vec<String>,
    /// The objects that are linked with libcupti.
    pub linked: Vec<LinkedPage>,
    pub libc: String,
    /// The LD_LIBRARY_PATH that the container's command sets, where it is not the image's.
    pub library_path: Option<String>,
    /// Whether the image that is copied from has a shell.
    pub elsewhere: bool,
}

/// An object that is linked with libcupti.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct LinkedPage {
    pub name: String,
    pub object: String,
    pub program: Option<String>,
    pub wants: String,
}
