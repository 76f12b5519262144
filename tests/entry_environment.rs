//! Is the environment of a container's program what its command and its entry script make of it?
//!
//! The judge is a real `sh`, a real bash and a real `env`: they run each command in a root, and a program prints the
//! variables that it got, and its working directory. What is said to be known has to be that; what only a run could tell
//! may be anything.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "the judge is a real shell, run in a root; tests may panic"
)]

#[path = "support/plain_image.rs"]
mod plain_image;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use cupti_audit::judge::facts::{
    EntryEnvironment, GatherOptions, ImageFacts, ReadLayers, WorkingDirectory, gather_facts,
};
use cupti_audit::knowledge::Knowledge;
use cupti_audit::knowledge::file_interest::cupti_options;
use image_linkage::layer::{ExpectedBlob, index_layer};
use image_linkage::loader::CpuLevel;
use image_linkage::path::RootPath;
use image_source::ImageConfig;
use plain_image::image_of;
use testkit::elf::Elf;
use testkit::layer::{Compression, Entry, Kind, Layer};
use testkit::parts;

/// What the program prints that everything starts in the end.
const PRINT: &str = "/usr/bin/print";
/// The programs of the root.
const PROGRAMS: [&str; 12] = [
    "bin/dash",
    "bin/bash",
    "bin/chmod",
    "bin/chown",
    "bin/cat",
    "bin/readlink",
    "usr/bin/dirname",
    "bin/rm",
    "bin/touch",
    "usr/bin/env",
    "usr/bin/nice",
    "usr/bin/timeout",
];
const VARIABLES: [&str; 4] = [
    "LD_LIBRARY_PATH",
    "LD_PRELOAD",
    "CUDA_INJECTION64_PATH",
    "NVTX_INJECTION64_PATH",
];

/// A command with its environment and the scripts that it finds.
#[derive(Debug, Clone, Default)]
struct Case {
    command: Vec<String>,
    environment: Vec<(String, String)>,
    scripts: Vec<(String, String)>,
    user: Option<String>,
}

fn command(words: &[&str]) -> Case {
    Case {
        command: words.iter().map(|word| (*word).to_owned()).collect(),
        ..Case::default()
    }
}

/// An entry script in front of the program.
fn script(shell: &str, text: &str) -> Case {
    Case {
        command: vec!["/entrypoint.sh".to_owned(), PRINT.to_owned()],
        scripts: vec![("/entrypoint.sh".to_owned(), format!("#!{shell}\n{text}"))],
        ..Case::default()
    }
}

impl Case {
    fn with(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    fn and(mut self, path: &str, text: &str) -> Self {
        self.scripts.push((path.to_owned(), text.to_owned()));
        self
    }

    fn ours(&self) -> EntryEnvironment {
        let layer = Layer::new()
            .dir("opt/cupti")
            .dir("opt/one/lib")
            .dir("opt/two/lib")
            .entry(Entry {
                name: b"opt/closed/".to_vec(),
                mode: 0o700,
                kind: Kind::Directory,
            })
            .executable(&PRINT[1..], Elf::executable().build());
        self.facts(layer).contexts.as_is.entry
    }

    fn facts(&self, mut layer: Layer) -> ImageFacts {
        // What the judge's root has as well.
        layer = layer.symlink("bin/sh", "dash").symlink("usr/bin/sh", "/bin/dash");
        for program in PROGRAMS.iter().chain(&["usr/bin/bash"]) {
            layer = layer.executable(program, Elf::executable().build());
        }
        for (path, text) in &self.scripts {
            layer = layer.executable(&path[1..], text.as_bytes());
        }
        let blob = layer.blob(Compression::None);
        let index = index_layer(
            "case",
            blob.bytes.as_slice(),
            &ExpectedBlob::default(),
            &cupti_options(),
        )
        .unwrap();
        let conditions = GatherOptions {
            environment: Vec::new(),
            cpu: CpuLevel::V3,
            limits: image_linkage::limits::Limits::default(),
        };
        let layers = vec![Ok(index)];
        let image = image_of("case", 1, self.config());
        gather_facts(image, ReadLayers { layers }, &Knowledge::built_in(), &conditions)
    }

    fn config(&self) -> ImageConfig {
        ImageConfig {
            env: self.environment.clone(),
            command: self.command.clone(),
            user: self.user.clone(),
            ..ImageConfig::default()
        }
    }
}

/// A root with real shells.
struct Judge {
    root: tempfile::TempDir,
}

impl Judge {
    fn new() -> Option<Self> {
        let debian = parts::part("bookworm")?;
        if !parts::is_root() || !parts::have("gcc", "gcc") {
            return None;
        }
        let root = tempfile::tempdir().unwrap();
        let judge = Self { root };
        let libraries = [
            "lib64/ld-linux-x86-64.so.2",
            "lib/x86_64-linux-gnu/libc.so.6",
            "lib/x86_64-linux-gnu/libtinfo.so.6",
        ];
        fs::set_permissions(judge.root.path(), fs::Permissions::from_mode(0o755)).unwrap();
        for path in PROGRAMS.into_iter().chain(libraries) {
            let from = fs::canonicalize(debian.join(path)).unwrap_or_else(|_| in_root(&debian, path));
            judge.place(path, &fs::read(from).unwrap());
        }
        fs::copy(judge.path("bin/dash"), judge.path("bin/sh")).unwrap();
        for folder in ["opt/cupti", "opt/one/lib", "opt/two/lib"] {
            fs::create_dir_all(judge.path(folder)).unwrap();
        }
        fs::create_dir_all(judge.path("usr/bin")).unwrap();
        judge.place("dev/null", b"");
        let source = judge.path("print.c");
        fs::write(&source, PRINTER).unwrap();
        let to = judge.path("usr/bin/print");
        let built = Command::new("gcc")
            .arg("-static")
            .arg("-o")
            .arg(to)
            .arg(source)
            .status()
            .unwrap();
        assert!(built.success());
        Some(judge)
    }

    fn path(&self, path: &str) -> PathBuf {
        self.root.path().join(path)
    }

