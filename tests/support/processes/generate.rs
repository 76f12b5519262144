//! Generates an image from a seed: places for CUPTI, an environment, programs that request it, and features.

use super::features;
use super::spec::{Build, Content, EntrySpec, Feature, ImageSpec, ObjectSpec, ProcessSpec};
use testkit::random::Random;

/// The folders for copies of CUPTI.
pub const PLACES: [&str; 6] = [
    "/usr/lib/x86_64-linux-gnu",
    "/usr/local/cuda-12.4/lib64",
    "/opt/cupti/lib",
    "/home/app/cupti",
    "/srv/tools/cupti",
    "/usr/local/lib",
];
/// The sonames of copies and of requests, with their weights.
pub const SONAMES: [(usize, &str); 4] = [
    (80, "libcupti.so.12"),
    (6, "libcupti.so.13"),
    (4, "libcupti.so.11.8"),
    (10, "libcupti.so"),
];

/// Every feature with its weight.
pub const FEATURES: [(usize, Feature); 46] = [
    (3, Feature::Plain),
    (4, Feature::Layers),
    (4, Feature::Cache),
    (4, Feature::Preload),
    (2, Feature::Through),
    (3, Feature::Setuid),
    (2, Feature::Setgid),
    (3, Feature::Capabilities),
    (4, Feature::FileMode),
    (3, Feature::AccessList),
    (4, Feature::FolderMode),
    (2, Feature::ProgramMode),
    (3, Feature::AbsoluteName),
    (3, Feature::RelativeName),
    (2, Feature::OriginName),
    (2, Feature::Pattern),
    (2, Feature::Immediate),
    (2, Feature::Alias),
    (4, Feature::EnvCommand),
    (5, Feature::Script),
    (3, Feature::ChangedUser),
    (2, Feature::ScriptMode),
    (3, Feature::Directory),
    (2, Feature::Loop),
    (3, Feature::Sourced),
    (2, Feature::Namespace),
    (1, Feature::Static),
    (1, Feature::StaticPie),
    (3, Feature::Damage),
    (2, Feature::StaticTls),
    (2, Feature::Unbound),
    (2, Feature::PythonSystem),
    (2, Feature::PythonVenv),
    (2, Feature::PythonUser),
    (2, Feature::PythonTarget),
    (2, Feature::PythonPth),
    (2, Feature::PythonPrefix),
    (2, Feature::PythonPreload),
    (2, Feature::PythonAfter),
    (4, Feature::MissingLibrary),
    (3, Feature::MissingInterpreter),
    (3, Feature::ScriptInterpreter),
    (3, Feature::PythonMissing),
    (4, Feature::UnboundProgram),
    (3, Feature::CommandKind),
    (4, Feature::PythonImport),
];

/// The image of a seed.
pub fn make(seed: u64) -> ImageSpec {
    let mut random = Random::new(seed);
    let mut features = vec![random.weighted(&FEATURES)];
    while random.chance(35) && features.len() < 3 {
        let more = random.weighted(&FEATURES);
        // Two features that change the start, or two kinds of Python, would hide each other.
        let clashes = |other: &Feature| {
            *other == more || rules_start(*other) && rules_start(more) || is_python(*other) && is_python(more)
        };
        if more != Feature::Plain && !features.iter().any(clashes) {
            features.push(more);
        }
    }
    // Features that change the start come last, because they need the programs.
    features.sort_by_key(|feature| rules_start(*feature));
    make_with(seed, &features)
}

/// An image of a seed with these features.
pub fn make_with(seed: u64, features: &[Feature]) -> ImageSpec {
    let mut draft = Draft {
        spec: ImageSpec {
            seed,
            features: features.to_vec(),
            layers: vec![indexmap::IndexMap::new(), indexmap::IndexMap::new()],
            ..ImageSpec::default()
        },
        random: Random::new(seed ^ 0x5eed),
        copies: Vec::new(),
        healthy: false,
    };
    draft.healthy = draft.random.chance(35);
    if draft.healthy {
        draft.whole_cupti();
    } else {
        draft.copies_of_cupti();
        draft.library_path();
    }
    draft.programs();
    for feature in features {
        features::apply(&mut draft, *feature);
    }
    draft.finish()
}

