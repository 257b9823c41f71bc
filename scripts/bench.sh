#!/usr/bin/env bash
# Builds for release, starts the services, runs every benchmark and prints one table; docs/benchmarks.md
# explains the table.
# BENCH_QUICK=1 takes about five minutes after the build, and is less exact.
# BENCH_ONLY names the benchmarks to run, separated by spaces: plugin-cost steady-report coiled-list
# large-account first-view ingest operations subscribers hostile identifiers start memory storage dashboard.
# BENCH_OUTPUT is a directory for the rows and tables, which are otherwise deleted.
# The exit status is 0 even if a target is missed: the table shows it.
set -euo pipefail
source "$(dirname "$0")/lib.sh"

if [[ -z ${GALVO_TEST_DATABASE_URL:-} ]]; then
  exec scripts/with-services.sh "$0" "$@"
fi
clean_up_at_exit

# Browsers measure the dashboard as the program embeds it.
if [[ " ${BENCH_ONLY:-dashboard} " == *" dashboard "* || " ${BENCH_ONLY:-} " == *" large-account "* ]]; then
  need_node
  need_chromium
  build_dashboard
fi
# PostGraphile needs a newer Node.js than the dashboard, which keeps its own.
if [[ " ${BENCH_ONLY:-operations} " == *" operations "* ]]; then
  BENCH_NODE=$({ use_node 22.0 && node_packages bench/postgraphile; } >&2 && command -v node) ||
    say "the operations are not compared with PostGraphile, because Node.js 22 or its packages are missing"
  export BENCH_NODE
fi
say "building for speed"
cargo build --release --package galvo --package galvo-bench
bench=$target_dir/release/galvo-bench
# Thousands of sockets, each with two ends.
ulimit -n "$(ulimit -Hn)"
exports=$(scripts/python-envs.sh)
eval "$exports"
# The installed package may be that of another worktree.
export PYTHONPATH=$root/python/src
python=$GALVO_TEST_PYTHON_NEWEST

output=${BENCH_OUTPUT:-$workdir/bench}
mkdir -p "$output"
export BENCH_ROWS=$output/rows.jsonl
rm -f "$BENCH_ROWS"

if [[ ${BENCH_QUICK:-} == 1 ]]; then
  plugin_cost=(--rounds 1 --tasks 4000 --slices 8)
  steady_report=(--reports 2 --interval 10)
  coiled_list=(--clusters 1000 --rounds 1)
  large_account=(--clusters 10000 --users 20 --rounds 2)
  first_view=(--rounds 10)
  ingest=(--clusters 32 --reports 20 --rounds 2)
  hostile=(--rounds 5)
  identifiers=(--rounds 500)
  operations=(--scale 3 --rounds 2 --seconds 1)
  subscribers=(--subscribers "200,1000" --seconds 5)
  start=(--rounds 3 --idle-seconds 5)
  memory=(--clusters "50,200" --reports 2 --repetitions 4)
  storage=(--hours 3)
  dashboard=(--loads 3 --rounds 5 --updates 40)
else
  plugin_cost=(--rounds 3)
  steady_report=(--reports 12)
  coiled_list=()
  large_account=()
  first_view=()
  ingest=(--clusters 64 --reports 60 --rounds 5)
  hostile=(--rounds 20)
  identifiers=(--rounds 2000)
  operations=(--scale 10 --rounds 5 --seconds 3)
  subscribers=(--subscribers "1000,5000" --seconds 20)
  start=(--rounds 20 --idle-seconds 60)
  memory=(--clusters "200,1000,2000" --reports 5 --repetitions 6)
  storage=(--hours 24)
  dashboard=(--loads 15 --rounds 20 --updates 240)
fi

# measure NAME COMMAND...: runs the step, unless BENCH_ONLY names others.
measure() {
  local name=$1
  shift
  if [[ " ${BENCH_ONLY:-$name} " == *" $name "* ]]; then step "$name" "$@"; fi
}

measure plugin-cost "$python" python/bench/plugin_cost.py "${plugin_cost[@]}"
measure steady-report "$python" python/bench/steady_report.py "${steady_report[@]}"
GALVO_BIN=$target_dir/release/galvo measure coiled-list "$python" python/bench/coiled_list.py "${coiled_list[@]}"
GALVO_BIN=$target_dir/release/galvo measure large-account "$python" python/bench/large_account.py "${large_account[@]}"
GALVO_BIN=$target_dir/release/galvo measure first-view "$python" python/bench/first_view.py "${first_view[@]}"
measure ingest "$bench" ingest "${ingest[@]}"
measure hostile "$bench" hostile "${hostile[@]}"
measure operations "$bench" operations "${operations[@]}"
measure subscribers "$bench" subscribers "${subscribers[@]}"
measure identifiers "$bench" identifiers "${identifiers[@]}"
measure start "$bench" start "${start[@]}"
measure memory "$bench" memory "${memory[@]}"
measure storage "$bench" storage "${storage[@]}" --markdown "$output/storage.md"
if [[ ${BENCH_QUICK:-} != 1 ]]; then
  measure storage "$bench" storage "${storage[@]}" --worker-samples --markdown "$output/storage_workers.md"
fi
EMBEDDED=1 GALVO_BIN=$target_dir/release/galvo GALVO_PYTHON=$python \
  measure dashboard node web/bench/dashboard.js "${dashboard[@]}"

scripts/bench_table.py "$BENCH_ROWS" "$output/table.md"
# A benchmark that could not run is a failure; a missed target is a result.
verdict
