#!/usr/bin/env bash
# Makes in a new folder what the cases share: make.sh FOLDER PARTS DEBIAN.
#
#   layers/NAME and layers/NAME.tar   the lower layers of images: a small Debian 12, a Python environment, …
#   lent/                             mounted at /mnt while an image is made and asked; it is in no image
#
# Packages of NVIDIA's names are made around the real library, as NVIDIA's own are not to be had without a network. Empty
# libraries stand in for the others of CUPTI, which are 35 of 40 MB and which no case calls.
set -euo pipefail

kit=$1 parts=$2 debian=$3
source=$(cd "$(dirname "$0")" && pwd)
site=opt/venv/lib/python3.11/site-packages
lent=$kit/lent
mkdir -p "$kit/layers" "$lent"/{bin,objects,wheelhouse,apt,wheels}

# The C library, Python, apt, dpkg and ldconfig of Debian; not what takes time to read.
debian() {
  local to=$kit/layers/debian
  cp -al "$debian" "$to"
  mv "$to/usr/share/dpkg" "$kit/dpkg-tables"
  rm -rf "$to"/usr/share/* "$to"/var/{cache,log}/* "$to"/var/lib/apt/lists/* "$to"/usr/bin/perl* "$to"/boot
  rm -rf "$to"/usr/lib/x86_64-linux-gnu/{gconv,perl-base,security,engines-3,krb5} "$to"/usr/lib/python3.11/{test,pydoc_data,unittest}
  mv "$kit/dpkg-tables" "$to/usr/share/dpkg"
  mkdir -p "$to"/var/cache/{apt/archives/partial,ldconfig} "$to/var/log/apt" "$to/var/lib/apt/lists/partial" "$to/usr/share/doc"
  # What is locked or written in place must not be the file of other copies.
  local file
  for file in "$to"/var/lib/dpkg/{lock,lock-frontend,triggers/Lock,status}; do
    cp "$file" "$file.own" && mv "$file.own" "$file"
  done
}

# A virtual environment with pip, as `python3 -m venv /opt/venv` makes it.
venv() {
  local to=$kit/layers/venv
  mkdir -p "$to/opt/venv/bin" "$to/$site"
  printf '%s\n' 'home = /usr/bin' 'include-system-site-packages = false' 'version = 3.11.2' \
    'executable = /usr/bin/python3.11' 'command = /usr/bin/python3 -m venv /opt/venv' >"$to/opt/venv/pyvenv.cfg"
  ln -s /usr/bin/python3 "$to/opt/venv/bin/python3"
  ln -s python3 "$to/opt/venv/bin/python"
  cp -a "$parts/wheels/pip-24.3.1/." "$to/$site"
  printf '%s\n' '#!/opt/venv/bin/python3' 'import sys' 'from pip._internal.cli.main import main' 'sys.exit(main())' \
    >"$to/opt/venv/bin/pip"
  cp "$to/opt/venv/bin/pip" "$to/opt/venv/bin/pip3"
  chmod 755 "$to"/opt/venv/bin/pip*
  # Byte code, which Python would write at each first import.
  run "$to" /usr/bin/python3 -m compileall -q -j 0 /opt/venv/lib
}

# Debian's own pip, whose Python is managed by apt.
debian_pip() {
  local to=$kit/layers/debian-pip
  mkdir -p "$to/usr/lib/python3/dist-packages" "$to/usr/bin"
  cp -a "$parts/wheels/pip-24.3.1/." "$to/usr/lib/python3/dist-packages"
  sed 's|/opt/venv/bin|/usr/bin|' "$kit/layers/venv/opt/venv/bin/pip" >"$to/usr/bin/pip"
  chmod 755 "$to/usr/bin/pip"
  cp "$to/usr/bin/pip" "$to/usr/bin/pip3"
}

# Debian's libraries as another distribution: `system NAME ID VERSION`, without apt and dpkg.
system() {
  local to=$kit/layers/$1
  cp -al "$kit/layers/debian" "$to"
  rm -r "$to"/etc/{apt,debian_version,os-release} "$to"/var/lib/{apt,dpkg} "$to"/usr/lib/{apt,dpkg} "$to"/usr/share/dpkg \
    "$to"/usr/bin/{apt,dpkg}* "$to"/usr/sbin/{dpkg-preconfigure,start-stop-daemon}
  rm "$to/usr/lib/os-release"
  printf 'ID=%s\nVERSION_ID="%s"\n' "$2" "$3" >"$to/etc/os-release"
}

# Rocky Linux, as far as dnf goes: Debian's builds of dnf, zypper and rpm, with an empty list of packages, so zypper must not
# ask for glibc's. curl takes what NVIDIA's
# repository has out of this one: curl -o FILE ADDRESS.
red_hat() {
  local to=$kit/layers/red-hat
  system red-hat rocky 9.4
  cp -a "$parts/dnf/." "$to"
  mkdir -p "$to/etc/yum.repos.d" "$to/etc/rpm"
  # Debian's rpm has its database in the home directory.
  echo '%_dbpath /var/lib/rpm' >"$to/etc/rpm/macros"
  : >"$to/etc/zypp/systemCheck"
  printf '%s\n' '#!/bin/sh' 'exec cp "/mnt/rpms/${3##*/}" "$2"' >"$to/usr/bin/curl"
  chmod 755 "$to/usr/bin/curl"
  chroot "$to" /sbin/ldconfig
}

