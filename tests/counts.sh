#!/usr/bin/env bash
# Sums up the output of `cargo test -- --show-output`: what was compared with real programs, what was skipped, the
# hostile inputs of which every test passed, why tests failed, and how many ran.
set -euo pipefail

cd "$(dirname "$0")/.."
awk '
  # The number that stands before these words.
  function before(words,  list, length_of) {
    split($0, list, words); length_of = split(list[1], list, " "); return list[length_of] + 0
  }
  function most(one, other) { return one > other ? one : other }
  FNR == NR {
    if (!/^#/) { split($0, field, "\t"); row[++rows] = field[1]; tests[rows] = field[3] }
    next
  }
  /^failures:$/ { in_failures = 1 }
  /^(successes|test result):/ { in_failures = 0 }
  in_failures && /^thread .* panicked at / { told = 0; tells = 1 }
  /^(stack backtrace:|note: run with )/ { tells = 0 }
  in_failures && tells && NF && told++ < 8 { why[++reasons] = substr($0, 1, 600) }
  / agree / || /^(new cases|skipped|not run|budget|fuzz|interrupts):/ { lines[++count] = $0 }
  /^budget: / { budgets++; slowest = most(slowest, before(" s, ")); largest = most(largest, before(" MiB")) }
  /^fuzz: / { targets_fuzzed++; executions += before(" executions") }
  /^interrupts: / { tried += before(" tried"); clean += before(" clean") }
  /panicked at (src|crates)\// && !/\/tests\// { panics++ }
  /^test .* \.\.\. ok$/ { name = $2; sub(/.*::/, "", name); passed_test[name] = 1 }
  /^test result:/ { passed += $4; failed += $6; ignored += $8; targets++ }
  END {
    print ""
    for (line = 1; line <= count; line++) print lines[line]
    for (at = 1; at <= rows; at++) {
      wanted = split(tests[at], list, " ")
      held = 1
      for (test = 1; test <= wanted; test++) if (!(list[test] in passed_test)) held = 0
      if (held) whole++; else open = open " " row[at]
    }
    # The log of a few targets has none of these.
    if (whole + budgets + targets_fuzzed + tried > 0) {
      printf "hostile inputs: %d of %d held%s\n", whole, rows, open == "" ? "" : "; not:" open
      printf "budgets: %d rows, at most %d s of a processor and %d MiB each\n", budgets, slowest, largest
      printf "fuzz: %d executions of %d targets\n", executions, targets_fuzzed
      printf "interrupts: %d of %d clean\n", clean, tried
    }
    for (reason = 1; reason <= reasons; reason++) print why[reason]
    printf "panics of the program: %d\n", panics
    printf "%d tests passed, %d failed, %d ignored in %d targets\n", passed, failed, ignored, targets
  }
' testdata/hostile-rows.tsv "$1"
