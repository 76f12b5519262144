//! A Debian with a Python environment of real packages, for the audit and for the real Python.

use cupti_audit::knowledge::file_interest::cupti_options;
use std::path::{Path, PathBuf};
use std::process::Command;

use cupti_audit::facts::{self, ImageFacts, ReadLayers};
use cupti_audit::knowledge::Knowledge;
use image_linkage::layer::{self, ExpectedBlob, LayerIndex};
use image_linkage::loader::CpuLevel;
use image_source::RootfsDir;
use image_source::{Image, ImageSource, OpenRequest, OpenedLayers};
use serde::Deserialize;
use testkit::layer::{Compression, Layer};

use crate::facts_of_root::conditions;
use crate::real_objects;
use crate::session::Session;
use crate::support;

/// The folder into which pip installs packages.
pub const SITE: &str = "/opt/venv/lib/python3.11/site-packages";

/// The folder of pip's copy of CUPTI.
pub const CUPTI: &str = "/opt/venv/lib/python3.11/site-packages/nvidia/cuda_cupti/lib";

/// The result of a request for CUPTI.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// The resolved path of libcupti.
    Opened(String),
    /// The loader's message.
    Failed(String),
}

/// The result of `cuptiGetVersion`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FirstCall {
    /// Nothing was mapped.
    None,
    /// It returned the version of the header in the same package.
    AsItsHeader,
    /// It returned an error, or the process died.
    Other(String),
}

/// An environment and the index of its files.
pub struct Environment {
    /// The root file system.
    pub root: PathBuf,
    /// The CPU level of this machine.
    pub cpu: CpuLevel,
    image: Image,
    index: LayerIndex,
    tools: tempfile::TempDir,
}

/// The settings under which Python runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum World {
    /// As installed.
    Installed,
    /// Without the folder of pip's CUPTI.
    WithoutCupti,
    /// With that folder on `LD_LIBRARY_PATH`.
    OnLibraryPath,
    /// With a `libcupti.so` in another folder on that path; wheels do not contain this name.
    Lent,
}

impl World {
    /// `LD_LIBRARY_PATH`, if set.
    fn library_path(self) -> Option<&'static str> {
        match self {
            Self::Installed | Self::WithoutCupti => None,
            Self::OnLibraryPath => Some(CUPTI),
            Self::Lent => Some("/mnt"),
        }
    }
}

impl Environment {
    /// Reads the files of a root file system.
    pub fn read(root: PathBuf) -> Self {
        let options = cupti_options();
        let source = RootfsDir {
            reference: format!("rootfs:{}", root.display()),
            dir: root.clone(),
        };
        let request = OpenRequest {
            platform: None,
            index: &options,
            progress: &(),
            cache: None,
        };
        let opened = source.open(&request).unwrap();
        let OpenedLayers::Folder(_, index) = opened.layers else {
            panic!("a folder is one layer");
        };
        Self {
            cpu: real_objects::cpu(&root),
            root,
            image: opened.image,
            index: *index,
            tools: tools(),
        }
    }

    /// The audit's facts in this world.
    pub fn facts(&self, world: World) -> ImageFacts {
        let mut image = self.image.clone();
        let mut layers = vec![Ok(self.index.clone())];
        let more = match world {
            World::WithoutCupti => Some(Layer::new().opaque(CUPTI.trim_start_matches('/'))),
            World::Lent => Some(Layer::new().file("mnt/libcupti.so", std::fs::read(cupti_12()).unwrap())),
            World::Installed | World::OnLibraryPath => None,
        };
        if let Some(more) = more {
            image.layers.extend(self.image.layers.clone());
            let blob = more.blob(Compression::None);
            let index = layer::index_layer(
                "gone",
                blob.bytes.as_slice(),
                &ExpectedBlob::default(),
                &cupti_options(),
            );
            layers.push(Ok(index.unwrap()));
        }
        let path = world
            .library_path()
            .map(|path| ("LD_LIBRARY_PATH".to_owned(), path.to_owned()));
        let conditions = conditions(path.into_iter().collect(), self.cpu);
        facts::gather_facts(image, ReadLayers { layers }, &Knowledge::built_in(), &conditions)
    }