# rpm NAME VERSION DEPENDS FOLDER: a package of what is in the folder.
rpm() {
  mkdir -p "$lent/rpms" "$kit/rpm"
  printf '%s\n' "Name: $1" "Version: $2" 'Release: 1' 'Summary: stands in for the package of this name' 'License: none' \
    'AutoReqProv: no' ${3:+"Requires: $3"} '%description' 'A package of a test.' '%files' /usr >"$kit/rpm/package.spec"
  unshare --mount --propagation private sh -c 'kit=$1; mount --bind "$kit" "$kit/layers/red-hat/mnt" &&
    exec chroot "$kit/layers/red-hat" rpmbuild -bb --quiet --noclean --nodebuginfo --target x86_64 --buildroot "$2" --define "_topdir /mnt/rpm" \
      --define "_rpmdir /mnt/lent" --define "_rpmfilename rpms/%{name}.rpm" --define "_binary_payload w0.gzdio" \
      --define "__os_install_post %{nil}" --define "_build_id_links none" /mnt/rpm/package.spec' sh "$kit" "/mnt/${4##*/}" >/dev/null
}

# conda as its installer lays it, with a Python and an environment of nothing else.
conda() {
  local to=$kit/layers/conda/opt/conda
  mkdir -p "$to"/{bin,conda-meta,lib/python3.11/site-packages}
  : >"$to/conda-meta/history"
  ln -s /usr/bin/python3.11 "$to/bin/python3.11"
  ln -s python3.11 "$to/bin/python3"
  install "$source/conda.py" "$to/bin/conda"
}

# channel VERSION WHEEL FILE NAME: cuda-cupti and cuda-cupti-dev of conda-forge, with the folders and links of its packages.
channel() {
  local libraries=$lent/wheels/$2/nvidia/cuda_cupti/lib to=$lent/conda/cuda-cupti-$1-0
  mkdir -p "$to/targets/x86_64-linux/lib" "$to/lib"
  cp "$libraries/$3" "$to/targets/x86_64-linux/lib/$4"
  ln -s "$4" "$to/targets/x86_64-linux/lib/$3"
  ln -s "../targets/x86_64-linux/lib/$4" "$to/lib/$4"
  ln -s "../targets/x86_64-linux/lib/$3" "$to/lib/$3"
  to=$lent/conda/cuda-cupti-dev-$1-0
  mkdir -p "$to/targets/x86_64-linux/lib" "$to/lib"
  local file
  for file in "$libraries"/lib{nvperf,check,pcs}*; do
    cp "$file" "$to/targets/x86_64-linux/lib/"
    ln -s "../targets/x86_64-linux/lib/${file##*/}" "$to/lib/${file##*/}"
  done
}