/// Whether the feature changes how the program starts.
pub fn rules_start(feature: Feature) -> bool {
    matches!(
        feature,
        Feature::EnvCommand
            | Feature::Script
            | Feature::ChangedUser
            | Feature::ScriptMode
            | Feature::Directory
            | Feature::Loop
            | Feature::Sourced
            | Feature::ScriptInterpreter
            | Feature::CommandKind
    )
}

fn is_python(feature: Feature) -> bool {
    feature >= Feature::PythonSystem
}

/// An image under construction.
pub struct Draft {
    /// The image so far.
    pub spec: ImageSpec,
    /// Random numbers from the image's seed.
    pub random: Random,
    /// The copies of CUPTI: folder, soname and file.
    pub copies: Vec<(String, String, String)>,
    /// Whether every process would get CUPTI without further features.
    healthy: bool,
}

impl Draft {
    /// Puts an entry into a layer.
    pub fn put(&mut self, layer: usize, path: &str, is: Content) -> &mut EntrySpec {
        while self.spec.layers.len() <= layer {
            self.spec.layers.push(indexmap::IndexMap::new());
        }
        let entries = &mut self.spec.layers[layer];
        entries.insert(path.to_owned(), EntrySpec::of(is));
        &mut entries[path]
    }

    /// Adds a copy of CUPTI to a folder, with the links of a package.
    pub fn copy(&mut self, folder: &str, soname: &str) {
        let plain = self.random.chance(40) || soname == "libcupti.so";
        let file = if plain {
            soname.to_owned()
        } else {
            "libcupti.so.2024.1.1".to_owned()
        };
        let path = format!("{folder}/{file}");
        self.put(0, &path, cupti(soname));
        if !plain {
            self.put(0, &format!("{folder}/{soname}"), Content::Link(file));
        }
        if soname != "libcupti.so" && self.random.chance(40) {
            self.put(0, &format!("{folder}/libcupti.so"), Content::Link(soname.to_owned()));
        }
        if self.random.chance(50) {
            self.put(
                0,
                &format!("{folder}/libnvperf_host.so"),
                object(Build::Empty, "libnvperf_host.so"),
            );
        }
        self.copies.push((folder.to_owned(), soname.to_owned(), path));
    }

    /// A soname for a program to request.
    pub fn soname(&mut self) -> String {
        if self.healthy {
            return "libcupti.so.12".to_owned();
        }
        self.random.weighted(&SONAMES).to_owned()
    }

    /// One of the copies, or a folder without CUPTI if there is no copy.
    pub fn some_copy(&mut self) -> (String, String, String) {
        if self.copies.is_empty() {
            let at = "/opt/gone";
            return (
                at.to_owned(),
                "libcupti.so.12".to_owned(),
                format!("{at}/libcupti.so.12"),
            );
        }
        self.random.one_of(&self.copies).clone()
    }

    /// Adds a program and a process that runs it.
    pub fn program(&mut self, object: ObjectSpec) -> String {
        let number = self.spec.processes.len();
        let path = format!("/opt/prog{number}/bin/prog{number}");
        self.put(1, &path, Content::Object(object));
        self.process(&path, vec![path.clone()]);
        path
    }

    /// Adds a process.
    pub fn process(&mut self, object: &str, command: Vec<String>) {
        self.spec.processes.push(ProcessSpec {
            object: object.to_owned(),
            command,
            directory: None,
        });
    }

    /// Sets a variable of the environment.
    pub fn env(&mut self, name: &str, value: &str) {
        self.spec.env.push(format!("{name}={value}"));
    }

    /// Sets `USER`, usually to one without root's rights.
    pub fn user(&mut self) {
        if self.spec.user.is_none() {
            let forms = [
                "app",
                "1000",
                "app:gpu",
                "1000:1500",
                "svc",
                "svc:data",
                "4242",
                "4242:1600",
                "root",
                "app:1001",
            ];
            let user = if self.random.chance(50) {
                "app"
            } else {
                self.random.pick(&forms)
            };
            self.spec.user = Some(user.to_owned());
        }
    }

