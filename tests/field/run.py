"""Tries the program on environments that people run: installs them, breaks them, and runs the printed fixes.

Usage, as root in a private mount namespace (see `make field`): run.py [--keep] [STACK…]

`stacks.toml` has the stacks, `breakages.toml` the ways in which they break. For each pair, the real Python and
cupti-audit answer the same question three times: in the stack as installed, in the broken one, and after the fix that
the report prints. Everything goes to target/field/STACK.json, the figures to tests/field/results.json, and all of
these to docs/field.md.

$CUPTI_AUDIT_PROGRAM is the program, or target/release/cupti-audit. $CUPTI_AUDIT_PARTS is as in tests/parts.sh.
$CUPTI_AUDIT_FIELD is the folder for gigabytes of temporary files, or target/field. --keep leaves the installed stacks
there, and later runs take them as they are.
"""

import contextlib
import datetime
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import page

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parent.parent
PARTS = Path(os.environ.get("CUPTI_AUDIT_PARTS") or REPOSITORY / "target/parts").resolve()
FIELD = Path(os.environ.get("CUPTI_AUDIT_FIELD") or REPOSITORY / "target/field").resolve()
PROGRAM = Path(os.environ.get("CUPTI_AUDIT_PROGRAM") or REPOSITORY / "target/release/cupti-audit").resolve()
LENT = FIELD / "lent"
RESULTS = HERE / "results.json"
PAGE = REPOSITORY / "docs/field.md"
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")

# Variables of this machine that say how to reach the package index.
NETWORK = ["PIP_INDEX_URL", "UV_DEFAULT_INDEX", "http_proxy", "https_proxy", "no_proxy"]
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
PYTHONS = {"bookworm": "3.11", "trixie": "3.13"}
# For a stack that does not work as installed: that is its first breakage.
AS_INSTALLED = {"as-installed": {"text": "nothing: it does not work as installed", "run": "", "names": []}}
# Seconds until a real program or an installation counts as failed.
ANSWER_TIME, INSTALL_TIME = 300, 3600

# Starts a program in a root file system: ENTER ROOT LENT USER NAME=VALUE… PROGRAM…
ENTER = """root=$1 lent=$2 user=$3; shift 3
mount -t proc proc "$root/proc" && mount --bind "$lent" "$root/mnt" || exit 125
mount --bind /etc/resolv.conf "$root/etc/resolv.conf" || exit 125
exec chroot --userspec="$user" "$root" /usr/bin/env -i "$@" """


def main():
    words = sys.argv[1:]
    keep = "--keep" in words
    stacks = tomllib.loads((HERE / "stacks.toml").read_text())
    breakages = tomllib.loads((HERE / "breakages.toml").read_text())
    chosen = [word for word in words if word != "--keep"] or list(stacks["stack"])
    unknown = [name for name in chosen if name not in stacks["stack"]]
    if unknown:
        sys.exit(f"field: stacks.toml has no {', '.join(unknown)}")
    lend()
    failed = []
    for name in chosen:
        stack = stacks["layout"][stacks["stack"][name]["layout"]] | stacks["stack"][name]
        try:
            result = try_stack(name, stack, breakages)
        except StackFailure as failure:
            print(f"{name}: {failure}", flush=True)
            failed.append(name)
            continue
        finally:
            if not keep:
                shutil.rmtree(FIELD / "stacks" / name, ignore_errors=True)
        (FIELD / f"{name}.json").write_text(json.dumps(result, indent=1) + "\n")
        save(name, stack, result)
    PAGE.write_text(page.page(json.loads(RESULTS.read_text()), stacks["stack"], AS_INSTALLED | breakages))
    if failed:
        sys.exit(f"field: not tried: {', '.join(failed)}")


class StackFailure(Exception):
    """A stack that cannot be installed, or does not work as installed."""


# The stacks.