# Alpine's C library and shell: Debian's builds of musl and busybox.
alpine() {
  local to=$kit/layers/alpine
  mkdir -p "$to"/{bin,lib,etc,usr/lib,usr/local/bin,proc,mnt,tmp}
  cp -L /lib/ld-musl-x86_64.so.1 "$to/lib/ld-musl-x86_64.so.1"
  ln -s ld-musl-x86_64.so.1 "$to/lib/libc.musl-x86_64.so.1"
  cp "$parts/launchers/bin/busybox" "$to/bin/busybox"
  local name
  for name in sh cp cat ln mkdir rm ls mv; do ln -s busybox "$to/bin/$name"; done
  printf 'ID=alpine\nVERSION_ID="3.20.3"\n' >"$to/etc/os-release"
}

# run FOLDER PROGRAM…: a program of the Debian, whose files go into this layer above it.
run() {
  mkdir -p "$kit/work" "$kit/root"
  unshare --mount --propagation private sh -c 'kit=$1 layer=$2; shift 2
    mount -t overlay overlay -o "lowerdir=$kit/layers/debian,upperdir=$layer,workdir=$kit/work" "$kit/root" &&
    exec chroot "$kit/root" "$@"' sh "$kit" "$@"
  rm -rf "$kit/work" "$kit/root"
}

# The layer with the real wheel of a release in the environment.
cupti_layer() {
  mkdir -p "$kit/layers/$1/$site"
  cp -a "$lent/wheels/$2/." "$kit/layers/$1/$site"
  echo pip >"$(echo "$kit/layers/$1/$site"/*.dist-info)/INSTALLER"
}

archive() {
  tar -C "$kit/layers/$1" --sort=name --numeric-owner -cf "$kit/layers/$1.tar" .
}

# Debian's own libcupti, which is of CUDA 11.8, and uv where its installer puts it.
debian_libcupti() {
  mkdir "$kit/layers/debian-libcupti"
  dpkg-deb -x "$parts/debs/libcupti11.8.deb" "$kit/layers/debian-libcupti"
  rm -r "$kit/layers/debian-libcupti/usr/share"
  run "$kit/layers/debian-libcupti" /sbin/ldconfig
}

uv() {
  mkdir -p "$kit/layers/uv/usr/local/bin"
  install "$parts/uv/uv/uv" "$kit/layers/uv/usr/local/bin/uv"
  # For a RUN that mounts it from uv's public image.
  install "$parts/uv/uv/uv" "$lent/bin/uv"
}

# A libcupti of which a newer C library than Debian's is asked: the name of the version symbol, and its hash, are changed.
of_newer_glibc() {
  python3 - "$parts/wheels/nvidia-cuda-cupti-cu12-12.9.79/nvidia/cuda_cupti/lib/libcupti.so.12" "$1" <<'PYTHON'
import struct, sys
def elf_hash(name):
    value = 0
    for byte in name:
        value = (value << 4) + byte
        high = value & 0xF0000000
        value = (value ^ (high >> 24)) & ~high & 0xFFFFFFFF
    return struct.pack("<I", value)
old, new = b"GLIBC_2.25", b"GLIBC_2.55"
data = open(sys.argv[1], "rb").read()
assert old in data
open(sys.argv[2], "wb").write(data.replace(old, new).replace(elf_hash(old), elf_hash(new)))
PYTHON
}

# Wheels as a package index has them, for pip and uv.
wheelhouse() {
  python3 - "$lent/wheels" "$lent/wheelhouse" <<'PYTHON'
import os, sys, zipfile
parts, to = sys.argv[1:]
for name in os.listdir(parts):
    if not name.startswith("nvidia-cuda-cupti") or name.endswith("aarch64"):
        continue
    project, version = name.rsplit("-", 1)
    file = f"{to}/{project.replace('-', '_')}-{version}-py3-none-manylinux_2_17_x86_64.manylinux2014_x86_64.whl"
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as wheel:
        for folder, _, files in os.walk(f"{parts}/{name}"):
            for file in files:
                path = os.path.join(folder, file)
                wheel.write(path, os.path.relpath(path, f"{parts}/{name}"))
PYTHON
}

