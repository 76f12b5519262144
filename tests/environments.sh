#!/usr/bin/env bash
# Makes Debians with a Python environment in /opt/venv, of the real PyTorch, JAX and TensorFlow with all that pip
# brings along. They take some gigabytes of downloads and disk, so only `make test-all` asks for them, and they are
# kept in the user's cache directory: $XDG_CACHE_HOME/cupti-audit, or ~/.cache/cupti-audit.
#
# What is there already is left as it is. Needs root, pip and the Debian of tests/parts.sh.
set -euo pipefail

cd "$(dirname "$0")/.."
parts=${CUPTI_AUDIT_PARTS:-target/parts}
cache=${XDG_CACHE_HOME:-$HOME/.cache}/cupti-audit
suite=bookworm
python=3.11

say() { printf 'environments: %s\n' "$*"; }

# The wheels are those for the Debian's Python and C library, whatever this machine runs.
platforms=()
for glibc in $(seq 36 -1 5); do platforms+=(--platform "manylinux_2_${glibc}_x86_64"); done
for name in manylinux2014 manylinux2010 manylinux1; do platforms+=(--platform "${name}_x86_64"); done

# NAME REQUIREMENT…
environment() {
  local name=$1 root=$cache/$1
  shift
  if [ -e "$root" ]; then
    say "$name is there"
    return
  fi
  say "making $name of $*"
  rm -rf "$root.new"
  cp -a "$parts/$suite" "$root.new"
  chroot "$root.new" /usr/bin/env -i PATH=/usr/bin:/bin python3 -m venv --without-pip /opt/venv
  python3 -m pip install --quiet --no-cache-dir --no-compile --only-binary :all: --python-version "$python" \
    "${platforms[@]}" --target "$root.new/opt/venv/lib/python$python/site-packages" "$@"
  mv "$root.new" "$root"
}

# Slurm, for tests/support/fleet_slurm.rs.
if ! command -v slurmctld >/dev/null || ! command -v munged >/dev/null; then
  say 'installing slurm-wlm and munge'
  apt-get update -qq && apt-get install -y -qq --no-install-recommends slurm-wlm munge >/dev/null
fi

say "they lie in $cache"
mkdir -p "$cache"
# Triton builds its driver module with setuptools; JAX imports a module that later wheels of nvcc lack.
environment torch torch==2.5.1 setuptools
# proton opens another file in each: the bare name, a folder of its build machine, its own.
environment triton-3.1 triton==3.1.0 setuptools
environment triton-3.2 triton==3.2.0 setuptools
environment triton-3.3 triton==3.3.1 setuptools
environment triton-3.9 triton==3.9.0 setuptools
environment jax 'jax[cuda12]==0.4.35' nvidia-cuda-nvcc-cu12==12.8.93
environment tensorflow 'tensorflow[and-cuda]==2.17.1'
# Paddle's library of BLAS needs a part of GCC that no wheel brings.
gcc_part() {
  local root=$cache/$1 work
  [ -e "$root" ] && [ ! -e "$root/usr/lib/x86_64-linux-gnu/libgomp.so.1" ] || return 0
  work=$(mktemp -d)
  chmod 755 "$work"
  (cd "$work" && apt-get download -qq -t "$suite" libgomp1)
  dpkg-deb -x "$work"/libgomp1_*.deb "$root"
  rm -r "$work"
}
# The newest of each when this was written, and torch 2.8, whose triton has CUPTI in one folder; NVIDIA's packages that use it.
environment torch-2.8 torch==2.8.0 nvidia-resiliency-ext==0.4.1 cupti-python==12.8.0 setuptools
environment torch-2.15 torch==2.15.0 cupti-python==13.0.1 setuptools
environment jax-cuda12 'jax[cuda12]==0.10.2'
environment jax-cuda13 'jax[cuda13]==0.10.2'
environment tensorflow-2.21 'tensorflow[and-cuda]==2.21.0'
environment paddle paddlepaddle-gpu==2.6.2 setuptools
gcc_part paddle