def try_stack(name, stack, breakages):
    """The answers about a stack as installed, and after each breakage and its fix."""
    layers = installed(name, stack)
    with mounted(layers, FIELD / "work") as root:
        case = {"env": environment(stack), "user": stack.get("user", 0)}
        intact = answers(root, stack, case)
        owner = owner_of(root, stack["site"], intact["real"]["copy"])
        print(f"{name}: {summary(intact)}", flush=True)
    # No single fix cures two faults.
    if not intact["real"]["works"]:
        breakages = AS_INSTALLED
    result = {"intact": intact, "broken": {}}
    for breakage_name, breakage in breakages.items():
        if breakage_name in stack.get("skip", []) or not concerns(breakage, name, stack["layout"]):
            continue
        broken = try_breakage(layers, stack, breakage, intact["real"]["copy"], owner)
        if broken:
            result["broken"][breakage_name] = broken
            print(f"{name}, {breakage_name}: {summary(broken)}", flush=True)
    return result


def concerns(breakage, name, layout):
    return name in breakage.get("stacks", [name]) and layout in breakage.get("layouts", [layout])


def try_breakage(layers, stack, breakage, copy, owner):
    """The answers after a breakage and after the printed fix, or None if the breakage needs a file that is not there."""
    case = {"env": environment(stack) | breakage.get("env", {}), "user": breakage.get("user", stack.get("user", 0))}
    with mounted(layers, FIELD / "work") as root:
        variables = {"SITE": stack["site"], "PYTHON": stack["python"], "COPY": copy or "", "OWNER": owner or "",
                     "FOLDER": os.path.dirname(copy or ""), "ADD": stack["add"], "UNINSTALL": stack["uninstall"]}
        done = run_inside(root, breakage["run"], install_environment(stack) | variables)
        if done.returncode == 75:  # as in sysexits.h: this stack does not have what the breakage changes
            return None
        if done.returncode:
            sys.exit(f"field: {breakage['text']}: exit status {done.returncode}: {done.stderr}")
        broken = answers(root, stack, case)
        if broken["real"]["works"]:
            return broken
        broken["named"] = is_named(broken["ours"]["verdict"], breakage, broken["real"]["error"], variables)
        fix = broken["ours"]["fix"]
        if fix:
            broken["fix_output"] = apply_fix(root, stack, case, fix)
            broken["fixed"] = answers(root, stack, case)
            broken["cured"] = broken["fixed"]["real"]["works"]
    return broken


def is_named(verdict, breakage, error, variables):
    """Whether the first line of a report names the cause, and says how it fails if the breakage asks for that."""
    verdict = verdict.lower()
    how = breakage.get("how", [""])
    return any(word.lower() in verdict for word in causes(breakage, error, variables)) and any(
        word.lower() in verdict for word in how)


def causes(breakage, error, variables):
    """What the first line may name: the words of the breakage, and the file or module in the real error."""
    words = []
    for word in breakage["names"]:
        for name, value in variables.items():
            word = word.replace(f"${name}", value)
        words.append(word)
    words += re.findall(r"(lib[\w+-]+)\.so\b", error)
    words += re.findall(r"No module named '([\w.]+)'", error)
    return words


# Root file systems.


def installed(name, stack):
    """The layers of a stack, uppermost first. Installs it unless it is there."""
    base = base_of(stack["debian"])
    folder = FIELD / "stacks" / name
    if folder.exists():
        return [folder, base]
    print(f"{name}: installing {' '.join(stack['packages'])}", flush=True)
    new = FIELD / "stacks" / f"{name}.new"
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir(parents=True)
    with mounted([base], FIELD / "work") as root:
        variables = {"PACKAGES": " ".join(stack["packages"]), "SYSTEM": " ".join(stack.get("system", []))}
        done = run_inside(root, stack["install"], install_environment(stack) | variables, timeout=INSTALL_TIME)
        if done.returncode:
            raise StackFailure(f"it cannot be installed: {done.stderr[-2000:]}")
        kept_folders(FIELD / "work/upper", new, stack.get("keep", ["/"]))
    write_inside(new, "app/main.py", stack["program"])
    new.rename(folder)
    return [folder, base]