# listed FILE: what a repository says of a package beside its own words.
listed() {
  printf '%s\n' "Filename: ./$1" "Size: $(stat -c %s "$lent/apt/$1")" \
    "SHA256: $(sha256sum "$lent/apt/$1" | cut -d ' ' -f 1)" ''
}

# deb NAME VERSION DEPENDS FOLDER: a package of what is in the folder.
deb() {
  mkdir -p "$4/DEBIAN"
  printf '%s\n' "Package: ${1%%_*}" "Version: $2" 'Architecture: amd64' 'Maintainer: none <none@example.com>' \
    ${3:+"Depends: $3"} "Description: stands in for the package of this name" >"$4/DEBIAN/control"
  echo 'activate-noawait ldconfig' >"$4/DEBIAN/triggers"
  dpkg-deb --root-owner-group -Znone -b "$4" "$lent/apt/$1.deb" >/dev/null
  { cat "$4/DEBIAN/control" && listed "$1.deb"; } >>"$lent/apt/Packages"
  rm -rf "$4"
}

# toolkit CUDA VERSION WHEEL FOLDER SONAME FILE: cuda-cupti-* of NVIDIA's repository, with the folders and links of its packages.
toolkit() {
  local dashed=${1/./-} package=$kit/deb lib=usr/local/cuda-$1/targets/x86_64-linux/lib
  mkdir -p "$package/$lib" "$package/etc/ld.so.conf.d"
  cp "$lent/wheels/$3/nvidia/$4/lib"/libnvperf_* "$package/$lib/"
  cp "$parts/wheels/$3/nvidia/$4/lib/$5" "$package/$lib/$6"
  ln -s "$6" "$package/$lib/$5"
  ln -s targets/x86_64-linux/lib "$package/usr/local/cuda-$1/lib64"
  mkdir -p "$kit/layers/toolkit-$1"
  cp -al "$package/." "$kit/layers/toolkit-$1"
  rpm "cuda-cupti-$dashed" "$2" '' "$package"
  deb "cuda-cupti-$dashed" "$2-1" "cuda-toolkit-$dashed-config-common" "$package"
  mkdir -p "$package/etc/ld.so.conf.d" "$package/usr/local"
  ln -s "cuda-$1" "$package/usr/local/cuda"
  echo /usr/local/cuda/targets/x86_64-linux/lib >"$package/etc/ld.so.conf.d/000_cuda.conf"
  cp -a "$package/." "$kit/layers/toolkit-$1"
  run "$kit/layers/toolkit-$1" /sbin/ldconfig
  deb "cuda-toolkit-$dashed-config-common" "$2-1" '' "$package"
  archive "toolkit-$1"
}

