#!/usr/bin/env bash
# Builds everything, starts the services and runs every test. All runners run even when an earlier one
# fails; the last line sums the runners' own counts.
set -euo pipefail
source "$(dirname "$0")/lib.sh"

if [[ -z ${GALVO_TEST_DATABASE_URL:-} || -z ${GALVO_TEST_REDIS_URL:-} ]]; then
  exec scripts/with-services.sh "$0" "$@"
fi
clean_up_at_exit

need_node
# The packages are downloaded while the compiler runs.
# shellcheck disable=SC2016  # expanded by the inner shell
background packages bash -euc '
  source scripts/lib.sh
  scripts/python-envs.sh >"$0"
  for directory in scripts/api-changes tests/graphql-js tests/live-js tests/oidc web; do node_packages "$directory"; done
  python_env packages "$(find_python 11 12 13)" -r tests/packaging/requirements.txt >/dev/null
  # If it fails, the tests that need it make it again, and report why they cannot.
  scripts/empty-root.sh true || true
' "$workdir/exports"
packages=$!

# beside NAME COMMAND...: starts a runner in the background; `catch_up` waits for it.
beside() {
  background "$@"
  beside_names+=("$1")
  beside_pids+=("$!")
}

# catch_up: runs a step for each background runner, in the order of their starts, as if it ran now.
beside_names=() beside_pids=()
catch_up() {
  local i ended
  for i in "${!beside_names[@]}"; do
    # Only this shell can wait for it, and runners are in other shells.
    wait "${beside_pids[i]}" && ended=0 || ended=$?
    step "${beside_names[i]}" runner replay "$workdir/${beside_names[i]}.log"
    rm "$workdir/${beside_names[i]}.log"
  done
  beside_names=() beside_pids=()
}
replay() {
  cat "$1"
  return "$ended"
}

# A test that hangs fails by itself and says where, instead of using up the time of all others. A runner that does not
# end after its tests is ended.
export PYTEST_TIMEOUT=600
unit_limits=(env PYTEST_TIMEOUT=120 timeout --kill-after 10 40m)

# The tests of the Python package need only an interpreter, and mostly wait. They begin as soon as the environments are
# there, one Python after the other: many tests give a cluster only seconds. The end-to-end tests run the package on the
# third Python.
previous=$packages
for python in "OLDEST the oldest Python and Dask" "OTHER the newest Dask on another Python"; do
  # shellcheck disable=SC2016  # expanded by the inner shell
  beside "Python tests, ${python#* }" bash -euc '
    while kill -0 "$1" 2>/dev/null; do sleep 1; done
    source "$2"
    python=$3
    shift 3
    exec "$@" "${!python}" -m pytest --color=no -rfEs --durations=20 --durations-min=1 python/tests
  ' - "$previous" "$workdir/exports" "GALVO_TEST_PYTHON_${python%% *}" "${unit_limits[@]}"
  previous=${beside_pids[-1]}
done

# The server's program embeds the dashboard.
step "the dashboard's build" build_dashboard
say "building the workspace"
begun=$SECONDS
cargo build --workspace --all-targets
took "build of the workspace" "$begun"
export GALVO_BIN=$target_dir/debug/galvo
say "waiting for the environments of Python and Node.js"
wait "$packages"
# shellcheck disable=SC1091  # made by scripts/python-envs.sh
source "$workdir/exports"

passed_total=0 failed_total=0
failed_tests=()

# Prints "passed failed skipped", summed over the closing lines of cargo's test runner ("test result: ok.
# 3 passed; 0 failed; 1 ignored; …"), of pytest ("== 1 failed, 3 passed in 0.12s ==", or without the
# rules if it is quiet) and of node's ("# pass 3", one line each; cancelled tests count as failed, and
# todo tests as skipped).
counts() {
  awk '
    /^test result: / || /^(=+ )?[0-9]+ [a-z]+.* in [0-9.]+s/ {
      for (i = 2; i <= NF; i++) {
        word = $i
        gsub(/[^a-z]/, "", word)
        if (word == "passed") passed += $(i - 1)
        if (word == "failed" || word ~ /^errors?$/) failed += $(i - 1)
        if (word == "ignored" || word == "skipped") skipped += $(i - 1)
      }
    }
    /^# (pass|fail|cancelled|skipped|todo) [0-9]+$/ {
      if ($2 == "pass") passed += $3
      if ($2 == "fail" || $2 == "cancelled") failed += $3
      if ($2 == "skipped" || $2 == "todo") skipped += $3
    }
    END { print passed + 0, failed + 0, skipped + 0 }
  ' "$1"
}

# Prints the names of the tests that failed, as each of the three runners reports them.
failures() {
  sed -nE -e 's/^test (.*) \.\.\. FAILED.*/\1/p' -e '/^(FAILED|ERROR) [^ ]+::/{s/^[A-Z]+ //;s/ - .*//;p}' \
    -e 's/^ *not ok [0-9]+ - (.*[^ ]) *(# .*)?$/\1/p' "$1" | awk '!seen[$0]++'
}