    /// Adds a CUPTI that every unprivileged process gets, with its adjacent library.
    fn whole_cupti(&mut self) {
        let folder = self.random.pick(&PLACES).to_owned();
        self.put(
            0,
            &format!("{folder}/libnvperf_host.so"),
            object(Build::Empty, "libnvperf_host.so"),
        );
        self.put(
            0,
            &format!("{folder}/libcupti.so"),
            Content::Link("libcupti.so.12".to_owned()),
        );
        self.copy(&folder, "libcupti.so.12");
        if folder != PLACES[0] {
            self.env("LD_LIBRARY_PATH", &folder);
        }
    }

    fn copies_of_cupti(&mut self) {
        let count = self.random.weighted(&[(1, 0), (6, 1), (4, 2)]);
        for _ in 0..count {
            let usual = self.random.chance(20);
            let folder = if usual { PLACES[0] } else { self.random.pick(&PLACES) }.to_owned();
            let soname = self.soname();
            if !self.copies.iter().any(|(other, ..)| *other == folder) {
                self.copy(&folder, &soname);
            }
        }
        if self.random.chance(15) {
            self.put(0, "/usr/include/cupti.h", Content::Text("/* CUPTI */\n".to_owned()));
        }
    }

    fn library_path(&mut self) {
        if !self.random.chance(55) {
            return;
        }
        let mut elements = Vec::new();
        for _ in 0..=self.random.below(3) {
            let element = match self.random.below(14) {
                0 => String::new(),
                1 => "lib".to_owned(),
                2 => "/opt/gone/lib".to_owned(),
                3 => self.random.pick(&PLACES).to_owned(),
                _ => self.some_copy().0,
            };
            elements.push(element);
        }
        self.env("LD_LIBRARY_PATH", &elements.join(":"));
        if self.random.chance(30) {
            let folder = self.some_copy().0;
            self.spec.working_dir = Some(if self.random.chance(60) {
                folder
            } else {
                "/srv".to_owned()
            });
        }
    }

    fn programs(&mut self) {
        for _ in 0..5 + self.random.below(7) {
            let object = self.asks_by_name();
            let path = self.program(object);
            if self.random.chance(15) {
                let soname = self.soname();
                let own = path.replace("/bin/", "/lib/");
                let folder = own.rsplit_once('/').unwrap().0.to_owned();
                self.copy(&folder, &soname);
            }
        }
    }

    /// A program that links CUPTI or opens it by name.
    pub fn asks_by_name(&mut self) -> ObjectSpec {
        let build = if self.random.chance(50) {
            Build::Link
        } else {
            Build::Open
        };
        let mut object = ObjectSpec {
            build,
            name: self.soname(),
            ..ObjectSpec::default()
        };
        let path = match self.random.below(12) {
            0 => "$ORIGIN/../lib".to_owned(),
            1 => format!("/opt/gone:{}", self.some_copy().0),
            2 => "lib:$ORIGIN".to_owned(),
            _ => self.some_copy().0,
        };
        match self.random.below(10) {
            0..=2 => object.rpath = Some(path),
            3..=5 => object.runpath = Some(path),
            _ => {}
        }
        object
    }

    fn finish(mut self) -> ImageSpec {
        if self.spec.entrypoint.is_empty() && self.spec.cmd.is_empty() {
            // The programs of the features come last; this makes one of them the image's own as often as another.
            let first = if self.random.chance(50) {
                self.spec.processes.len() - 1
            } else {
                0
            };
            self.spec.processes.swap(0, first);
            let command = self.spec.processes[0].command.clone();
            if self.random.chance(50) {
                self.spec.entrypoint = command;
            } else {
                self.spec.cmd = command;
            }
        }
        self.spec.layers.retain(|layer| !layer.is_empty());
        self.spec
    }
}

/// A libcupti with a soname.
pub fn cupti(soname: &str) -> Content {
    object(Build::Cupti, soname)
}

/// An object without a search path.
pub fn object(build: Build, name: &str) -> Content {
    Content::Object(ObjectSpec {
        build,
        name: name.to_owned(),
        ..ObjectSpec::default()
    })
}