repository() {
  mkdir -p "$lent/rpms"
  printf '%s\n' '[cuda]' 'name=cuda' 'baseurl=file:///mnt/rpms' 'gpgcheck=0' >"$lent/rpms/cuda-rhel9.repo"
  cp "$lent/rpms/cuda-rhel9.repo" "$lent/rpms/cuda-sles15.repo"
  toolkit 12.4 12.4.127 nvidia-cuda-cupti-cu12-12.4.127 cuda_cupti libcupti.so.12 libcupti.so.2024.1.1
  toolkit 12.1 12.1.105 nvidia-cuda-cupti-cu12-12.1.105 cuda_cupti libcupti.so.12 libcupti.so.2023.1.1
  toolkit 12.8 12.8.90 nvidia-cuda-cupti-cu12-12.8.90 cuda_cupti libcupti.so.12 libcupti.so.2025.1.1
  toolkit 12.9 12.9.79 nvidia-cuda-cupti-cu12-12.9.79 cuda_cupti libcupti.so.12 libcupti.so.2025.2.1
  toolkit 11.8 11.8.87 nvidia-cuda-cupti-cu11-11.8.87 cuda_cupti libcupti.so.11.8 libcupti.so.2022.3.0
  toolkit 13.0 13.0.85 nvidia-cuda-cupti-13.0.85 cu13 libcupti.so.13 libcupti.so.2025.3.1
  unshare --mount --propagation private sh -c 'mount --bind "$1/lent" "$1/layers/red-hat/mnt" &&
    exec chroot "$1/layers/red-hat" createrepo_c -q --no-database /mnt/rpms' sh "$kit"
  mkdir "$kit/deb"
  deb cuda-libraries-12-4 12.4.1-1 '' "$kit/deb"
  mkdir "$kit/deb"
  deb ca-certificates 20230311 '' "$kit/deb"
  mkdir -p "$kit/deb/usr/share/keyrings"
  : >"$kit/deb/usr/share/keyrings/cuda-archive-keyring.gpg"
  deb cuda-keyring_1.1-1_all 1.1-1 '' "$kit/deb"
  # It takes what NVIDIA's repository has out of this one: wget -O FILE ADDRESS.
  mkdir -p "$kit/deb/usr/bin"
  printf '%s\n' '#!/bin/sh' 'exec cp "/mnt/apt/${3##*/}" "$2"' >"$kit/deb/usr/bin/wget"
  chmod 755 "$kit/deb/usr/bin/wget"
  deb wget 1.21.3-1 '' "$kit/deb"
  cp "$parts/debs/libcupti11.8.deb" "$lent/apt/"
  { dpkg-deb -f "$parts/debs/libcupti11.8.deb" && listed libcupti11.8.deb; } >>"$lent/apt/Packages"
  (cd "$lent/apt" && printf '%s\n' 'Suite: ./' 'Acquire-By-Hash: no' 'SHA256:' \
    " $(sha256sum Packages | cut -d ' ' -f 1) $(stat -c %s Packages) Packages" >Release)
  echo 'deb [trusted=yes] file:/mnt/apt ./' >"$lent/apt/sources.list"
  printf '%s\n' 'Dir::Etc::SourceList "/mnt/apt/sources.list";' 'Dir::Etc::SourceParts "/dev/null";' \
    'APT::Sandbox::User "root";' 'Acquire::Languages "none";' 'DPkg::Options { "--force-unsafe-io"; };' >"$lent/apt/apt.conf"
}

# object NAME ARGUMENTS…: a library or program that asks for CUPTI.
object() {
  gcc -o "$lent/objects/$1" "$source/stubs.c" -Wl,--no-as-needed "${@:2}"
}