# Prints the twenty slowest tests of cargo's test runner. pytest and node print theirs.
slowest() {
  local found
  found=$(sed -nE 's/^test (.*) \.\.\. (ok|FAILED) <([0-9.]+)s>$/\3 s  \1/p' "$1" | sort -rn | head -20)
  if [[ -n $found ]]; then printf 'the slowest tests:\n%s\n' "$found"; fi
}

# runner COMMAND...: a step that fails as well when the runner counted no test at all or left one out: a
# missing part is an error.
runner() {
  local status=0 passed failed skipped names log=$workdir/runner.out
  "$@" 2>&1 | tee "$log" || status=1
  read -r passed failed skipped <<<"$(counts "$log")"
  mapfile -t names < <(failures "$log")
  failed_tests+=("${names[@]}")
  if ((skipped > 0)); then
    say "$skipped skipped: every test has to run here"
    failed=$((failed + skipped))
  elif ((passed + failed == 0)) || ((status > 0 && failed == 0)); then
    say "the runner failed outside its tests"
    failed=$((failed + 1))
  fi
  slowest "$log"
  passed_total=$((passed_total + passed))
  failed_total=$((failed_total + failed))
  ((status == 0 && failed == 0))
}

# The checks of the dashboard that need no server.
dashboard() {
  (cd web && npm test --silent && npm run --silent size)
}

# More threads would not use two processors better, and each test would wait until its server times out. Each
# may have 8 connections of the 300 that PostgreSQL accepts here.
threads=$((2 * $(nproc)))
export RUST_TEST_THREADS=${RUST_TEST_THREADS:-$((threads < 24 ? threads : 24))}
# Cargo's test runner reports times only as an unstable option. Cargo itself does not see the variable, or it
# would build everything again.
host=$(rustc -vV | sed -n 's/^host: //p' | tr 'a-z-' 'A-Z_')
export "CARGO_TARGET_${host}_RUNNER=env RUSTC_BOOTSTRAP=1"
times=(-Z unstable-options --report-time)

step "Rust tests, on SQLite" \
  runner env -u GALVO_TEST_DATABASE_URL cargo test --workspace --no-fail-fast --lib --bins --tests -- "${times[@]}"
step "tests of the documentation" runner cargo test --workspace --doc
# These modules have no SQL of their own. They pass or fail alike on both databases, and ran on SQLite above.
skip_modules compression dashboard docs graphql_guard hostile_query house_rules oidc prefix preload schema sdl socket tls \
  traces transport
step "integration tests, on PostgreSQL" \
  runner cargo test --workspace --no-fail-fast --test it -- "${times[@]}" "${skip[@]}"
catch_up
if [[ -n ${GALVO_TEST_CITUS_URL:-} ]]; then
  step "integration tests, on Citus" \
    runner env GALVO_TEST_DATABASE_URL="$GALVO_TEST_CITUS_URL" \
    cargo test --workspace --no-fail-fast --test it -- "${times[@]}"
fi
step "GraphQL beside the reference implementation, Node.js $(node --version)" \
  runner node --test --test-reporter=tap tests/graphql-js/*.test.js
step "subscriptions with published clients, Node.js $(node --version)" \
  runner node --test --test-reporter=tap tests/live-js/*.test.js
step "signing in with an OpenID provider, Node.js $(node --version)" \
  runner node --test --test-reporter=tap tests/oidc/*.test.js
step "the dashboard: types, unit tests, budget" dashboard
step "the image, of the debug build" scripts/image.sh "$GALVO_BIN"
[[ -n $(PATH=$PATH:/usr/sbin command -v nginx) ]] || install_packages nginx
need_chromium
# The pages are those of the server's program. Each processor has one file at a time.
step "the dashboard in a browser, with real Dask clusters" \
  runner env DEMO_PROGRAM="$GALVO_BIN" DEMO_PORT=0 EMBEDDED=1 LIVE_SECONDS=3600 \
  web/tests/demo.sh node --test --test-concurrency="$(nproc)" --test-reporter=tap web/tests/*.spec.js
# Each pytest worker has its own server. More workers do not use two processors better.
step "end-to-end tests with real Dask" \
  runner "$GALVO_TEST_PYTHON_NEWEST" -m pytest --color=no -rfEs --durations=20 -n "$(($(nproc) + 1))" --dist loadfile tests/dask
command -v redis-server >/dev/null || install_packages redis-server
compgen -G '/usr/lib/*/faketime/libfaketimeMT.so.1' >/dev/null || install_packages faketime
# These tests mostly wait for the end of outages; the measurements under load run last and alone.
beside "packages: chart, unit, release" scripts/packages.sh
step "what goes wrong: processes killed, databases and networks away" \
  runner "$GALVO_TEST_PYTHON_NEWEST" -m pytest --color=no -rfEs --durations=20 -n 3 --dist load -m "not alone" tests/faults
catch_up
step "what goes wrong: more load than the server takes" \
  runner "$GALVO_TEST_PYTHON_NEWEST" -m pytest --color=no -rfEs --durations=20 -m alone tests/faults

print_times
result=passed
verdict || result=failed
if ((${#failed_tests[@]})); then printf 'failed test: %s\n' "${failed_tests[@]}"; fi
printf '%d passed, %d failed\n' "$passed_total" "$failed_total"
[[ $result == passed ]]