    /// The result of the program with this name, according to the audit.
    pub fn ours(&self, world: World, consumer: &str) -> Answer {
        let facts = self.facts(world);
        let mut consumers = facts.answers.consumers.iter();
        let gets = &consumers.find(|found| found.name == consumer).unwrap();
        match &gets.outcome.as_is.answer.result {
            Ok(file) => Answer::Opened(file.real_path.to_string()),
            Err(failure) => Answer::Failed(failure.message.clone()),
        }
    }

    /// Runs the script in the real Python. The script prints `failed` and a message, or nothing if libcupti is mapped.
    /// Also returns the result of the first call into the mapped library.
    pub fn real(&self, world: World, script: &str) -> (Answer, FirstCall) {
        let script = format!("{PRELUDE}{script}\nmapped()\ncalled()\n");
        let path = world.library_path().map(|path| format!("LD_LIBRARY_PATH={path}"));
        let hidden = [CUPTI];
        let session = Session {
            root: &self.root,
            lent: Some(self.tools.path()),
            hidden: if world == World::WithoutCupti { &hidden } else { &[] },
        };
        let mut words = vec!["HOME=/root", "PATH=/opt/venv/bin:/usr/bin:/bin"];
        words.extend(path.as_deref());
        words.extend(["/opt/venv/bin/python", "-B", "-c", &script]);
        let output = session.command(&words).output().unwrap();
        let (out, err) = (
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr),
        );
        let lines = || out.lines().filter_map(|line| line.split_once(": "));
        let answer = match lines().find(|(what, _)| *what == "opened" || *what == "failed") {
            Some(("opened", path)) => Answer::Opened(path.to_owned()),
            Some((_, words)) => Answer::Failed(words.to_owned()),
            None => panic!("the script says nothing: {out}\n{err}"),
        };
        let call = match lines().find(|(what, _)| *what == "called") {
            Some((_, "as its header")) => FirstCall::AsItsHeader,
            Some((_, how)) => FirstCall::Other(how.to_owned()),
            None => FirstCall::None,
        };
        (answer, call)
    }
}

/// Helpers for the scripts. They must not map anything before the script does.
const PRELUDE: &str = "
import ctypes, sys
def mapped():
    found = {line.split()[-1] for line in open('/proc/self/maps') if '/libcupti.so' in line}
    print('opened:', *found)
def called():
    # In a process of its own: without a driver some releases of CUDA 13 call themselves until the stack ends.
    import glob, os, re
    found = {line.split()[-1] for line in open('/proc/self/maps') if '/libcupti.so' in line}
    sys.stdout.flush()
    for path in found:
        folder = os.path.dirname(os.path.dirname(path))
        headers = glob.glob(folder + '/include/cupti_version.h') + glob.glob(folder + '/../include/cupti_version.h')
        # A file that was lent has no header beside it: 22 is that of CUDA 12.4.
        expected = re.search(r'CUPTI_API_VERSION +([0-9]+)', open(headers[0]).read()).group(1) if headers else '22'
        child = os.fork()
        if child == 0:
            version = ctypes.c_uint32()
            error = ctypes.CDLL(path).cuptiGetVersion(ctypes.byref(version))
            os._exit(0 if error == 0 and version.value == int(expected) else 1)
        status = os.waitpid(child, 0)[1]
        print('called:', 'as its header' if status == 0 else 'signal ' + str(os.WTERMSIG(status)) if os.WIFSIGNALED(status) else 'error')
def failed(words):
    print('failed:', words)
    sys.exit()
def open_as(path, name):
    helper = ctypes.CDLL('/mnt/as_caller.so')
    helper.open_as.restype = ctypes.c_char_p
    words = helper.open_as(path.encode(), name.encode())
    if words: failed(words.decode())
";

/// A folder with the library that calls dlopen on behalf of another object, and a driver stub that only reports its
/// version.
fn tools() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (library, source) in [("as_caller.so", "as_caller.c"), ("libcuda.so.1", "driver_stub.c")] {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/support").join(source);
        let output = Command::new("gcc")
            .args(["-O1", "-shared", "-fPIC", "-mno-red-zone", "-Wl,-soname"])
            .arg(format!("-Wl,{library}"))
            .arg("-o")
            .arg(folder.path().join(library))
            .arg(source)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
    }
    std::fs::copy(cupti_12(), folder.path().join("libcupti.so")).unwrap();
    folder
}

/// The real libcupti of CUDA 12.4.
fn cupti_12() -> PathBuf {
    support::parts().join("wheels/nvidia-cuda-cupti-cu12-12.4.127/nvidia/cuda_cupti/lib/libcupti.so.12")
}