def kept_folders(upper, new, paths):
    """Moves these paths of what was installed into a layer, as COPY --from of a build stage does."""
    for path in paths:
        to = new / path.strip("/")
        if to == new:
            new.rmdir()
        to.parent.mkdir(parents=True, exist_ok=True)
        (upper / path.strip("/")).rename(to)


def base_of(debian):
    """The root file system of a Debian with Python."""
    if debian == "bookworm":
        return PARTS / "bookworm"
    folder = FIELD / "bases" / debian
    if not folder.exists():
        new = folder.with_suffix(".new")
        shutil.rmtree(new, ignore_errors=True)
        new.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["debootstrap", "--variant=minbase", "--include=python3", debian, new], check=True,
                       stdout=subprocess.DEVNULL)
        new.rename(folder)
    return folder


@contextlib.contextmanager
def mounted(layers, folder):
    """The layers as one writable folder. What is written goes away at the end."""
    shutil.rmtree(folder, ignore_errors=True)
    for name in ["upper", "work", "root"]:
        (folder / name).mkdir(parents=True)
    lower = ":".join(str(layer) for layer in layers)
    options = f"lowerdir={lower},upperdir={folder}/upper,workdir={folder}/work"
    subprocess.run(["mount", "-t", "overlay", "overlay", "-o", options, folder / "root"], check=True)
    try:
        yield folder / "root"
    finally:
        subprocess.run(["umount", "--lazy", folder / "root"], check=True)
        shutil.rmtree(folder, ignore_errors=True)


def write_inside(root, path, text):
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def lend():
    """Makes the folder that is mounted at /mnt while a program runs: uv, the probe and its helpers."""
    shutil.rmtree(LENT, ignore_errors=True)
    (LENT / "bin").mkdir(parents=True)
    shutil.copy(HERE / "probe.py", LENT)
    shutil.copy(CERTIFICATES, LENT / "certificates.crt")
    shutil.copy(PARTS / "uv/uv/uv", LENT / "bin/uv")
    support = REPOSITORY / "tests/support"
    for library, source in [("as_caller.so", "as_caller.c"), ("libcuda.so.1", "driver_stub.c")]:
        subprocess.run(["gcc", "-O1", "-shared", "-fPIC", "-mno-red-zone", f"-Wl,-soname,{library}", "-o",
                        LENT / library, support / source], check=True)
    for wheel in (PARTS / "wheels").glob("nvidia-cuda-cupti*"):
        shutil.copytree(wheel, LENT / "wheels" / wheel.name)
    # NVIDIA's repository, as for tests/incidents, before those of the image.
    kit = FIELD / "kit"
    if not kit.exists():
        make = REPOSITORY / "tests/incidents/kit/make.sh"
        subprocess.run(["bash", make, kit, PARTS, PARTS / "bookworm"], check=True, capture_output=True)
    shutil.copytree(kit / "lent/apt", LENT / "apt")
    (LENT / "apt/apt.conf").write_text(
        'Dir::Etc::Preferences "/mnt/apt/preferences";\nAPT::Sandbox::User "root";\nAcquire::Languages "none";\n')
    (LENT / "apt/preferences").write_text('Package: wget\nPin: origin ""\nPin-Priority: 1001\n')


# Running programs.


def environment(stack):
    """The variables of the image."""
    home = {"HOME": stack["home"]} if "home" in stack else {}
    return {"PATH": stack["bin"] + SYSTEM_PATH} | home | stack.get("env", {})


def install_environment(stack):
    variables = {name: os.environ[name] for name in NETWORK if name in os.environ}
    variables |= environment(stack)
    variables["PATH"] += ":/mnt/bin"
    return variables | {
        "HOME": "/root", "DEBIAN_FRONTEND": "noninteractive", "PIP_ROOT_USER_ACTION": "ignore",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_CERT": "/mnt/certificates.crt", "PIP_NO_CACHE_DIR": "1",
        "PIP_DEFAULT_TIMEOUT": "180", "PIP_PROGRESS_BAR": "off",
        "SSL_CERT_FILE": "/mnt/certificates.crt", "UV_HTTP_TIMEOUT": "180", "UV_NO_PROGRESS": "1",
    }


