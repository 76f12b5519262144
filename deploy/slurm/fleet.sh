#!/bin/sh
# sbatch --array=0-9 fleet.sh WORKLIST OUT [OPTIONS of cupti-audit fleet run]
#
# Each array task audits one share. To repeat failed tasks, give their numbers and the original number of shares:
# CUPTI_AUDIT_SHARDS=10 sbatch --array=3,7 fleet.sh WORKLIST OUT
#SBATCH --job-name=cupti-fleet
#SBATCH --cpus-per-task=2
#SBATCH --mem=1G
#SBATCH --requeue
#SBATCH --open-mode=append
set -eu
work=$1 out=$2
shift 2
exec "${CUPTI_AUDIT:-cupti-audit}" fleet run "$work" --out "$out" --cache-dir "${CUPTI_AUDIT_CACHE_DIR:-$out/cache}" "$@"
