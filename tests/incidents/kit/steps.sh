# What the steps of a case are written with. Each runs as root in the image, with the kit at /mnt.
set -e
site=/opt/venv/lib/python3.11/site-packages

# distribution NAME VERSION "PATH…" REQUIREMENT…: the metadata that pip leaves, with the files below these paths.
distribution() {
  local folder=$site/$(echo "$1" | tr - _)-$2.dist-info paths=$3
  mkdir -p "$folder"
  printf 'Metadata-Version: 2.1\nName: %s\nVersion: %s\n' "$1" "$2" >"$folder/METADATA"
  echo pip >"$folder/INSTALLER"
  shift 3
  [ $# = 0 ] || printf 'Requires-Dist: %s\n' "$@" >>"$folder/METADATA"
  (cd "$site" && find $paths "${folder##*/}" -type f -printf '%p,,%s\n') >"$folder/RECORD"
}

# torch VERSION OBJECT REQUIREMENT…: PyTorch, whose libtorch_cpu.so is this object of the kit.
torch() {
  local version=$1 object=$2
  shift 2
  mkdir -p "$site/torch/lib"
  cp "/mnt/objects/libtorch_cpu-$object.so" "$site/torch/lib/libtorch_cpu.so"
  cp /mnt/objects/libtorch_global_deps.so "$site/torch/lib/"
  cp /mnt/objects/_C.so "$site/torch/_C.cpython-311-x86_64-linux-gnu.so"
  cat >"$site/torch/__init__.py" <<'PYTHON'
import ctypes, os
ctypes.CDLL(os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib", "libtorch_global_deps.so"), mode=ctypes.RTLD_GLOBAL)
from torch._C import *
PYTHON
  printf '__version__ = "%s"\ncuda = None\n' "$version" >"$site/torch/version.py"
  distribution torch "$version" torch "$@"
}

# wheel NAME-VERSION: a wheel as pip installs it.
wheel() {
  cp -r "/mnt/wheels/$1/." "$site"
  local folder
  for folder in "$site"/nvidia_cuda_cupti*.dist-info; do echo pip >"$folder/INSTALLER"; done
}

# library FOLDER WHEEL FILE [NAME]: one file of a wheel in a folder, under another name.
library() {
  mkdir -p "$1"
  cp /mnt/wheels/"$2"/nvidia/*/lib/"$3" "$1/${4:-$3}"
}

# uv_venv: an environment as `uv venv /opt/venv` makes it, without pip.
uv_venv() {
  mkdir -p /opt/venv/bin "$site"
  printf '%s\n' 'home = /usr/bin' 'implementation = CPython' 'uv = 0.9.5' 'version_info = 3.11.2' \
    'include-system-site-packages = false' >/opt/venv/pyvenv.cfg
  ln -s /usr/bin/python3 /opt/venv/bin/python
  ln -s python /opt/venv/bin/python3
}

# jax VERSION 12|13: JAX with its plug-in for this CUDA.
jax() {
  local folder=$site/jax_plugins/xla_cuda$2
  mkdir -p "$folder"
  cp "/mnt/objects/xla_cuda_plugin-$2.so" "$folder/xla_cuda_plugin.so"
  : >"$folder/__init__.py"
  distribution "jax-cuda$2-pjrt" "$1" jax_plugins
  distribution "jax-cuda$2-plugin" "$1" jax_plugins "jax-cuda$2-pjrt==$1" "$3"
}

# tensorflow VERSION: its two libraries.
tensorflow() {
  mkdir -p "$site/tensorflow"
  cp /mnt/objects/libtensorflow_cc.so.2 /mnt/objects/libtensorflow_framework.so.2 "$site/tensorflow/"
  : >"$site/tensorflow/__init__.py"
  distribution tensorflow "$1" tensorflow 'nvidia-cuda-cupti-cu12==12.3.101; extra == "and-cuda"'
}

# proton VERSION: Triton without a CUPTI of its own.
proton() {
  mkdir -p "$site/triton/_C"
  cp /mnt/objects/libproton.so "$site/triton/_C/"
  : >"$site/triton/__init__.py"
  distribution triton "$1" triton
}

# app OBJECT: a program of the kit as /usr/local/bin/app.
app() {
  mkdir -p /usr/local/bin
  cp "/mnt/objects/$1" /usr/local/bin/app
}

# record DISTRIBUTION FILE: the hash of a file below site-packages, as pip writes it.
record() {
  (cd "$site" && python3 - "$1.dist-info/RECORD" "$2" <<'PYTHON'
import base64, hashlib, sys
record, file = sys.argv[1:]
lines = [line for line in open(record) if not line.startswith(file + ",")]
digest = base64.urlsafe_b64encode(hashlib.sha256(open(file, "rb").read()).digest()).decode().rstrip("=")
open(record, "w").writelines(lines + [f"{file},sha256={digest},\n"])
PYTHON
  )
}