def run_inside(root, script, variables, user=0, timeout=ANSWER_TIME):
    return enter(root, variables, ["/bin/sh", "-ec", script], user, timeout)


def enter(root, variables, words, user, timeout):
    pairs = [f"{name}={value}" for name, value in variables.items()]
    command = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", ENTER, "sh", root, LENT, f"{user}:{user}", *pairs, *words]
    try:
        return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
                              timeout=timeout)
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 124, "", f"no answer in {timeout} s")


def answers(root, stack, case):
    """What the real program does, and what cupti-audit says of it."""
    return {"real": real_answer(root, stack, case), "ours": our_answer(root, stack, case)}


def real_answer(root, stack, case):
    """Runs the program of the stack, and what it does when it profiles."""
    variables = {"HOME": "/root"} | case["env"] | {"PYTHONDONTWRITEBYTECODE": "1"}
    words = ["python3", "/mnt/probe.py", "/app/main.py", stack.get("opens", "").replace("SITE", stack["site"])]
    done = enter(root, variables, words, case["user"], ANSWER_TIME)
    copies = [line for line in done.stdout.splitlines() if line.startswith("copy:")]
    if done.returncode == 0 and copies:
        return {"works": True, "copy": copies[-1].removeprefix("copy:").strip() or None}
    errors = [line for line in done.stderr.splitlines() if line.strip()]
    if done.returncode < 0:
        errors.append(signal.Signals(-done.returncode).name)
    return {"works": False, "copy": None, "error": errors[-1] if errors else f"exit status {done.returncode}"}


