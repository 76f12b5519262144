# The chores of this repository by name; CI runs `make test` and `make lint`.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.PHONY: test test-all parts environments lint deny

LOG := target/test.log

# All tests, with the lines in which they say what they compared with real programs, and the counts at the end.
test: parts
	mkdir -p target
	status=0; cargo test --workspace --no-fail-fast -- --show-output 2>&1 | tee $(LOG) || status=$$?; \
	tests/counts.sh $(LOG); exit $$status

# The same with the real PyTorch, JAX and TensorFlow, which are some gigabytes: see tests/environments.sh.
test-all: environments
	$(MAKE) --no-print-directory test CUPTI_AUDIT_ALL=1

environments: parts
	tests/environments.sh

# The real parts that some tests compare with: see tests/parts.sh.
parts:
	tests/parts.sh

lint:
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings
	cargo xtask fixtures --check
	cargo xtask docs --check
	@if command -v cargo-deny >/dev/null; then $(MAKE) --no-print-directory deny; fi

# Licences, advisories and duplicate versions of the dependencies; needs cargo-deny.
deny:
	cargo deny check