    fn place(&self, path: &str, bytes: &[u8]) {
        let to = self.path(path);
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::write(&to, bytes).unwrap();
        fs::set_permissions(&to, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// The variables that the program prints; `None` where it is not started.
    fn real(&self, case: &Case) -> Option<BTreeMap<String, String>> {
        for (path, text) in &case.scripts {
            self.place(&path[1..], text.as_bytes());
        }
        // chroot itself is a program of this machine, and must not meet what is for the one in the root.
        let mut inner = vec!["PATH=/usr/bin:/bin".to_owned()];
        inner.extend(case.environment.iter().map(|(name, value)| format!("{name}={value}")));
        let mut run = Command::new("chroot");
        run.args(case.user.iter().map(|user| format!("--userspec={user}:{user}")));
        run.arg(self.root.path())
            .args(["/usr/bin/env", "-i"])
            .args(inner)
            .args(&case.command);
        let output = run
            .env_clear()
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        for (path, _) in &case.scripts {
            fs::remove_file(self.path(&path[1..])).unwrap();
        }
        let printed = text.rsplit_once("--\n")?.1;
        let pairs = printed.lines().filter_map(|line| line.split_once('='));
        Some(pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
    }
}

/// A path in a root whose `lib` and `bin` are links.
fn in_root(root: &Path, path: &str) -> PathBuf {
    fs::canonicalize(root.join("usr").join(path)).unwrap()
}

const PRINTER: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int main(void)
{
  char here[4096];
  const char *names[] = { "LD_LIBRARY_PATH", "LD_PRELOAD", "CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH" };
  puts("--");
  printf("CWD=%s\n", getcwd(here, sizeof here));
  for (int i = 0; i < 4; i++)
    if (getenv(names[i]))
      printf("%s=%s\n", names[i], getenv(names[i]));
  return 0;
}
"#;

/// What is known of a case, where both answers agree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    /// All variables, and the folder.
    Known,
    Partly,
    /// The program is not started, as it is said.
    Ends,
    /// Only a run could tell whether it is started.
    MayEnd,
}

/// What both answers come to, or the words of a difference.
fn compare(judge: &Judge, case: &Case) -> Result<Answer, String> {
    let ours = case.ours();
    let real = judge.real(case);
    let Some(real) = real else {
        return match (&ours.problem, &ours.doubt) {
            (Some(_), _) => Ok(Answer::Ends),
            (None, Some(_)) => Ok(Answer::MayEnd),
            _ if ours.idle.is_some() || ours.program.is_empty() => Ok(Answer::Ends),
            _ => Err(format!("{case:#?}\n  ours {ours:?}\n  real: not started")),
        };
    };
    if let Some(problem) = &ours.problem {
        return Err(format!("{case:#?}\n  ours {problem}\n  real {real:?}"));
    }
    if ours.doubt.is_some() {
        return Ok(Answer::MayEnd);
    }
    for name in VARIABLES {
        let known = !ours.unknown.iter().any(|unknown| unknown == name);
        if known && ours.values.get(name) != real.get(name) {
            return Err(format!("{case:#?}\n  ours {ours:?}\n  real {real:?}"));
        }
    }
    let here = match &ours.working_dir {
        WorkingDirectory::Configured => Some("/"),
        WorkingDirectory::Known(path) => Some(path.as_str()),
        WorkingDirectory::Unknown => None,
    };
    if here.is_some_and(|here| real.get("CWD").map(String::as_str) != Some(here)) {
        return Err(format!("{case:#?}\n  ours in {here:?}\n  real {real:?}"));
    }
    let is_known = ours.unknown.is_empty() && here.is_some();
    Ok(if is_known { Answer::Known } else { Answer::Partly })
}

/// An entry point as NVIDIA's images have one: it reads the files of a folder, one after the other.
const PARTS: &str = "shopt -s nullglob extglob
HERE=\"$(dirname \"$(readlink -f \"${BASH_SOURCE[0]}\")\")\"
declare -a PARTS=( \"${HERE}/parts.d\"/*@(.txt|.sh) )
shopt -u nullglob extglob
for part in \"${PARTS[@]}\"; do
  case \"${part}\" in
    *.txt) cat \"${part}\";;
    *.sh) source \"${part}\";;
  esac
done
exec \"$@\"
";

fn parts_of(text: &str) -> Case {
    let case = script("/bin/bash", PARTS).and("/opt/entry/parts.d/10-banner.txt", "Hello\n");
    Case {
        command: vec!["/opt/entry/start.sh".to_owned(), PRINT.to_owned()],
        ..case
    }
    .and("/opt/entry/start.sh", &format!("#!/bin/bash\n{PARTS}"))
    .and("/opt/entry/parts.d/20-own.sh", text)
}

/// A script that divides `P` by commas, and what follows, in front of the program.
fn divided(shell: &str, text: &str) -> Case {
    let text =
        format!("program=$1\nold=$IFS\nIFS=,\nset -- $P\n{text}\nexport LD_LIBRARY_PATH LD_PRELOAD\nexec $program\n");
    script(shell, &text).with("P", "/one two,/two,,").with("LD_PRELOAD", "")
}

/// Cases that are known to the last variable.
#[expect(clippy::too_many_lines, reason = "one case behind the other")]
fn known_cases() -> Vec<Case> {
    let path = "LD_LIBRARY_PATH";
    let exec = "exec \"$@\"\n";
    vec![
        command(&[PRINT]).with(path, "/opt/a"),
        script(
            "/bin/sh",
            "run() { exec \"$@\"; }\nLD_LIBRARY_PATH=/called run \"$@\"\n",
        ),
        script("/bin/bash", "run() { \"$@\"; }\nLD_LIBRARY_PATH=/called run \"$@\"\n").with(path, "/opt/a"),
        script("/bin/sh", &format!("LD_LIBRARY_PATH=/kept :\n{exec}")).with(path, "/opt/a"),
        script("/bin/sh", &format!("LD_LIBRARY_PATH=/kept exec\n{exec}")).with(path, "/opt/a"),
        script("/bin/sh", &format!("unset -f LD_LIBRARY_PATH\n{exec}")).with(path, "/opt/a"),
        script("/bin/bash", "readonly LD_PRELOAD\nLD_PRELOAD=/x.so \"$@\"\n").with(path, "/opt/a"),
        script("/bin/sh", "/more.sh \"$@\"\n").and("/more.sh", &format!("export LD_LIBRARY_PATH=/more\n{exec}")),
        parts_of("export LD_LIBRARY_PATH=/of/a/part\n"),
        script(
            "/bin/bash",
            &format!("[[ $MODE =~ ^gpu-[0-9]+$ ]] && export LD_LIBRARY_PATH=/gpu\n{exec}"),
        )
        .with("MODE", "gpu-12"),
        script(
            "/bin/bash",
            &format!("[[ $MODE =~ ^gpu-[0-9]+$ ]] && export LD_LIBRARY_PATH=/gpu\n{exec}"),
        )
        .with("MODE", "gpu-x"),
        script(
            "/bin/bash",
            &format!("if [[ \"$1\" =~ ^-- ]]; then set -- /opt/none \"$@\"; fi\n{exec}"),
        ),
        script(
            "/bin/bash",
            &format!("DIR=\"$(cd ./opt && pwd)\"\nexport LD_LIBRARY_PATH=$DIR/lib\n{exec}"),
        ),
        script(
            "/bin/bash",
            &format!("A=(/opt/a); A+=(\"$1\")\nexport LD_PRELOAD=${{A[1]}}\n{exec}"),
        ),
        script(
            "/bin/bash",
            "cmd=(\"$@\")\nexport LD_LIBRARY_PATH=/array\nexec \"${cmd[@]}\"\n",
        ),
        script(
            "/bin/sh",
            &format!(
                "export LD_LIBRARY_PATH=/x\ni=0\nwhile [ $i -lt 3 ]; do LD_LIBRARY_PATH=$B; B=$C; C=/y; i=$((i+1)); done\n{exec}"
            ),
        ),
        script("/bin/sh", "exec $(echo env -u LD_LIBRARY_PATH /usr/bin/print)\n").with(path, "/x"),
        // As the images of databases read their secrets.
        script(
            "/bin/bash",
            &format!(
                "file_env() {{ local var=\"$1\" file=\"${{1}}_FILE\" def=\"${{2:-}}\"; local val=\"$def\"\n\
                 if [ \"${{!var:-}}\" ]; then val=\"${{!var}}\"; elif [ \"${{!file:-}}\" ]; then val=\"$(< \"${{!file}}\")\"; fi\n\
                 export \"$var\"=\"$val\"; unset \"$file\"; }}\nfile_env LD_LIBRARY_PATH /default\n{exec}"
            ),
        ),
        command(&["env", "LD_LIBRARY_PATH=/opt/cupti", PRINT]),
        command(&["/usr/bin/env", "A=b", "LD_LIBRARY_PATH=/opt/a:", PRINT]).with(path, "/opt/b"),
        command(&["env", "-i", "LD_PRELOAD=", PRINT]).with(path, "/opt/b"),
        command(&["env", "-u", "LD_LIBRARY_PATH", PRINT]).with(path, "/opt/b"),
        command(&["env", "--unset=LD_LIBRARY_PATH", "--", PRINT]).with(path, "/opt/b"),
        command(&["env", "-S", "LD_LIBRARY_PATH=/opt/cupti /usr/bin/print"]),
        command(&["env", "-iu", path, "LD_PRELOAD=", PRINT]).with(path, "/opt/b"),
        command(&["env", "-vS", "-u LD_LIBRARY_PATH 'LD_PRELOAD=/a b' /usr/bin/print"]).with(path, "/x"),
        command(&["env", "--split=-i LD_LIBRARY_PATH=${G}/lib\\_/usr/bin/print"]).with("G", "/opt"),
        command(&["env", "--uns=LD_LIBRARY_PATH", "--chd", "/opt", PRINT]).with(path, "/x"),
        command(&["env", "-", "A=b", "LD_LIBRARY_PATH=/y", PRINT]).with(path, "/x"),
        command(&["bash", "-c", "load; exec /usr/bin/print"])
            .with("BASH_FUNC_load%%", "() {  export LD_LIBRARY_PATH=/function\n}"),
        command(&[
            "sh",
            "-c",
            "trap '/usr/bin/print' EXIT; export LD_LIBRARY_PATH=/at/exit; exit 0",
        ]),
        command(&["bash", "-c", "time export LD_LIBRARY_PATH=/timed; exec /usr/bin/print"]),
        script(
            "/bin/sh",
            &format!(": ${{LD_LIBRARY_PATH:=/set}}\nexport LD_LIBRARY_PATH\n{exec}"),
        ),
        script(
            "/bin/sh",
            &format!("case $1 in -*) set -- /usr/bin/print \"$@\";; /usr/*) export LD_LIBRARY_PATH=/c;; esac\n{exec}"),
        ),
        script(
            "/bin/bash",
            &format!("[[ $1 == *print && ! -e /opt/none ]] && export LD_LIBRARY_PATH=/p\n{exec}"),
        ),
        script(
            "/bin/sh",
            &format!("set -- a \"$@\"\nwhile [ $# -gt 1 ]; do shift; export LD_LIBRARY_PATH=/n/$#; done\n{exec}"),
        ),
        script(
            "/bin/sh",
            "[ -n \"$SEEN\" ] && exec \"$@\"\nexport SEEN=1 LD_LIBRARY_PATH=/again\nexec \"$0\" \"$@\"\n",
        ),
        command(&["timeout", "-k", "1", "20", "env", "-u", path, PRINT]).with(path, "/x"),
        command(&["timeout", "--foreground", "-s", "KILL", "20", "env", "-u", path, PRINT]).with(path, "/x"),
        command(&["nice", "-n", "5", "timeout", "20", "env", "-u", path, PRINT]).with(path, "/x"),
        script("/bin/sh", &format!("command unset LD_LIBRARY_PATH\n{exec}")).with(path, "/x"),
        script("/bin/bash", &format!("builtin unset LD_LIBRARY_PATH\n{exec}")).with(path, "/x"),
        script("/bin/bash", "go() { LD_LIBRARY_PATH= command \"$@\"; }\ngo \"$@\"\n").with(path, "/x"),
        command(&["sh", "-c", "export LD_LIBRARY_PATH=/opt/a; exec /usr/bin/print"]),
        command(&["bash", "-c", "LD_LIBRARY_PATH=/opt/a:$LD_LIBRARY_PATH /usr/bin/print"]).with(path, "/x"),
        command(&[
            "sh",
            "-c",
            "export LD_LIBRARY_PATH=/opt/a${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} && /usr/bin/print",
        ]),
        command(&[
            "sh",
            "-ec",
            "LD_LIBRARY_PATH=/x:$1 exec /usr/bin/print",
            "zero",
            "/opt/one",
        ]),
        script("/bin/sh", &format!("export LD_LIBRARY_PATH=/opt/a\n{exec}")),
        script(
            "/bin/sh",
            &format!("set -e\nLD_LIBRARY_PATH=\"/opt/a:$LD_LIBRARY_PATH\"\n{exec}"),
        )
        .with(path, "/old"),
        script("/bin/sh", &format!("LD_LIBRARY_PATH=/not/exported\n{exec}")),
        script(
            "/bin/sh",
            &format!("LD_LIBRARY_PATH='/a b'\nexport LD_LIBRARY_PATH\n{exec}"),
        ),
        script(
            "/bin/bash",
            &format!("FOLDER=/opt/cupti\nexport LD_LIBRARY_PATH=\"${{FOLDER}}/lib\" X=1\n{exec}"),
        ),
        script("/usr/bin/env bash", &format!("unset LD_LIBRARY_PATH\n{exec}")).with(path, "/old"),
        script(
            "/bin/sh -e",
            &format!("if [ -d /opt/cupti ]; then\n  export LD_LIBRARY_PATH=/opt/cupti\nfi\n{exec}"),
        ),
        script(
            "/bin/sh",
            &format!("if [ ! -d /opt/missing ]; then\n :\nelse\n  export LD_LIBRARY_PATH=/x\nfi\n{exec}"),
        ),
        script(
            "/bin/sh",
            &format!("[ -z \"$LD_LIBRARY_PATH\" ] && export LD_LIBRARY_PATH=/opt/a\n{exec}"),
        ),
        script(
            "/bin/sh",
            &format!("[ -n \"$LD_LIBRARY_PATH\" ] || export LD_LIBRARY_PATH=/opt/a\n{exec}"),
        )
        .with(path, "/x"),
        script(
            "/bin/bash",
            &format!("use() {{ export LD_LIBRARY_PATH=$1; }}\nuse /opt/cupti\n{exec}"),
        ),
        script(
            "/bin/sh",
            &format!(": ${{LD_PRELOAD:-none}}\nexport LD_PRELOAD=${{LD_PRELOAD-/opt/p.so}}\n{exec}"),
        ),
        script(
            "/bin/sh",
            &format!("cat <<EOF >/dev/null\nexport LD_LIBRARY_PATH=/no\nEOF\n{exec}"),
        ),
        script(
            "/bin/sh",
            &format!("# export LD_LIBRARY_PATH=/no\nexport \\\n  LD_LIBRARY_PATH=/opt/a # yes\n{exec}"),
        ),
        script(
            "/bin/sh",
            &format!("(export LD_LIBRARY_PATH=/no)\necho $(export LD_LIBRARY_PATH=/no) >/dev/null\n{exec}"),
        ),
        script("/bin/sh", &format!("set -a\nLD_LIBRARY_PATH=/opt/a\n{exec}")),
        script("/bin/sh", "LD_LIBRARY_PATH=/opt/a exec /usr/bin/print more\n"),
        script("/bin/sh", "export LD_LIBRARY_PATH=/opt/a\n/usr/bin/print\n"),
        script("/bin/sh", &format!(". /opt/env.sh\n{exec}"))
            .and("/opt/env.sh", "export LD_LIBRARY_PATH=/opt/sourced\n"),
        script("/bin/sh", "export LD_LIBRARY_PATH=/one\nexec /start.sh \"$@\"\n").and(
            "/start.sh",
            "#!/bin/sh\nexport LD_LIBRARY_PATH=$LD_LIBRARY_PATH:/two\nexec \"$@\"\n",
        ),
        script(
            "/bin/sh",
            &format!("export CUDA_INJECTION64_PATH=/opt/i.so NVTX_INJECTION64_PATH=\n{exec}"),
        ),
        script("/bin/bash", &format!("LD_LIBRARY_PATH+=:/more\n{exec}")).with(path, "/old"),
        script(
            "/bin/sh",
            &format!(
                "for d in /a '/b c'; do LD_LIBRARY_PATH=$d:$LD_LIBRARY_PATH; done\nexport LD_LIBRARY_PATH\n{exec}"
            ),
        ),
        script(
            "/bin/sh",
            &format!("for v in LD_LIBRARY_PATH F; do unset $v; done\n{exec}"),
        )
        .with(path, "/old"),
        script(
            "/bin/sh",
            &format!("for d in /opt/*/lib; do export LD_LIBRARY_PATH=\"$d:$LD_LIBRARY_PATH\"; done\n{exec}"),
        ),
        script(
            "/bin/sh",
            &format!("for d in /opt/*; do LD_LIBRARY_PATH=$d; export LD_LIBRARY_PATH; done\n{exec}"),
        ),
        script(
            "/bin/bash",
            &format!("for d in /opt/none*; do export LD_LIBRARY_PATH=$d; done\n{exec}"),
        ),
        // As Debian's /etc/profile has it, with and without a file there.
        script(
            "/bin/sh",
            &format!(
                "for i in /none/*.sh; do if [ -r $i ]; then . $i; fi; done; unset i\nexport LD_LIBRARY_PATH=/x\n{exec}"
            ),
        ),
        script(
            "/bin/sh",
            &format!("p='/opt/*/lib'; for i in $p; do export LD_LIBRARY_PATH=$i; done\n{exec}"),
        ),
        script(
            "/bin/sh",
            &format!("cd /opt/cupti && export LD_LIBRARY_PATH=$PWD\n{exec}"),
        ),
        script(
            "/bin/bash",
            &format!("cd /opt; cd one/lib/..; export LD_LIBRARY_PATH=$(pwd)/x\n{exec}"),
        ),
        script("/bin/sh", &format!("(cd /opt/one); cd -- /opt/two\n{exec}")),
        command(&["env", "-C", "/opt/one", "LD_LIBRARY_PATH=lib", PRINT]),
        command(&["env", "--chdir=/opt/two", PRINT]),
        command(&["sh", "-c", "cd /opt/one/lib && exec /usr/bin/print"]),
        script("/bin/bash", &format!("source /etc/x.env\n{exec}")).and(
            "/etc/x.env",
            "export LD_LIBRARY_PATH=/opt/sourced\nLD_PRELOAD=/not/exported\n",
        ),
        script("/bin/sh", &format!("set -a; . /etc/x.env; set +a\n{exec}"))
            .and("/etc/x.env", "LD_LIBRARY_PATH=/opt/x\n"),
        script("/bin/sh", &format!("cd /etc\n[ -r x.env ] && . ./x.env\n{exec}")).and(
            "/etc/x.env",
            "export LD_LIBRARY_PATH=/opt/x\nreturn\nexport LD_LIBRARY_PATH=/opt/y\n",
        ),
        command(&["sh", "-lc", "exec /usr/bin/print"])
            .with("HOME", "/none")
            .and(
                "/etc/profile",
                "for i in /etc/profile.d/*.sh; do if [ -r $i ]; then . $i; fi; done\nunset i\n",
            )
            .and("/etc/profile.d/a.sh", "export LD_LIBRARY_PATH=/opt/a\n")
            .and("/etc/profile.d/b.sh", "LD_LIBRARY_PATH=$LD_LIBRARY_PATH:/opt/b\n"),
        command(&["bash", "-lc", "exec /usr/bin/print"])
            .with("HOME", "/own")
            .and(
                "/etc/profile",
                "if [ \"$(id -u)\" -eq 0 ]; then export LD_PRELOAD=; fi\n",
            )
            .and("/usr/bin/id", "#!/bin/sh\necho 0\n")
            .and("/own/.bash_profile", "export LD_LIBRARY_PATH=/opt/own\n")
            .and("/own/.profile", "export LD_LIBRARY_PATH=/opt/other\n"),
        command(&["bash", "-c", "exec /usr/bin/print"])
            .with("BASH_ENV", "/etc/bash.env")
            .and("/etc/bash.env", "export LD_LIBRARY_PATH=/opt/bash\n"),
        command(&["sh", "-c", "exec /usr/bin/print"])
            .with("BASH_ENV", "/etc/bash.env")
            .and("/etc/bash.env", "export LD_LIBRARY_PATH=/opt/bash\n"),
        script(
            "/bin/sh",
            &format!("LD_LIBRARY_PATH=~/lib:~/more\nexport LD_LIBRARY_PATH\n{exec}"),
        )
        .with("HOME", "/root"),
        script("/bin/sh", &format!("export LD_LIBRARY_PATH=~/lib\n{exec}")).with("HOME", "/root"),
        script("/bin/bash", &format!("export LD_LIBRARY_PATH=~/lib:'~'/x\n{exec}")).with("HOME", "/root"),
        script(
            "/bin/bash",
            &format!("use() {{ [ -n \"$1\" ] && return; export LD_LIBRARY_PATH=/no; }}\nuse x\n{exec}"),
        ),
        script("/bin/bash", &format!("declare -x LD_LIBRARY_PATH=/declared\n{exec}")),
        divided("/bin/sh", "LD_LIBRARY_PATH=$1"),
        divided("/bin/bash", "LD_LIBRARY_PATH=$2"),
        divided(
            "/bin/sh",
            "LD_LIBRARY_PATH=$#; unset IFS; for LD_PRELOAD in ${P}:x; do :; done",
        ),
        divided("/bin/bash", "IFS=$old; w='/x /y'; set -- $w; LD_LIBRARY_PATH=$2"),
        divided("/bin/sh", "IFS=$old; w='/x /y'; set -- $w; LD_LIBRARY_PATH=$*"),
        script(
            "/bin/bash",
            &format!("echo $'it\\'s' \"$'\" >/dev/null; export LD_LIBRARY_PATH=/a\n{exec}"),
        ),
    ]
}

#[test]
fn what_a_command_and_its_scripts_set_is_what_the_program_gets() {
    let Some(judge) = Judge::new() else { return };
    let cases = known_cases();
    let mut wrong = Vec::new();
    for case in &cases {
        match compare(&judge, case) {
            Ok(Answer::Known) => {}
            Ok(_) => wrong.push(format!("not known: {case:#?} {:?}", case.ours())),
            Err(text) => wrong.push(text),
        }
    }
    println!(
        "{} of {} commands agree with real shells",
        cases.len() - wrong.len(),
        cases.len()
    );
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Scripts that end before the program, and the reason that is told.
const ENDINGS: [(&str, &str, &str); 37] = [
    ("/bin/sh", "set -n", "`set -n` lets its shell read on and run nothing"),
    (
        "/bin/bash",
        "set -o noexec",
        "`set -n` lets its shell read on and run nothing",
    ),
    (
        "/bin/dash",
        "readonly LD_PRELOAD=/x.so\nLD_PRELOAD=/y.so true",
        "LD_PRELOAD is read only",
    ),
    (
        "/bin/bash",
        "trap 'exit 1' ERR\nfalse",
        "`false` fails, and a trap ends its script",
    ),
    (
        "/bin/sh",
        ": \"${MODEL:?is not set}\"",
        "MODEL is not set, which the script demands",
    ),
    (
        "/bin/bash",
        "echo ${MODEL?}",
        "MODEL is not set, which the script demands",
    ),
    ("/bin/sh", "set -e\nfalse", "`false` fails, and `set -e` is set"),
    (
        "/bin/sh -e",
        "f() { [ -f /opt/none ]; }\nf",
        "`[ -f /opt/none ]` fails, and `set -e` is set",
    ),
    (
        "/bin/bash",
        "set -u\necho $MODEL",
        "MODEL is not set, which `set -u` demands",
    ),
    (
        "/bin/sh",
        "set -o nounset\nexport A=${MODEL##*/}",
        "MODEL is not set, which `set -u` demands",
    ),
    ("/bin/sh", "exit 0", "`exit 0` comes first"),
    ("/bin/sh", "[ -f /opt/none ] || exit 1", "`exit 1` comes first"),
    (
        "/bin/bash",
        "test -d /opt/none || { echo no >&2; exit 2; }",
        "`exit 2` comes first",
    ),
    (
        "/bin/sh",
        "if [ ! -x /opt/none/bin ]; then exit 3; fi",
        "`exit 3` comes first",
    ),
    (
        "/bin/sh",
        "die() { exit 4; }\n[ -n \"$MODEL\" ] || die",
        "`exit 4` comes first",
    ),
    ("/bin/bash", "[[ -r /opt/none ]] || exit 5", "`exit 5` comes first"),
    (
        "/bin/sh",
        "set -e\ncat /opt/none",
        "`cat /opt/none` fails, and `set -e` is set",
    ),
    (
        "/bin/bash",
        "set -e\nA=$(none_such)",
        "`$(none_such)` fails, and `set -e` is set",
    ),
    (
        "/bin/sh",
        "set -e\n[[ -n x ]]",
        "`[[ -n x ]]` fails, and `set -e` is set",
    ),
    (
        "/bin/sh",
        "exec none_such x",
        "`exec none_such x` finds no such program in the image",
    ),
    (
        "/bin/bash",
        "exec none_such x || true",
        "`exec none_such x` finds no such program in the image",
    ),
    (
        "/bin/sh",
        "echo ${1//a/b}",
        "an expansion of bash is a bad substitution for dash",
    ),
    ("/bin/sh", "shift 9", "`shift 9` finds fewer arguments"),
    ("/bin/sh", "readonly R=1\nR=2", "R is read only"),
    ("/bin/sh", "local A=1", "`local` stands in no function"),
    (
        "/bin/sh",
        "export -f A",
        "`export` has an option that dash does not know",
    ),
    (
        "/bin/sh",
        ": > /opt/none/x",
        "a redirection to or from /opt/none/x fails, which `:` has",
    ),
    (
        "/bin/sh",
        "set -e\nchown app:app /opt/one",
        "`chown app:app /opt/one` fails, and `set -e` is set",
    ),
    (
        "/bin/sh",
        "set -e\ncd /opt\nchmod +x none",
        "`chmod +x none` fails, and `set -e` is set",
    ),
    (
        "/bin/sh",
        "set -e\ntouch /opt/none/x",
        "`touch /opt/none/x` fails, and `set -e` is set",
    ),
    (
        "/bin/bash",
        "set -e\ni=0\n((i++))",
        "`((i++))` fails, and `set -e` is set",
    ),
    (
        "/bin/bash",
        "set -e\ni=3\n((i -= 3))",
        "`((i -= 3))` fails, and `set -e` is set",
    ),
    (
        "/bin/sh",
        "set -e\nsh -c 'exit 3'",
        "`sh -c exit 3` fails, and `set -e` is set",
    ),
    (
        "/bin/bash",
        "set -e\nenv A=b bash -c '[[ -f /opt/none ]]'",
        "`env A=b bash -c [[ -f /opt/none ]]` fails, and `set -e` is set",
    ),
    ("/bin/sh", "sh /opt/none.sh || exit 7", "`exit 7` comes first"),
    (
        "/bin/sh",
        "PATH=/opt/one/lib\nset -e\nnice true",
        "`nice true` fails, and `set -e` is set",
    ),
    (
        "/bin/bash",
        "set -e\n[ -n \"$(none_such)\" ]",
        "`[ -n  ]` fails, and `set -e` is set",
    ),
];

/// Scripts that no shell reads to their end, and where it stops.
const UNREADABLE: [(&str, &str, &str); 10] = [
    (
        "/bin/sh",
        "echo $(true",
        "at something that nothing closes, or that its shell does not know",
    ),
    (
        "/bin/sh",
        "echo \"open",
        "at something that nothing closes, or that its shell does not know",
    ),
    ("/bin/bash", "if true; then echo", "before it is whole"),
    ("/bin/bash", "echo a\nfi", "at `fi`"),
    ("/bin/sh", "A=(1 2)", "at `A=`"),
    ("/bin/sh", "echo )", "at a parenthesis"),
    ("/bin/sh", "function f { :; }", "at `}`"),
    (
        "/bin/sh",
        "read x <<< y",
        "at something that nothing closes, or that its shell does not know",
    ),
    (
        "/bin/sh",
        "while read x; do :; done < <(echo)",
        "at something that nothing closes, or that its shell does not know",
    ),
    ("/bin/bash", "for do", "at `exec`"),
];

#[test]
fn a_script_that_its_shell_cannot_read_ends_there() {
    let Some(judge) = Judge::new() else { return };
    for (shell, text, place) in UNREADABLE {
        let case = script(shell, &format!("{text}\nexec \"$@\"\n"));
        let expected = format!(
            "the container's command ends before it starts its program: a syntax error ends its script {place}"
        );
        let told = case.ours().problem.map(|told| told.to_string());
        assert_eq!((told, judge.real(&case)), (Some(expected), None), "{text}");
        // What stands before it has run.
        let behind = script(shell, &format!("exec \"$@\"\n{text}\n"));
        assert_eq!(
            (behind.ours().problem, judge.real(&behind).is_some()),
            (None, true),
            "{text}"
        );
    }
    // Another shell reads the same.
    for text in ["A=(1 2)", "function f { :; }", "read x <<< y"] {
        let case = script("/bin/bash", &format!("{text}\nexec \"$@\"\n"));
        assert_eq!(
            (case.ours().problem, judge.real(&case).is_some()),
            (None, true),
            "{text}"
        );
    }
}

/// The kind of a shell is that of the file that the first line names, whatever `PATH` finds, and whatever it is called.
#[test]
fn a_shell_is_what_lies_where_the_first_line_says() {
    let Some(judge) = Judge::new() else { return };
    judge.place("opt/own", &fs::read(judge.path("bin/bash")).unwrap());
    std::os::unix::fs::symlink("/bin/dash", judge.path("opt/other")).unwrap();
    for (shell, reads) in [("/opt/own", "bin/bash"), ("/opt/other", "bin/dash")] {
        let case = script(shell, "A=(1 2)\nexec \"$@\"\n");
        let layer = Layer::new().executable(&PRINT[1..], Elf::executable().build());
        let entry = case
            .facts(layer.symlink(&shell[1..], format!("/{reads}")))
            .contexts
            .as_is
            .entry;
        assert_eq!(
            entry.problem.is_none(),
            judge.real(&case).is_some(),
            "{shell} {:?}",
            entry.problem
        );
    }
}

#[test]
fn a_command_that_passes_its_program_over_starts_nothing() {
    let Some(judge) = Judge::new() else { return };
    for text in [
        "[ -f /opt/none ] && exec \"$@\"",
        "case \"$1\" in server) exec \"$@\";; *) exit 1;; esac",
        "main() { return 0; exec \"$@\"; }\nmain \"$@\"",
        "cd /opt/none && exec \"$@\"",
        "check() { return 1; }\nif check; then exec \"$@\"; fi",
        "none_such \"$@\"",
    ] {
        let case = script("/bin/sh", &format!("{text}\n"));
        let problem = case.ours().problem.map(|told| told.to_string()).unwrap_or_default();
        let begin = "the container's command ends before it starts ";
        assert!(problem.starts_with(begin), "{text} {problem}");
        assert_eq!(judge.real(&case), None, "{text}");
    }
    for text in [
        "[ -f /mnt/x ] && exec \"$@\"",
        "if [ -n \"$HOSTNAME\" ]; then \"$@\"; fi",
    ] {
        assert!(script("/bin/sh", text).ours().doubt.is_some(), "{text}");
    }
    // Where each way leads to it, it is started.
    for text in [
        "if [ -n \"$HOSTNAME\" ]; then exec \"$@\"; else exec /usr/bin/print; fi",
        "case \"$HOSTNAME\" in a) exec \"$@\";; *) exec /usr/bin/print;; esac",
        "while getopts a: o; do case $o in *) exit 1;; esac; done\nshift $((OPTIND-1))\nexec \"$@\"",
    ] {
        let case = script("/bin/sh", text);
        assert_eq!((case.ours().problem, case.ours().doubt), (None, None), "{text}");
        assert!(judge.real(&case).is_some(), "{text}");
    }
}

#[test]
fn a_script_that_ends_before_its_program_starts_nothing() {
    let Some(judge) = Judge::new() else { return };
    for (shell, text, why) in ENDINGS {
        let case = script(shell, &format!("{text}\nexec \"$@\"\n"));
        let expected = format!("the container's command ends before it starts {PRINT}: {why}");
        assert_eq!(
            case.ours().problem.map(|told| told.to_string()),
            Some(expected),
            "{text}"
        );
        assert_eq!(judge.real(&case), None, "{text}");
    }
    // With what it asks for, each goes on.
    for text in [
        ": ${MODEL:?}",
        "set -eu; echo $MODEL",
        "[ -n \"$MODEL\" ] || exit 1",
        "[ -d /opt/one ] || exit 1",
    ] {
        let case = script("/bin/sh", &format!("{text}\nexec \"$@\"\n")).with("MODEL", "x");
        assert_eq!(
            (case.ours().problem, judge.real(&case).is_some()),
            (None, true),
            "{text}"
        );
    }
    // Another user than root may not do what root may.
    fs::create_dir_all(judge.path("opt/closed")).unwrap();
    fs::set_permissions(judge.path("opt/closed"), fs::Permissions::from_mode(0o700)).unwrap();
    for text in [
        "cd /opt/closed",
        "chmod 700 /opt/one",
        "chown 1000 /opt/one",
        "touch /opt/x",
        "rm -f /usr/bin/print",
        ": > /opt/x",
    ] {
        let case = script("/bin/sh", &format!("set -e\n{text} 2>/dev/null\nexec \"$@\"\n"));
        let user = Case {
            user: Some("1000".to_owned()),
            ..case
        };
        assert!(user.ours().problem.is_some(), "{text} {:?}", user.ours());
        assert_eq!(judge.real(&user), None, "{text}");
    }
    // What a host may bring is nobody's to say; a program that is run is taken to succeed.
    let doubt = script("/bin/sh", "[ -f /mnt/model ] || exit 1\nexec \"$@\"\n")
        .ours()
        .doubt;
    let words = format!(
        "only a run could tell whether the container's command starts {PRINT}: it may be that `exit 1` comes first"
    );
    assert_eq!(doubt, Some(words));
    for text in [
        "nvidia-smi || exit 1",
        "set -e\nnvidia-smi",
        "if ! nvidia-smi | grep -q A; then exit 1; fi",
    ] {
        let case = script("/bin/sh", &format!("{text}\nexec \"$@\"\n"));
        let case = case.and("/usr/bin/grep", "#!/bin/sh\nexit 1\n");
        assert!(case.ours().doubt.is_some(), "{text} {:?}", case.ours());
        assert_eq!(judge.real(&case), None, "{text}");
    }
    let trusted = script("/bin/sh", "/usr/bin/nice true || exit 1\nexec \"$@\"\n")
        .ours()
        .problem;
    assert_eq!(trusted, None);
    let listed = command(&["env", "-i0", PRINT]);
    let refused = "the container's command does not start: env takes no command with -0".to_owned();
    let told = listed.ours().problem.map(|told| told.to_string());
    assert_eq!((told, judge.real(&listed)), (Some(refused), None));
}

/// The container ends with its first process, whatever runs beside that.
#[test]
fn a_script_that_its_kernel_or_shell_refuses_does_not_start() {
    let Some(judge) = Judge::new() else { return };
    let long = format!("/bin/{}sh", "./".repeat(200));
    for (case, why) in [
        (
            script("/bin/sh -e -u", "exec \"$@\"\n"),
            "sh '-e -u': one word is no such option",
        ),
        (
            script("/bin/sh -n", "exec \"$@\"\n"),
            "sh reads its script and runs nothing, by the option -n",
        ),
        (
            script(&long, "exec \"$@\"\n"),
            "/entrypoint.sh: exec format error: its first line is longer than the kernel reads",
        ),
        (
            script("/bin/sh", "/more.sh\n").and("/more.sh", &format!("#!/bin/none\nexec {PRINT}\n")),
            "/more.sh: No such file or directory: its interpreter /bin/none is not in the image",
        ),
        (
            command(&["env", &format!("A={}", "x".repeat(200_000)), PRINT]),
            "argument list too long",
        ),
    ] {
        let told = case.ours().problem.map(|told| told.to_string());
        assert_eq!(told, Some(format!("the container's command does not start: {why}")));
        // The judge starts it as execvp(3) does, which hands it to a shell, and cannot hand on what is too long.
        if !why.contains("exec format error") && !why.contains("too long") {
            assert_eq!(judge.real(&case), None, "{why}");
        }
    }
    // A letter of several bytes may lie across the end of what the kernel reads.
    for padding in 230..=260 {
        let text = format!("# {}é\nexec \"$@\"\n", "x".repeat(padding));
        assert_eq!(script("/bin/sh", &text).ours().problem, None, "{padding}");
    }
    for scripts in [5, 6] {
        let name = |number: usize| format!("/{number}.sh");
        let case = (1..scripts).fold(script(&name(1), ""), |case, number| {
            let is_last = number + 1 == scripts;
            let interpreter = if is_last {
                "/bin/sh".to_owned()
            } else {
                name(number + 1)
            };
            case.and(&name(number), &format!("#!{interpreter}\nexec {PRINT}\n"))
        });
        let (ours, real) = (case.ours().problem.is_none(), judge.real(&case).is_some());
        assert_eq!((ours, real), (scripts == 5, scripts == 5), "{scripts}");
    }
    let chain = (0..20).fold(script("/bin/sh", "exec /0.sh \"$@\"\n"), |case, number| {
        case.and(
            &format!("/{number}.sh"),
            &format!("#!/bin/sh\nexec /{}.sh \"$@\"\n", number + 1),
        )
    });
    assert_eq!(chain.ours().unknown.len(), 4);
}

#[test]
fn a_program_beside_a_script_is_waited_for_or_left_open() {
    for (text, is_waited) in [
        ("\"$@\" &", false),
        ("nice \"$@\" &\necho started", false),
        ("\"$@\" &\nwait", true),
        ("\"$@\" &\npid=$!\nwait $pid", true),
        ("\"$@\" &\nexec nice sleep 9", true),
        ("nice true &\n\"$@\"", true),
    ] {
        let doubt = script("/bin/sh", &format!("{text}\n")).ours().doubt;
        assert_eq!(doubt.is_none(), is_waited, "{text} {doubt:?}");
    }
}

#[test]
fn what_only_a_run_could_tell_is_said_to_be_unknown() {
    let exec = "exec \"$@\"\n";
    for text in [
        "export LD_LIBRARY_PATH=$(find / -name 'libcupti*')\n",
        "export LD_LIBRARY_PATH=`cat /etc/path`\n",
        "if python3 -c 'import torch'; then export LD_LIBRARY_PATH=/x; fi\n",
        "for folder in $(ls /opt); do export LD_LIBRARY_PATH=/opt/$folder; done\n",
        "for folder in /mnt/*; do export LD_LIBRARY_PATH=$folder; done\n",
        "while read -r line; do export \"$line\"; done < /etc/env\n",
        "while read -r LD_LIBRARY_PATH; do :; done\nexport LD_LIBRARY_PATH\n",
        "export LD_LIBRARY_PATH=/x\nfor name in $NAMES_OF_THE_HOST $(cat names); do unset $name; done\n",
        "[ -e /mnt/done ] || cd /opt/one\nexport LD_LIBRARY_PATH=$PWD\n",
        "case $(uname -m) in x86_64) export LD_LIBRARY_PATH=/x;; esac\n",
        "eval \"$(/opt/conda/bin/conda shell.bash hook)\"\n",
        "export LD_LIBRARY_PATH=${HOME}/lib\n",
        "export LD_LIBRARY_PATH=${HOSTNAME%:*}\n",
        "nvidia-smi && export LD_LIBRARY_PATH=/x\n",
        ". \"$ENVIRONMENT_FILE\"\n",
        "export LD_LIBRARY_PATH=/x\nexport -n LD_LIBRARY_PATH\n",
        "export LD_LIBRARY_PATH=/x\nunset $(cat names)\n",
        "export LD_LIBRARY_PATH=/x\nexec -c \"$@\"\n",
        // Lines as Windows ends them.
        "export LD_LIBRARY_PATH=/x\r\n",
        "trap 'unset LD_LIBRARY_PATH' DEBUG\n",
        "alias go='env -u LD_LIBRARY_PATH'\n",
        "declare -n r=LD_LIBRARY_PATH\n",
        "typeset +x LD_LIBRARY_PATH\n",
    ] {
        // dash ends at some of what bash knows.
        let of_bash = ["export -n", "declare", "typeset", "DEBUG", "exec -c"];
        let shell = if of_bash.iter().any(|word| text.contains(word)) {
            "/bin/bash"
        } else {
            "/bin/sh"
        };
        let ours = script(shell, &format!("{text}{exec}"))
            .and("/usr/bin/python3", "#!/bin/sh\n")
            .and("/usr/bin/find", "#!/bin/sh\n")
            .and("/usr/bin/cat", "#!/bin/sh\n")
            .and("/usr/bin/ls", "#!/bin/sh\n")
            .and("/usr/bin/uname", "#!/bin/sh\n")
            .and("/opt/conda/bin/conda", "#!/bin/sh\n")
            .ours();
        assert_eq!(
            ours.unknown.first().map(String::as_str),
            Some("LD_LIBRARY_PATH"),
            "{text} {ours:?}"
        );
    }
    for starter in ["chroot /mnt", "flock /x", "sudo"] {
        let ours = command(&format!("{starter} {PRINT}").split(' ').collect::<Vec<_>>()).ours();
        assert_eq!(ours.unknown.len(), 4, "{ours:?}");
    }
    for options in ["-lc", "-ic"] {
        let login = command(&["bash", options, PRINT]).ours();
        assert_eq!(login.unknown.len(), 4, "{login:?}");
    }
    let other = command(&["bash", "-c", PRINT]).with("BASH_ENV", "/etc/env").ours();
    assert_eq!(other.unknown.len(), 4, "{other:?}");
    let interpreter = script("/bin/sh\r", &format!("export LD_LIBRARY_PATH=/x\n{exec}")).ours();
    let gone = "the container's command does not start: /entrypoint.sh: No such file or directory: its first line ends in a carriage return";
    assert_eq!(interpreter.problem.map(|told| told.to_string()).as_deref(), Some(gone));
    let plain = script("/bin/sh", &format!("echo hello\ndate\n{exec}")).ours();
    let started = plain.started.iter().map(|started| started.path.to_string());
    assert_eq!(started.collect::<Vec<_>>(), ["/entrypoint.sh", "/bin/dash", PRINT]);
    assert_eq!(
        EntryEnvironment {
            started: Vec::new(),
            ..plain
        },
        EntryEnvironment {
            program: vec![PRINT.to_owned()],
            called: Some(RootPath::from(PRINT)),
            executable: Some(RootPath::from(PRINT)),
            ..EntryEnvironment::default()
        }
    );
}

/// A program of Python or C that hands an environment to the one it starts.
#[test]
fn a_launcher_that_changes_the_environment_leaves_it_unknown() {
    let python = |text: &str| {
        let layer = Layer::new().executable("usr/bin/python3", Elf::executable().build());
        let case = command(&["python3", "/app/main.py"]).and("/app/main.py", text);
        case.facts(layer).contexts.as_is.entry.unknown.len()
    };
    let head = "import os, subprocess, sys\n";
    for unknown in [
        "os.environ['LD_LIBRARY_PATH'] = '/x'\nos.execv(sys.argv[1], sys.argv[1:])\n",
        "subprocess.run(['/app/tool'], env={'A': 'b'})\n",
        "os.execve('/app/tool', ['tool'], {})\n",
        "del os.environ['LD_LIBRARY_PATH']\nos.system('/app/tool')\n",
    ] {
        assert_eq!(python(&format!("{head}{unknown}")), 4, "{unknown}");
    }
    for known in [
        "subprocess.run(['/app/tool'])\n",
        "os.environ['X'] = '/x'\nos.execv('/app/tool', [])\n",
    ] {
        assert_eq!(python(&format!("{head}{known}")), 0, "{known}");
    }
    let object = |imports: &[&str], text: &str| {
        let elf = imports.iter().fold(Elf::executable().string(text), Elf::import);
        let layer = Layer::new().executable("app/launch", elf.build());
        command(&["/app/launch"])
            .facts(layer)
            .contexts
            .as_is
            .entry
            .unknown
            .len()
    };
    let text = "LD_LIBRARY_PATH=/opt/cupti";
    assert_eq!(object(&["setenv", "execv"], text), 4);
    assert_eq!([object(&["execv"], text), object(&["setenv"], "PATH")], [0, 0]);
}

#[test]
fn an_explicit_loader_has_its_own_path() {
    let loader = "/lib64/ld-linux-x86-64.so.2";
    let ours = command(&[loader, "--library-path", "/opt/cupti", "--preload", "/p.so", "/bin/app"]).ours();
    let values = [("LD_LIBRARY_PATH", "/opt/cupti"), ("LD_PRELOAD", "/p.so")];
    let expected = values.map(|(name, value)| (name.to_owned(), value.to_owned()));
    assert_eq!(ours.values, BTreeMap::from(expected));
}

/// As the real loaders of glibc and musl do, which say it themselves.
#[test]
fn an_option_of_a_loader_that_is_not_followed_leaves_the_verdict_open() {
    let said = |words: &[&str]| {
        let entry = command(words).ours();
        let problem = entry.problem.map(|problem| problem.to_string()).unwrap_or_default();
        (problem, entry.unknown.is_empty(), entry.program.first().cloned())
    };
    let glibc = |option: &[&str]| said(&[&["/lib64/ld-linux-x86-64.so.2"], option, &["/bin/app"]].concat());
    let musl = |option: &[&str]| said(&[&["/lib/ld-musl-x86_64.so.1"], option, &["/bin/app"]].concat());
    let app = || Some("/bin/app".to_owned());
    let followed = || (String::new(), true, app());
    assert_eq!(glibc(&["--argv0", "x", "--library-path", "/opt"]), followed());
    assert_eq!(
        musl(&["--argv0=x", "--library-path=/opt", "--preload", "/p.so", "--"]),
        followed()
    );
    for options in [
        &["--inhibit-cache"][..],
        &["--inhibit-rpath", ""],
        &["--glibc-hwcaps-prepend", "own"],
        &["--glibc-hwcaps-mask", "x86-64-v2"],
        &["--audit", "/a.so"],
    ] {
        let option = options[0];
        let why = format!("the container's command gives {option} to the dynamic loader, which is not followed here");
        assert_eq!(glibc(options), (why, false, app()), "{option}");
    }
    for (variable, is_open) in [
        ("LD_AUDIT=/a.so", true),
        ("LD_AUDIT=", false),
        ("LD_TRACE_LOADED_OBJECTS=", true),
        ("LD_DEBUG=libs", false),
        ("LD_DEBUG=libs,help", true),
        ("GLIBC_TUNABLES=glibc.malloc.check=1", false),
        ("GLIBC_TUNABLES=glibc.malloc.check=1:glibc.cpu.hwcaps=-AVX2", true),
    ] {
        let (name, _) = variable.split_once('=').unwrap();
        let why = format!("the container's command starts with {name} in its environment, which is not followed here");
        let expected = if is_open { why } else { String::new() };
        assert_eq!(said(&["env", variable, "/bin/app"]).0, expected, "{variable}");
    }
    let not_started = |words: &str| format!("the container's command does not start: {words}");
    let given = |program: &[&str]| {
        let words = [&["/lib64/ld-linux-x86-64.so.2"], program].concat();
        let layer = Layer::new()
            .executable(
                "lib64/ld-linux-x86-64.so.2",
                Elf::library("ld-linux-x86-64.so.2").build(),
            )
            .executable(&PRINT[1..], Elf::executable().build());
        let case = command(&words).and("/run.sh", "exec true\n");
        let entry = case.facts(layer).contexts.as_is.entry;
        (entry.problem.map(|problem| problem.to_string()), entry.absent)
    };
    let refused = |words: &str| (Some(not_started(words)), None);
    assert_eq!(given(&[PRINT]), (None, None));
    assert_eq!(given(&[]), refused("/lib64/ld-linux-x86-64.so.2: missing program name"));
    let bare = "print: cannot open shared object file: No such file or directory";
    assert_eq!(given(&["print"]), refused(bare));
    for path in ["/usr", "/run.sh"] {
        let words = format!("{path}: it is no object that a loader takes");
        assert_eq!(given(&[path]), refused(&words));
    }
    let gone = "/bin/none: cannot open shared object file";
    assert_eq!(given(&["/bin/none"]), (None, Some(gone.to_owned())));
    let glibc_words = |words: &str| not_started(&format!("/lib64/ld-linux-x86-64.so.2 {words}"));
    assert_eq!(glibc(&["--list"]).0, glibc_words("--list starts nothing"));
    let unknown = glibc_words("--library-path=/x is no option that it has");
    assert_eq!(glibc(&["--library-path=/x"]).0, unknown);
    let unknown = not_started("/lib/ld-musl-x86_64.so.1 --inhibit-cache is no option that it has");
    assert_eq!(musl(&["--inhibit-cache"]).0, unknown);
}

#[test]
fn the_user_that_a_command_goes_on_as_is_known() {
    let user = |case: &Case| case.ours().user;
    let is = |name: &str| Some(name.to_owned());
    assert_eq!(user(&command(&["gosu", "app", PRINT])), is("app"));
    assert_eq!(user(&command(&["/sbin/su-exec", "app:tools", PRINT])), is("app:tools"));
    let numbers = ["setpriv", "--reuid", "1000", "--regid=44", "--clear-groups", PRINT];
    assert_eq!(user(&command(&numbers)), is("1000:44"));
    // The second has the groups that the user is in, besides the one of its name.
    for (groups, expected) in [("--clear-groups", "app:app"), ("--init-groups", "app")] {
        let named = command(&["setpriv", "--reuid=app", "--regid=app", groups, PRINT]);
        assert_eq!(user(&named), is(expected), "{groups}");
    }
    assert_eq!(user(&command(&["runuser", "-u", "app", "--", PRINT])), is("app"));
    assert_eq!(user(&command(&["su", "app", "-c", PRINT])), is("app"));
    assert_eq!(user(&command(&["su", "-c", PRINT, "app"])), is("app"));
    // What is said of the effective ones alone leaves the real ones as they are.
    let in_part = command(&[
        "setpriv",
        "--euid",
        "1000",
        "--egid=44",
        "--keep-groups",
        "env",
        "LD_PRELOAD=/p",
        PRINT,
    ])
    .ours();
    let effective = (is("1000"), is("44"));
    assert_eq!((in_part.user, in_part.effective), (None, effective));
    assert_eq!(in_part.values["LD_PRELOAD"], "/p");
    assert_eq!(user(&command(&["nice", "-n", "5", "gosu", "app", PRINT])), is("app"));
    // As the images of databases begin: who runs the script is asked first.
    let again = "if [ \"$(id -u)\" = 0 ]; then exec gosu app \"$0\" \"$@\"; fi\nexec \"$@\"\n";
    let gosu = script("/bin/sh", again).and("/usr/bin/gosu", "#!/bin/sh\n");
    assert_eq!(user(&gosu), is("app"));
    assert_eq!(user(&script("/bin/sh", "exec \"$@\"\n")), None);
    assert_eq!(user(&command(&["tini", "--", PRINT])), None);
}

/// As real ones do: `HOME=/own setpriv --reuid=1000 --clear-groups env`, and so on.
#[test]
fn home_is_that_of_a_changed_user_but_for_setpriv() {
    let home = |words: &str| {
        let case = command(&words.split(' ').chain([PRINT]).collect::<Vec<_>>());
        let facts = case
            .with("HOME", "/own")
            .facts(Layer::new().file("etc/passwd", b"app:x:1000:1000::/home/app:\n"));
        facts.contexts.as_is.entry.all.get("HOME").cloned()
    };
    for words in ["setpriv --reuid=app --clear-groups", "runuser -p -u app --", "nice"] {
        assert_eq!(home(words).as_deref(), Some("/own"), "{words}");
    }
    for words in ["gosu app", "runuser -u app --", "setpriv --reuid=app --reset-env"] {
        assert_eq!(home(words).as_deref(), Some("/home/app"), "{words}");
    }
}

#[test]
fn nothing_is_claimed_of_what_a_command_starts_in_another_root() {
    let facts = |root: &str| {
        let layer = Layer::new().executable("usr/bin/chroot", Elf::executable().build());
        command(&["chroot", "--userspec=app", root, PRINT]).facts(layer)
    };
    let why = "the container's command goes on in /opt/cr as its root directory";
    assert_eq!(facts("/opt/cr").status_is_open.as_deref(), Some(why));
    assert_eq!(facts("/opt/cr").command_failure, None, "it may well start there");
    assert_eq!(facts("/").contexts.as_is.entry.problem, None);
}

/// A script that its user may execute and not read, and one that nobody may execute.
#[test]
fn a_script_that_its_user_may_not_read_does_not_start() {
    let problem = |mode: u32, user: &str| {
        let entrypoint = Entry {
            name: b"entrypoint.sh".to_vec(),
            mode,
            kind: Kind::File(b"#!/bin/sh\nexec \"$@\"\n".to_vec()),
        };
        let layer = Layer::new()
            .file("etc/passwd", b"app:x:1000:1000::/home/app:\n")
            .executable(&PRINT[1..], Elf::executable().build())
            .entry(entrypoint);
        let case = Case {
            user: Some(user.to_owned()),
            ..command(&["/entrypoint.sh", PRINT])
        };
        let facts = case.facts(layer);
        assert_eq!(facts.is_open(), facts.contexts.as_is.entry.problem.is_some());
        facts.contexts.as_is.entry.problem.map(|told| told.to_string())
    };
    let closed = "the container's command does not start: /entrypoint.sh: permission denied: /entrypoint.sh is 0711 of 0:0, and the process runs as app (1000:1000)";
    assert_eq!(problem(0o711, "app").as_deref(), Some(closed));
    assert_eq!([problem(0o711, "root"), problem(0o755, "app")], [None, None]);
    assert!(problem(0o644, "root").is_some() && problem(0o700, "app").is_some());
}

/// Statements of entry scripts, of which a generated one has some.
const STATEMENTS: &[&str] = &[
    "export LD_LIBRARY_PATH=/opt/a",
    "LD_LIBRARY_PATH=/opt/b:$LD_LIBRARY_PATH",
    "export LD_LIBRARY_PATH",
    "export LD_LIBRARY_PATH=\"${LD_LIBRARY_PATH:-/opt/c}\"",
    "unset LD_LIBRARY_PATH",
    "LD_PRELOAD=\"$F/p.so\"",
    "export F=/opt/cupti",
    "F='/opt/q r'",
    "if [ -d /opt/cupti ]; then export LD_LIBRARY_PATH=/opt/cupti; else export LD_LIBRARY_PATH=/no; fi",
    "if [ \"$F\" = /opt/cupti ]; then LD_LIBRARY_PATH=$F; elif [ -z \"$F\" ]; then F=/opt/z; fi",
    "[ -e /opt/missing ] && export LD_PRELOAD=/no.so",
    "[ -n \"$LD_LIBRARY_PATH\" ] || LD_LIBRARY_PATH=/opt/d",
    "true && export CUDA_INJECTION64_PATH=$F",
    "false || export CUDA_INJECTION64_PATH=/i.so",
    "use() { export LD_LIBRARY_PATH=\"$1\"; LD_PRELOAD=$2; }",
    "use /opt/f /f.so",
    "{ export NVTX_INJECTION64_PATH=/n.so; }",
    "( export LD_LIBRARY_PATH=/sub; F=/sub )",
    "export LD_LIBRARY_PATH=/piped | cat",
    "set -a",
    "set +a",
    "X=${LD_LIBRARY_PATH+set} export NVTX_INJECTION64_PATH=$X",
    "if command -v python >/dev/null; then export LD_PRELOAD=/py.so; fi",
    "for f in a b; do F=$f; done",
    "case \"$F\" in /opt/*) LD_LIBRARY_PATH=/case;; *) : ;; esac",
    "export LD_LIBRARY_PATH=$(echo /opt/e)",
    "for f in /a /b; do LD_LIBRARY_PATH=$LD_LIBRARY_PATH:$f; done",
    "for v in LD_PRELOAD F; do unset $v; done",
    "for d in /opt/*/lib; do export LD_PRELOAD=$d/p.so; done",
    "while [ -z \"$F\" ]; do F=/w; export LD_LIBRARY_PATH=$F; done",
    "cd /opt/one",
    "cd \"$F\" 2>/dev/null",
    "export LD_LIBRARY_PATH=$PWD",
    "once() { [ -n \"$F\" ] && return 0; export LD_LIBRARY_PATH=/once; }",
    "once",
    "until true; do unset LD_LIBRARY_PATH; done",
    "set -e",
    "set -eu",
    "set +e",
    "set -uo pipefail 2>/dev/null || set -u",
    ": \"${F:?no folder}\"",
    ": ${LD_PRELOAD:=/d.so}",
    "[ -d /opt/missing ] || export LD_PRELOAD=/fallback.so",
    "[ -f /opt/missing ] || exit 1",
    "test -n \"$F\" || { echo no folder >&2; exit 3; }",
    "[ -d /opt/one ] || exit 1",
    "if [ \"$1\" = --help ]; then echo usage; exit 0; fi",
    "if [ \"${1#-}\" != \"$1\" ]; then set -- /usr/bin/print \"$@\"; fi",
    "case \"$1\" in -*|help) exit 0;; /usr/*) export LD_LIBRARY_PATH=/usr/$#;; esac",
    "case ${F##*/} in cupti) LD_PRELOAD=${F%/*};; esac",
    "need() { [ -n \"$1\" ] || exit 4; }",
    "need \"$F\"",
    "false",
    "[ -e /opt/one ] && false",
    "! true",
    "if false; then exit 1; fi",
    "(exit 1)",
    "command -v print >/dev/null || exit 1",
    "command -v conda >/dev/null && exit 1",
    "missing_program_x 2>/dev/null || true",
    "cd /opt/none 2>/dev/null",
    "cd /opt/two || exit 1",
    "i=x; while [ -n \"$i\" ]; do i=; LD_LIBRARY_PATH=$LD_LIBRARY_PATH:/w; done",
    "while [ $# -gt 1 ]; do shift; done",
    "while :; do LD_PRELOAD=/once.so; break; done",
    "set -- \"$@\" more",
    "trap 'export LD_LIBRARY_PATH=/trap' EXIT",
    "print() { LD_LIBRARY_PATH=/shadow; }",
    "env() { export LD_PRELOAD=/shadow.so; }",
    "env A=b",
    "if [ -n \"$F\" -a -d /opt/one ]; then export NVTX_INJECTION64_PATH=/both; fi",
    "[ -z \"$F\" -o \"$F\" = /opt/cupti ] && LD_LIBRARY_PATH=/either",
    "cat /opt/none 2>/dev/null",
    "cd /opt/none 2>/dev/null && F=/in/none",
    "A=$(cd /opt/one && pwd); export LD_LIBRARY_PATH=$A/lib",
    "V=$(missing_program_x 2>/dev/null)",
    "V=$(false); export LD_PRELOAD=/after.so",
    "export V=$(false) LD_PRELOAD=/export.so",
    "F=$(echo \"${F:-/opt/e}\"/x)",
    "(local G=1) 2>/dev/null",
    "shift 9 2>/dev/null",
    "readonly R=/r; R=/s",
    "readonly LD_PRELOAD=/kept.so",
    "exec missing_program_y 2>/dev/null",
    "[ \"$F\" == /opt/cupti ] && export LD_PRELOAD=/eq.so",
    "inner() { local LD_LIBRARY_PATH=/inner; F=/of/inner; }; inner",
    "fails() { return 1; }; fails || F=/failed",
    "fails && F=/never",
    "case \"$F\" in esac",
    "set -- $(echo /usr/bin/print a b)",
    "eval 'F=/evaluated'",
    "eval \"export LD_PRELOAD=\\$F\"",
    "echo a > /opt/none/x",
    ": > /opt/none/x",
    "exec 3< /opt/none",
    "if missing_program_x 2>/dev/null; then F=/m; else F=/n; fi",
    "i=1; i=$((i+1)); export LD_LIBRARY_PATH=/$i",
    "A+=b 2>/dev/null",
    "source /opt/none.sh 2>/dev/null",
    "trap : ERR",
    "return 0 2>/dev/null",
    "false && /usr/bin/print",
    "true || /usr/bin/print",
    ": <<EOF\n\tEOF\nF=/in/the/text\nEOF",
    ": <<-'EOF'\n\tEOF\nF=/behind",
    "chmod 755 /opt/one",
];

/// What no shell reads, or not each of them: at it a script ends, but for what bash knows.
const SLIPS: &[&str] = &[
    "fi",
    "done",
    "if true; then :",
    "if true; then\nfi",
    "echo \"open",
    "echo 'open",
    "echo ${F",
    "echo $(true",
    "echo `true",
    "A=(1 2)",
    "A=(\"$@\"); set -- \"${A[@]}\"",
    "echo ${F//o/x}",
    "echo ${F:0:2}",
    "echo ${F^^}",
    "[[ -n x ]] && F=/double",
    "[[ $F =~ ^(a|b)$ ]] && F=/regex",
    "function h { :; }; h",
    "function h() { F=/h; }; h",
    "read x <<< y",
    "read x < <(echo y)",
    "( true",
    "echo a )",
    "{ true;",
    "case x in",
    "echo a ;;",
    "case x in x) F=/x;& *) :;; esac",
    "&& true",
    "true |",
    "F= ; ; true",
    "if ; then true; fi",
    "while do true; done",
    "my-function() { F=/dashed; }; my-function",
    "export -n F",
    "for ((i=0; i<2; i++)); do F=$F; done",
    "(( 1 > 2 )) || F=/arithmetic",
    "N=F; export LD_PRELOAD=\"${!N}\"",
    "echo a &> /dev/null",
    "echo a |& :",
    "local L=1",
    "declare D=1",
];

/// Statements that bash alone knows.
const OF_BASH: &[&str] = &[
    "[[ -n $F && $F == /opt/* ]] && export LD_LIBRARY_PATH=/pattern",
    "if [[ $# -eq 0 ]]; then exec /bin/bash; fi",
    "[[ -d /opt/missing || -d /opt/one ]] && LD_PRELOAD=/found.so",
    "[[ ! -e /opt/missing ]] || exit 1",
    "if (( $# > 7 )); then exit 1; fi",
    "time export LD_LIBRARY_PATH=/timed 2>/dev/null",
    "if [ \"${1:0:1}\" = - ]; then exit 1; fi",
    "[[ $EUID -eq 0 ]] || exit 1",
    "command -v load >/dev/null && load",
    "[ \"${#FUNCNAME[@]}\" -ge 2 ] && exit 1",
    "export LD_LIBRARY_PATH=${BASH_SOURCE[0]}.d",
    "A=(/opt/a \"$F\"); A+=(/opt/b); export LD_LIBRARY_PATH=${A[0]}:${A[2]}",
    "named() { local name=$1; export \"$name\"=\"${!name:-/none}\"; }; named LD_PRELOAD",
    "declare -A M; M[x]=1",
    "source /opt/none.sh",
    "i=1; ((i++)); export LD_LIBRARY_PATH=/$i",
    "((n = 4)); ((n -= 1)) && export LD_PRELOAD=/$n.so",
    "((--k)) || F=/never",
    "shopt -s execfail; exec missing_program_z 2>/dev/null",
];

/// The generated scripts of one run.
const SCRIPTS: usize = 300;

fn generated(seed: u64) -> Case {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut below = |limit: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state % limit as u64).unwrap()
    };
    let mut text = String::new();
    let shell = [
        "/bin/sh",
        "/bin/bash",
        "/usr/bin/env bash",
        "/bin/bash -e",
        "/bin/sh -eu",
    ][below(5)];
    for _ in 0..=below(7) {
        let list = if below(24) == 0 {
            SLIPS
        } else if shell.contains("bash") && below(4) == 0 {
            OF_BASH
        } else {
            STATEMENTS
        };
        text.push_str(list[below(list.len())]);
        text.push_str(["\n", "; ", "\n\n"][below(3)]);
    }
    text.push_str(
        [
            "\nexec \"$@\"\n",
            "\n\"$@\"\n",
            "\nF=last exec \"$@\"\n",
            "\nexec env LD_PRELOAD= \"$@\"\n",
        ][below(4)],
    );
    let mut case = script(shell, &text);
    for (name, value) in [
        ("LD_LIBRARY_PATH", "/from/image"),
        ("F", "/opt/cupti"),
        ("LD_PRELOAD", ""),
        ("BASH_FUNC_load%%", "() {  export LD_LIBRARY_PATH=/function\n}"),
    ] {
        if below(3) == 0 {
            case = case.with(name, value);
        }
    }
    case
}

#[test]
fn generated_entry_scripts_agree_with_real_shells() {
    let Some(judge) = Judge::new() else { return };
    let mut answers = BTreeMap::<String, usize>::new();
    let mut wrong = Vec::new();
    for seed in 1..=SCRIPTS {
        match compare(&judge, &generated(seed as u64)) {
            Ok(answer) => *answers.entry(format!("{answer:?}")).or_default() += 1,
            Err(text) => wrong.push(text),
        }
    }
    println!(
        "{} of {SCRIPTS} generated entry scripts agree with real shells: {answers:?}",
        SCRIPTS - wrong.len()
    );
    assert!(
        wrong.is_empty(),
        "{} differ\n{}",
        wrong.len(),
        wrong.iter().take(12).cloned().collect::<String>()
    );
    assert!(answers["Known"] > 100 && answers["Ends"] > 30, "{answers:?}");
}
