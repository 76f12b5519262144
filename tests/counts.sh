#!/usr/bin/env bash
# Sums up the output of `cargo test -- --show-output`: what was compared with real programs, what was skipped,
# and how many tests ran.
set -euo pipefail

awk '
  / agree / || /^skipped:/ || /^not run:/ { lines[++count] = $0 }
  /^test result:/ { passed += $4; failed += $6; ignored += $8; targets++ }
  END {
    print ""
    for (line = 1; line <= count; line++) print lines[line]
    printf "%d tests passed, %d failed, %d ignored in %d targets\n", passed, failed, ignored, targets
  }
' "$1"