def our_answer(root, stack, case):
    """Runs cupti-audit without a cache, as the image's user would."""
    text = FIELD / "report.txt"
    command = [PROGRAM, f"rootfs:{root}", "--no-config", "--format", "json", "-o", f"text={text}",
               "--command", "python3 /app/main.py", "--user", str(case["user"]), *stack.get("question", [])]
    for name, value in case["env"].items():
        command += ["--env", f"{name}={value}"]
    output = FIELD / "report.json"
    with output.open("wb") as file:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.PIPE, text=True,
                                   env={"CUPTI_AUDIT_CACHE_DIR": str(FIELD / "cache"), "PATH": SYSTEM_PATH})
        errors = process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    # Of the processors: what else runs on the machine hardly changes it.
    seconds = round(usage.ru_utime + usage.ru_stime, 1)
    shutil.rmtree(FIELD / "cache", ignore_errors=True)
    try:
        report = json.loads(output.read_bytes())
    except ValueError:
        return {"exit_code": process.returncode, "verdict": errors.strip(), "fix": [], "lines": 0, "gaps": 0,
                "rules": [], "copies": [], "seconds": seconds, "mebibytes": usage.ru_maxrss // 1024}
    errors = [finding for finding in report["findings"] if finding["severity"] == "error"]
    return {"exit_code": process.returncode, "verdict": report["verdict"], "fix": printed_fix(errors),
            "rules": [finding["rule"] for finding in errors], "copies": report["cupti"]["copies"], "lines": len(text.read_text().splitlines()),
            "gaps": len(report.get("gaps", [])), "seconds": seconds, "mebibytes": usage.ru_maxrss // 1024}


def printed_fix(errors):
    """The instructions of the first error that has some."""
    for finding in errors:
        commands = [f"RUN {command}" for command in finding.get("commands") or []]
        if commands or finding.get("instructions"):
            return commands + (finding.get("instructions") or [])
    return []


def apply_fix(root, stack, case, fix):
    """Carries out printed instructions. Changes the environment of the case, and returns what the commands say."""
    said = []
    # What NVIDIA's repository has comes from the local one, whatever the commands name.
    sources = "etc/apt/sources.list.d/stand-in.list"
    write_inside(root, sources, "deb [trusted=yes] file:/mnt/apt ./\n")
    for instruction in fix:
        word, rest = instruction.split(" ", 1)
        if word == "ENV":
            for pair in shlex.split(rest):
                name, value = pair.split("=", 1)
                case["env"][name] = value.replace(f"${{{name}}}", case["env"].get(name, ""))
        elif word == "RUN":
            done = run_instruction(root, rest, install_environment(stack) | case["env"])
            said.append(f"$ {rest}\n{done.stdout[-500:]}{done.stderr[-1000:]}")
            if done.returncode:
                break
        else:
            said.append(f"not carried out: {instruction}")
    (root / sources).unlink()
    return "\n".join(said)


def run_instruction(root, text, variables):
    """Runs RUN. A mount is that of uv's public image, from which the machine's uv comes for this command."""
    mount = re.match(r"--mount=\S*\bfrom=ghcr.io/astral-sh/uv\b\S*\btarget=([^\s,]+)\S*\s", text)
    if mount:
        text = f"cp /mnt/bin/uv {mount[1]}\n{text[mount.end():]}\nrm {mount[1]}"
    return run_inside(root, text, variables | {"APT_CONFIG": "/mnt/apt/apt.conf"}, timeout=INSTALL_TIME)


def owner_of(root, site, copy):
    """The Python package that installed a file, by the RECORD of its distribution."""
    for record in sorted((root / site.strip("/")).glob("*.dist-info/RECORD")):
        for line in record.read_text().splitlines():
            if copy and copy.endswith("/" + line.rsplit(",", 2)[0]):
                return record.parent.name.split("-")[0].replace("_", "-")
    return None


def summary(answer):
    real, ours = answer["real"], answer["ours"]
    words = f"real {'works' if real['works'] else 'fails: ' + real['error']} | ours {ours['exit_code']}: {ours['verdict']}"
    for key in ["named", "cured"]:
        if key in answer:
            words += f" | {key}: {answer[key]}"
    return words + f" | {ours['seconds']} s, {ours['mebibytes']} MiB, {ours['lines']} lines"


def save(name, stack, result):
    """Puts the figures of a stack into the file that the page is made from."""
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    real, ours = result["intact"]["real"], result["intact"]["ours"]
    results[name] = figures(result["intact"]) | {
        "packages": stack["packages"], "layout": stack["layout"], "python": PYTHONS[stack["debian"]],
        "date": datetime.date.today().isoformat(), "copy": short_copy(stack["site"], real["copy"], ours["copies"]),
        "seconds": ours["seconds"], "mebibytes": ours["mebibytes"], "lines": ours["lines"],
        "broken": {breakage: figures(answer) for breakage, answer in result["broken"].items()},
    }
    RESULTS.write_text(json.dumps(dict(sorted(results.items())), indent=1) + "\n")


def figures(answer):
    """The parts of the answers that the page shows. An open verdict is not wrong; the page shows it on its own."""
    real, ours = answer["real"], answer["ours"]
    small = {"error": real.get("error"), "exit_code": ours["exit_code"], "verdict": ours["verdict"],
             "wrong": is_wrong(answer) or is_wrong(answer.get("fixed"))}
    if "named" in answer:
        small |= {"named": answer["named"], "fix": len(ours["fix"]), "cured": answer.get("cured", False)}
        if "fixed" in answer:
            small["fixed"] = answer["fixed"]["ours"]["exit_code"]
    return small


def is_wrong(answer):
    """Whether the audit passes and the real program fails, or the reverse."""
    if answer is None:
        return False
    return answer["ours"]["exit_code"] == (1 if answer["real"]["works"] else 0)


def short_copy(site, path, copies):
    """The path of the mapped libcupti below the folder of the packages, with its release."""
    if not path:
        return None
    releases = [copy["version"] for copy in copies if path in (copy["path"], copy["real_path"])]
    return f"{path.removeprefix(site + '/')}, {releases[0] if releases else 'not seen'}"


if __name__ == "__main__":
    main()
