# The chores of this repository by name; CI runs `make test`, `make test-builds` and `make lint`.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.PHONY: test test-builds test-all isal parts environments static bench dist docs lint deny fuzz reproducible sbom

LOG := target/test.log
# Programs that tests/parts.sh gets lie behind those of the machine.
PARTS := $(abspath $(or $(CUPTI_AUDIT_PARTS),target/parts))
export PATH := $(PATH):$(PARTS)/mdbook:$(PARTS)/zizmor
# Where `make static` puts the program as docs/ci/Dockerfile compiles it.
MUSL := x86_64-unknown-linux-musl
STATIC := $(CURDIR)/target/$(MUSL)/debug/cupti-audit

# All tests but `test-builds`, with the lines in which they say what they compared with real programs, and the counts at the end.
test: parts static
	mkdir -p target
	static=; if [ -e $(STATIC) ]; then static=$(STATIC); fi; \
	status=0; CUPTI_AUDIT_STATIC=$$static cargo test --workspace --no-fail-fast -- --show-output 2>&1 | tee $(LOG) || status=$$?; \
	tests/counts.sh $(LOG); exit $$status

# What takes minutes, and has to hold at every merge all the same: the Dockerfiles that the program writes, built by the
# engine's two builders, and gzip by ISA-L, as the program that is shipped for x86-64 has it, against zlib-rs.
test-builds: parts isal
	mkdir -p target
	status=0; cargo test --test dockerfile --no-fail-fast \
	  -- --ignored --show-output 2>&1 | tee $(LOG).builds || status=$$?; \
	tests/counts.sh $(LOG).builds; exit $$status

isal: parts
	@if command -v nasm >/dev/null && [ "$$(uname -m)" = x86_64 ]; then \
	  cp Cargo.lock crates/isal-inflate/Cargo.lock; \
	  cargo clippy --manifest-path crates/isal-inflate/Cargo.toml --target-dir target/isal --all-targets -- -D warnings; \
	  cargo test --manifest-path crates/isal-inflate/Cargo.toml --target-dir target/isal; \
	  cargo test --package image-linkage --features isal --lib layer::; \
	else echo "isal: nasm is missing, or this is no x86-64"; fi

# Everything, and that with the real PyTorch, JAX and TensorFlow, which are some gigabytes: see tests/environments.sh.
# Then whether the package index has releases that profiles/cupti does not know.
test-all: environments
	$(MAKE) --no-print-directory test test-builds CUPTI_AUDIT_ALL=1
	cargo xtask refresh --check

environments: parts
	tests/environments.sh

# The real parts that some tests compare with: see tests/parts.sh.
parts:
	tests/parts.sh

# The program without a library that it needs, for tests/command_line/ci.rs; where musl or Rust's target for it is missing, none.
static: parts
	@rm -f $(STATIC)
	@if command -v musl-gcc >/dev/null && [ -d "$$(rustc --print sysroot)/lib/rustlib/$(MUSL)" ]; then \
	  CARGO_PROFILE_DEV_DEBUG=false cargo build --locked --bin cupti-audit --target $(MUSL); \
	else echo "static: musl-gcc or Rust's target $(MUSL) is missing"; fi

# How long an audit takes by the program as it is shipped, against decompressing alone and against other tools, and the
# instructions of its stages: see tests/bench.py and docs/speed.md.
bench: parts
	cargo build --profile dist --bin cupti-audit --features "$(if $(filter x86_64,$(shell uname -m)),isal)"
	python3 -B tests/bench.py

# What a release holds for this processor, offline, into target/dist: see packaging/dist.sh.
dist:
	packaging/dist.sh

# The site of docs/ into target/book, where mdbook is there; the tests see to its links and to what its blocks show.
docs:
	@if command -v mdbook >/dev/null; then mdbook build docs; else echo 'docs: mdbook is missing'; fi

lint:
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings
	cargo xtask fixtures --check
	cargo xtask docs --check
	cargo xtask layers --circles
	@$(MAKE) --no-print-directory docs
	@if command -v zizmor >/dev/null; then zizmor --offline --quiet action.yml docs/ci/github-actions.yml .github/workflows; fi
	@if command -v cargo-deny >/dev/null; then $(MAKE) --no-print-directory deny; fi

# The fuzz targets with libFuzzer, each for so many seconds; needs cargo-fuzz and a C++ compiler. The flags that it sets are
# those of a nightly compiler, which the pinned one takes when it is told to. What it finds goes into fuzz/kept/TARGET,
# where `make test` asks it again.
FUZZ_SECONDS ?= 300
FUZZ_TARGETS = $(shell sed -n 's/^name = "\([a-z_]*\)"$$/\1/p' fuzz/Cargo.toml)
FUZZ := RUSTC_BOOTSTRAP=1 cargo fuzz
fuzz:
	cp Cargo.lock fuzz/Cargo.lock
	$(FUZZ) build --sanitizer none
	for target in $(FUZZ_TARGETS); do \
	  mkdir -p fuzz/corpus/$$target; \
	  $(FUZZ) run --sanitizer none $$target fuzz/corpus/$$target $$(find fuzz/kept/$$target -maxdepth 0 2>/dev/null) -- \
	    -max_total_time=$(FUZZ_SECONDS) -rss_limit_mb=1024 -malloc_limit_mb=256 -timeout=60 -max_len=65536 -print_final_stats=1; \
	done

# Two builds of what is shipped, each from nothing: the same bytes have to come out.
reproducible:
	for turn in 1 2; do \
	  rm -rf target/reproducible; \
	  CARGO_INCREMENTAL=0 cargo build --locked --profile dist --bin cupti-audit --target-dir target/reproducible; \
	  cp target/reproducible/dist/cupti-audit target/cupti-audit.$$turn; \
	done
	sha256sum target/cupti-audit.1 target/cupti-audit.2
	cmp target/cupti-audit.1 target/cupti-audit.2

# What the program is made of, as CycloneDX, into target/cupti-audit.cdx.json.
sbom:
	packaging/sbom.py $(MUSL) "$$(git log -1 --format=%ct)" > target/cupti-audit.cdx.json

# Licences, advisories and duplicate versions of the dependencies; needs cargo-deny.
deny:
	cargo deny check
