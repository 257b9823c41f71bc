#!/usr/bin/env bash
# Repeats the fault tests of tests/faults for SOAK_MINUTES (60), each round with another random seed,
# which determines the times and lengths of the faults and the contents of the reports. The seed of each
# round is printed; FAULTS_SEED=N repeats one round, and SOAK_SEED=N all of them. SOAK_OUTPUT is a
# directory for the results, as rows and as the table of docs/reliability.md. The run ends with the first
# round that fails, unless SOAK_GO_ON=1. Afterwards the parsers of external input are fuzzed,
# SOAK_FUZZ_SECONDS (60) per target.
set -euo pipefail
source "$(dirname "$0")/lib.sh"

clean_up_at_exit
minutes=${SOAK_MINUTES:-60}
seed=${SOAK_SEED:-$RANDOM}

say "building"
cargo build --package galvo
export GALVO_BIN=$target_dir/debug/galvo
exports=$(scripts/python-envs.sh)
eval "$exports"
compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null || command -v initdb >/dev/null || install_packages postgresql
command -v redis-server >/dev/null || install_packages redis-server
compgen -G '/usr/lib/*/faketime/libfaketimeMT.so.1' >/dev/null || install_packages faketime

output=${SOAK_OUTPUT:-$workdir/soak}
mkdir -p "$output"
export FAULTS_RESULTS=$output/outcomes.jsonl
touch "$FAULTS_RESULTS"

faults() { "$GALVO_TEST_PYTHON_NEWEST" -m pytest --color=no -rfEs -p no:cacheprovider --basetemp="$workdir/faults" "$@" tests/faults; }

# With more time, faults last longer and are more frequent.
say "SOAK_SEED=$seed for $minutes minutes"
deadline=$((SECONDS + 60 * minutes)) round=0
while ((SECONDS < deadline)); do
  round=$((round + 1))
  export FAULTS_SEED=$((seed + round)) FAULTS_LENGTH=${FAULTS_LENGTH:-4}
  failures=${#failed_steps[@]}
  step "round $round, FAULTS_SEED=$FAULTS_SEED FAULTS_LENGTH=$FAULTS_LENGTH" faults -n 3 --dist load -m "not alone"
  step "round $round, overload" faults -m alone
  if ((${#failed_steps[@]} > failures)) && [[ ${SOAK_GO_ON:-} != 1 ]]; then break; fi
done

step "fuzzing, each target for ${SOAK_FUZZ_SECONDS:=60} s" scripts/fuzz.sh "$SOAK_FUZZ_SECONDS"

scripts/reliability_table.py "$FAULTS_RESULTS" | tee "$output/table.md"
verdict
say "$round rounds passed"
