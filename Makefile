# CI runs `make test`, `make test-builds` and `make lint`: see .ci/run.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.PHONY: test test-builds test-all field isal parts environments static bench dist docs lint deny fuzz reproducible sbom

LOG := target/test.log
# Programs of tests/parts.sh come after those of the machine.
PARTS := $(abspath $(or $(CUPTI_AUDIT_PARTS),target/parts))
export PATH := $(PATH):$(PARTS)/mdbook:$(PARTS)/zizmor:$(PARTS)/maturin/maturin
# The output of `make static`, compiled as in docs/ci/Dockerfile.
MUSL := x86_64-unknown-linux-musl
STATIC := $(CURDIR)/target/$(MUSL)/debug/cupti-audit
WHEELS := $(CURDIR)/target/wheels

# All tests except `test-builds`, with some generated cases that are new in each run. Prints what was compared with real
# programs, and the counts at the end.
test: parts static
	mkdir -p target
	static=; if [ -e $(STATIC) ]; then static=$(STATIC); fi; \
	wheel=; if [ -e $(WHEELS) ]; then wheel=$$(echo $(WHEELS)/*.whl); fi; \
	export CUPTI_AUDIT_STATIC=$$static CUPTI_AUDIT_WHEEL=$$wheel CUPTI_AUDIT_NEW_CASES=$${CUPTI_AUDIT_NEW_CASES:-$$(date +%s)}; \
	status=0; { echo "new cases: from $$CUPTI_AUDIT_NEW_CASES on; the variable CUPTI_AUDIT_NEW_CASES asks for them again"; \
	  tests/in_memory.sh cargo test --workspace --no-fail-fast -- --show-output 2>&1; } | tee $(LOG) || status=$$?; \
	tests/counts.sh $(LOG); exit $$status

# Slow tests that CI runs for every merge: builds the generated Dockerfiles with both builders of Docker, and compares ISA-L
# with zlib-rs.
test-builds: parts isal
	mkdir -p target
	status=0; tests/in_memory.sh cargo test --test dockerfile --no-fail-fast \
	  -- --ignored --show-output 2>&1 | tee $(LOG).builds || status=$$?; \
	tests/counts.sh $(LOG).builds; exit $$status

isal: parts
	@if command -v nasm >/dev/null && [ "$$(uname -m)" = x86_64 ]; then \
	  cp Cargo.lock crates/isal-inflate/Cargo.lock; \
	  export CARGO_PROFILE_DEV_OPT_LEVEL=2; \
	  cargo clippy --manifest-path crates/isal-inflate/Cargo.toml --target-dir target/isal --all-targets -- -D warnings; \
	  cargo test --manifest-path crates/isal-inflate/Cargo.toml --target-dir target/isal; \
	  unset CARGO_PROFILE_DEV_OPT_LEVEL; \
	  cargo test --package image-linkage --features isal --lib layer::; \
	else echo "isal: nasm is missing, or this machine is not x86-64"; fi

# All tests, also with the real PyTorch, JAX and TensorFlow (gigabytes of downloads: see tests/environments.sh). Then checks
# whether the package index has releases that profiles/cupti does not know.
test-all: environments
	$(MAKE) --no-print-directory test test-builds CUPTI_AUDIT_ALL=1
	cargo xtask refresh --check

environments: parts
	tests/environments.sh

# Installs what people run, breaks it, and runs the printed fixes: see tests/field/run.py. STACK=vllm tries one stack.
# Takes hours and up to 25 GB of disk, needs root, and writes docs/field.md. Not part of the other tests.
field: parts
	cargo build --release --locked --bin cupti-audit
	unshare --mount --propagation private python3 -B tests/field/run.py $(STACK)

# Downloads the programs and libraries that tests compare with: see tests/parts.sh.
parts:
	tests/parts.sh

# The static program for tests/command_line/ci.rs, and the same in a wheel for wheel.rs there. Skipped if musl or Rust's
# target for it is missing.
static: export CARGO_PROFILE_DEV_DEBUG := false
static: parts
	@rm -rf $(STATIC) $(WHEELS)
	@if ! command -v musl-gcc >/dev/null || ! [ -d "$$(rustc --print sysroot)/lib/rustlib/$(MUSL)" ]; then \
	  echo "static: musl-gcc or Rust's target $(MUSL) is missing"; \
	elif command -v maturin >/dev/null; then packaging/wheel.sh $(MUSL) dev "" $(WHEELS); \
	else cargo build --locked --bin cupti-audit --target $(MUSL); fi

# Measures the program of a release against plain decompression and other tools, and counts the instructions of its
# stages: see tests/bench.py and docs/speed.md.
bench: parts dist
	python3 -B tests/bench.py

# Builds the files of a release for this processor, offline, into target/dist: see packaging/dist.sh.
dist:
	packaging/dist.sh

# Builds the site of docs/ into target/book, if mdbook is installed. Tests check its links and shown output.
docs:
	@if command -v mdbook >/dev/null; then mdbook build docs; else echo 'docs: mdbook is missing'; fi

# Needs no network once the dependencies are downloaded, except for `deny` in CI.
lint:
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings
	cargo xtask fixtures --check
	cargo xtask docs --check
	cargo xtask layers --circles
	cargo xtask style --check
	@$(MAKE) --no-print-directory docs
	@if command -v zizmor >/dev/null; then zizmor --offline --quiet action.yml docs/ci/github-actions.yml .github/workflows; fi
	@if [ -n "$${CI:-}" ] && command -v cargo-deny >/dev/null; then $(MAKE) --no-print-directory deny; fi

# Runs each fuzz target with libFuzzer for FUZZ_SECONDS. Needs cargo-fuzz and a C++ compiler. RUSTC_BOOTSTRAP lets the pinned
# compiler accept nightly flags. Put a failing input into fuzz/seeds/TARGET; `make test` runs it again.
FUZZ_SECONDS ?= 300
FUZZ_TARGETS = $(shell sed -n 's/^name = "\([a-z_]*\)"$$/\1/p' fuzz/Cargo.toml)
FUZZ := RUSTC_BOOTSTRAP=1 cargo fuzz
fuzz:
	cp Cargo.lock fuzz/Cargo.lock
	$(FUZZ) build --sanitizer none
	for target in $(FUZZ_TARGETS); do \
	  mkdir -p fuzz/corpus/$$target; \
	  $(FUZZ) run --sanitizer none $$target fuzz/corpus/$$target $$(find fuzz/seeds/$$target -maxdepth 0 2>/dev/null) -- \
	    -max_total_time=$(FUZZ_SECONDS) -rss_limit_mb=1024 -malloc_limit_mb=256 -timeout=60 -max_len=65536 -print_final_stats=1; \
	done

# Builds the released program twice from scratch and compares the bytes.
reproducible:
	for turn in 1 2; do \
	  rm -rf target/reproducible; \
	  CARGO_INCREMENTAL=0 cargo build --locked --profile dist --bin cupti-audit --target-dir target/reproducible; \
	  cp target/reproducible/dist/cupti-audit target/cupti-audit.$$turn; \
	done
	sha256sum target/cupti-audit.1 target/cupti-audit.2
	cmp target/cupti-audit.1 target/cupti-audit.2

# Writes a CycloneDX SBOM to target/cupti-audit.cdx.json.
sbom:
	packaging/sbom.py $(MUSL) "$$(git log -1 --format=%ct)" > target/cupti-audit.cdx.json

# Checks licenses, advisories and duplicate versions of dependencies. Needs cargo-deny and the network.
deny:
	cargo deny check