objects() {
  local shared=(-shared -fPIC -nostartfiles -Wl,--allow-shlib-undefined) kind release lib rpath
  rpath=-Wl,--disable-new-dtags,-rpath
  for kind in 11.7=cu11-11.7.101/nvidia/cuda_cupti/lib/libcupti.so.11.7 12=cu12-12.8.90/nvidia/cuda_cupti/lib/libcupti.so.12 \
    11.8=cu11-11.8.87/nvidia/cuda_cupti/lib/libcupti.so.11.8 13=13.0.85/nvidia/cu13/lib/libcupti.so.13; do
    release=${kind%%=*} lib=$parts/wheels/nvidia-cuda-cupti-${kind#*=}
    object "libtorch_cpu-$release.so" "${shared[@]}" -DLINKS -Wl,-soname,libtorch_cpu.so "$lib" \
      "$rpath,"'$ORIGIN/../../nvidia/cuda_cupti/lib:$ORIGIN/../../nvidia/cu13/lib:$ORIGIN'
    object "linked-$release" -DLINKS -DMAIN "$lib" -Wl,--allow-shlib-undefined
    object "linked-$release.so" "${shared[@]}" -DLINKS "$lib"
  done
  lib=$parts/wheels/nvidia-cuda-cupti-cu12-12.8.90/nvidia/cuda_cupti/lib/libcupti.so.12
  object libtorch_cpu-runpath.so "${shared[@]}" -DLINKS -DNEWER -Wl,-soname,libtorch_cpu.so "$lib" \
    '-Wl,--enable-new-dtags,-rpath,$ORIGIN/../../nvidia/cuda_cupti/lib:$ORIGIN'
  object linked-newer -DLINKS -DNEWER -DMAIN "$lib" -Wl,--allow-shlib-undefined
  object timestamp-12.1 -DTIMESTAMP -DMAIN "$parts/wheels/nvidia-cuda-cupti-cu12-12.1.105/nvidia/cuda_cupti/lib/libcupti.so.12" \
    -Wl,--allow-shlib-undefined,-z,now
  object events-12 -DEVENTS -DMAIN "$parts/wheels/nvidia-cuda-cupti-cu12-12.4.127/nvidia/cuda_cupti/lib/libcupti.so.12" -Wl,--allow-shlib-undefined
  object events-13 -DEVENTS -DMAIN "$parts/wheels/nvidia-cuda-cupti-13.0.85/nvidia/cu13/lib/libcupti.so.13" -Wl,--allow-shlib-undefined
  object _cupti.so "${shared[@]}" -DMODULE=cupti '-DOPENS="libcupti.so.13","libcupti.so.12"'
  object nvprof -DMAIN '-DOPENS="libcuinj64.so.11.8"' \
    "$parts/wheels/nvidia-cuda-cupti-cu11-11.8.87/nvidia/cuda_cupti/lib/libcupti.so.11.8" -Wl,--allow-shlib-undefined
  of_newer_glibc "$lent/objects/libcupti-newer-glibc.so.12"
  object libtorch_cpu-without.so "${shared[@]}" -Wl,-soname,libtorch_cpu.so '-DBUILT="-DUSE_KINETO -DLIBKINETO_NOCUPTI"'
  object libtorch_cpu-new.so "${shared[@]}" -DLINKS -DNEWER -Wl,-soname,libtorch_cpu.so "$lib" \
    "$rpath,"'$ORIGIN/../../nvidia/cuda_cupti/lib:$ORIGIN'
  cp "$lent/objects/libtorch_cpu-12.so" "$lent/objects/libtorch_cpu.so"
  object _C.so "${shared[@]}" -DMODULE=_C -L"$lent/objects" -l:libtorch_cpu.so "$rpath,"'$ORIGIN/lib'
  rm "$lent/objects/libtorch_cpu.so"
  object xla_cuda_plugin-12.so "${shared[@]}" '-DOPENS="libcupti.so.12","libcupti.so"' "$rpath,"'$ORIGIN/../../nvidia/cuda_cupti/lib'
  object xla_cuda_plugin-13.so "${shared[@]}" '-DOPENS="libcupti.so.13","libcupti.so"' "$rpath,"'$ORIGIN/../../nvidia/cu13/lib'
  object libtensorflow_framework.so.2 "${shared[@]}" '-DOPENS="libcupti.so.12","libcupti.so"' -Wl,-soname,libtensorflow_framework.so.2
  object libtensorflow_cc.so.2 "${shared[@]}" -Wl,-soname,libtensorflow_cc.so.2 -L"$lent/objects" -l:libtensorflow_framework.so.2 \
    '-Wl,--enable-new-dtags,-rpath,$ORIGIN/../nvidia/cuda_cupti/lib:$ORIGIN'
  object libproton.so "${shared[@]}" '-DOPENS="libcupti.so"'
  object libtorch_global_deps.so "${shared[@]}"
  object linked-12-and-other -DLINKS -DMAIN "$lib" -L"$lent/objects" -l:libtorch_global_deps.so -Wl,--allow-shlib-undefined
  object linked-12-runpath -DLINKS -DMAIN "$lib" -Wl,--allow-shlib-undefined '-Wl,--enable-new-dtags,-rpath,$ORIGIN/../lib'
  object libcuda.so.1 "${shared[@]}" -DDRIVER=0 -Wl,-soname,libcuda.so.1
  object libcuda-stub.so "${shared[@]}" -DDRIVER=34 -Wl,-soname,libcuda.so.1
  object asks-driver -DASKS -DLINKS -DMAIN "$lib" -L"$lent/objects" -l:libcuda.so.1 -Wl,--allow-shlib-undefined
  object linked-12-conda -DLINKS -DMAIN "$lib" -Wl,--allow-shlib-undefined "$rpath,"'$ORIGIN/../lib'
  object opens-12 -DMAIN '-DOPENS="libcupti.so.12"'
  object opens-plain -DMAIN '-DOPENS="libcupti.so"'
  object opens-path -DMAIN '-DOPENS="/usr/local/cuda/extras/CUPTI/lib64/libcupti.so.12"'
  musl-gcc -o "$lent/objects/opens-12-musl" "$source/stubs.c" -DMAIN '-DOPENS="libcupti.so.12"'
  lib=$parts/wheels/nvidia-cuda-cupti-cu11-11.8.87/nvidia/cuda_cupti/lib/libcupti.so.11.8
  object state.so "${shared[@]}" -DLINKS -DMODULE=onnxruntime_pybind11_state "$lib"
  object libcuinj64.so.11.8 "${shared[@]}" -DLINKS -Wl,-soname,libcuinj64.so.11.8 "$lib"
  object libaccinj64.so.11.8 "${shared[@]}" -DLINKS -Wl,-soname,libaccinj64.so.11.8 "$lib"
  cp "$lent/objects/libtorch_cpu-11.8.so" "$lent/objects/libtorch_cpu.so"
  object dede -DMAIN -L"$lent/objects" -l:libtorch_cpu.so -Wl,--allow-shlib-undefined '-Wl,--enable-new-dtags,-rpath,$ORIGIN/../lib'
  rm "$lent/objects/libtorch_cpu.so"
  lib=$parts/wheels/nvidia-cuda-cupti-cu12-12.4.127/nvidia/cuda_cupti/lib
  object libcaliper.so "${shared[@]}" -DLINKS -Wl,-soname,libcaliper.so "$lib/libcupti.so.12" \
    '-Wl,--enable-new-dtags,-rpath,/opt/spack/cuda-12.4.1-abc/lib64'
  object cali -DMAIN -L"$lent/objects" -l:libcaliper.so -Wl,--allow-shlib-undefined '-Wl,--enable-new-dtags,-rpath,$ORIGIN/../lib64'
  object in-folder -DMAIN -DLINKS "$lib/libcupti.so.12" -Wl,--allow-shlib-undefined '-Wl,--enable-new-dtags,-rpath,$ORIGIN'
  object libtorch_cpu-nvperf.so "${shared[@]}" -DLINKS -Wl,-soname,libtorch_cpu.so "$lib/libcupti.so.12" "$lib/libnvperf_host.so" "$rpath,"'$ORIGIN'
  object opens-11.8 -DMAIN '-DOPENS="libcupti.so.11.8"'
  object opens-11.8-plain -DMAIN '-DOPENS="libcupti.so.11.8","libcupti.so"'
  object opens-exact -DMAIN '-DOPENS="/opt/cuda/extras/CUPTI/lib64/libcupti.so.2024.1.0"'
  gcc -O1 -static -o "$lent/bin/enter" "$source/enter.c"
  gcc -O1 -o "$lent/bin/ask" "$source/ask.c"
}

cp -a "$parts"/wheels/nvidia-cuda-* "$lent/wheels/"
for library in nvperf_host nvperf_target checkpoint pcsamplingutil; do
  gcc -shared -nostdlib -x c /dev/null -Wl,-soname,lib$library.so -o "$lent/objects/lib$library.so"
  for file in "$lent"/wheels/nvidia-cuda-cupti*/nvidia/*/lib/lib$library.so; do
    cp --remove-destination "$lent/objects/lib$library.so" "$file"
  done
done
debian
venv
debian_pip
cupti_layer cupti-12.4 nvidia-cuda-cupti-cu12-12.4.127
debian_libcupti
uv
red_hat
system wolfi wolfi 20230201
rm "$kit"/layers/wolfi/usr/sbin/ldconfig
conda
channel 12.4.127 nvidia-cuda-cupti-cu12-12.4.127 libcupti.so.12 libcupti.so.2024.1.1
channel 12.8.90 nvidia-cuda-cupti-cu12-12.8.90 libcupti.so.12 libcupti.so.2025.1.1
alpine
for layer in debian venv debian-pip cupti-12.4 debian-libcupti uv red-hat wolfi conda alpine; do archive $layer; done
ln -s "$parts/wheels" "$kit/wheels"
cp "$source/steps.sh" "$lent/"
wheelhouse
repository
objects
