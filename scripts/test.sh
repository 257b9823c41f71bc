#!/usr/bin/env bash
# Builds everything, starts what the tests need and runs every test. All runners run even when an earlier
# one fails; the last line sums what they counted themselves.
set -euo pipefail
source "$(dirname "$0")/lib.sh"

if [[ -z ${GALVO_TEST_DATABASE_URL:-} || -z ${GALVO_TEST_REDIS_URL:-} ]]; then
  exec scripts/with-services.sh "$0" "$@"
fi
clean_up_at_exit

# They come over the network while the compiler computes.
# shellcheck disable=SC2016  # expanded by the inner shell
background packages bash -euc '
  source scripts/lib.sh
  scripts/python-envs.sh >"$0"
  for directory in tests/graphql-js tests/live-js tests/oidc; do node_packages "$directory"; done
' "$workdir/exports"
packages=$!
say "building the workspace"
cargo build --workspace --all-targets
export GALVO_BIN=$target_dir/debug/galvo
say "waiting for the environments of Python and Node.js"
wait "$packages"
# shellcheck disable=SC1091  # made by scripts/python-envs.sh
source "$workdir/exports"

passed_total=0 failed_total=0

# Prints "passed failed skipped", summed over the closing lines of cargo's test runner ("test result: ok.
# 3 passed; 0 failed; 1 ignored; …"), of pytest ("== 1 failed, 3 passed in 0.12s ==", or without the
# rules when it is quiet) and of node's ("# pass 3", one line each; what is cancelled or still to do counts as
# failed and as skipped).
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

# runner COMMAND...: a step that fails as well when the runner counted no test at all or left one out: a
# missing part is an error.
runner() {
  local status=0 passed failed skipped log=$workdir/runner.out
  "$@" 2>&1 | tee "$log" || status=1
  read -r passed failed skipped <<<"$(counts "$log")"
  if ((skipped > 0)); then
    say "$skipped skipped: every test has to run here"
    failed=$((failed + skipped))
  elif ((passed + failed == 0)) || ((status > 0 && failed == 0)); then
    say "the runner failed outside its tests"
    failed=$((failed + 1))
  fi
  passed_total=$((passed_total + passed))
  failed_total=$((failed_total + failed))
  ((status == 0 && failed == 0))
}

# beside NAME COMMAND...: begins what `catch_up` then waits for.
beside() {
  background "$@"
  beside_names+=("$1")
  beside_pids+=("$!")
}

# catch_up: a step for each that was begun, in that order, as if it ran now.
beside_names=() beside_pids=()
catch_up() {
  local i ended
  for i in "${!beside_names[@]}"; do
    # Only this shell can wait for it, and runners are in others.
    wait "${beside_pids[i]}" && ended=0 || ended=$?
    step "${beside_names[i]}" runner told "$workdir/${beside_names[i]}.log"
    rm "$workdir/${beside_names[i]}.log"
  done
}
told() {
  cat "$1"
  return "$ended"
}

# They wait more than they compute: for each other, for databases and for time to pass. Each may have 8 connections of the 300
# that PostgreSQL takes here.
threads=$((4 * $(nproc)))
export RUST_TEST_THREADS=${RUST_TEST_THREADS:-$((threads < 24 ? threads : 24))}
# They, too, wait more than they compute, and need no more of all this than an interpreter.
for python in "$GALVO_TEST_PYTHON_OLDEST" "$GALVO_TEST_PYTHON_NEWEST" "$GALVO_TEST_PYTHON_OTHER"; do
  beside "Python tests, $("$python" -c 'import distributed, sys
print("Python", sys.version.split()[0], "and Dask", distributed.__version__)')" \
    "$python" -m pytest --color=no -rs python/tests
done
step "Rust tests, on SQLite" \
  runner env -u GALVO_TEST_DATABASE_URL cargo test --workspace --no-fail-fast
step "integration tests, on PostgreSQL" runner cargo test --package galvo-tests --no-fail-fast
catch_up
if [[ -n ${GALVO_TEST_CITUS_URL:-} ]]; then
  step "integration tests, on Citus" \
    runner env GALVO_TEST_DATABASE_URL="$GALVO_TEST_CITUS_URL" cargo test --package galvo-tests --no-fail-fast
fi
step "GraphQL beside the reference implementation, Node.js $(node --version)" \
  runner node --test --test-reporter=tap tests/graphql-js/*.test.js
step "subscriptions with published clients, Node.js $(node --version)" \
  runner node --test --test-reporter=tap tests/live-js/*.test.js
step "signing in with an OpenID provider, Node.js $(node --version)" \
  runner node --test --test-reporter=tap tests/oidc/*.test.js
step "the image, of the debug build" scripts/image.sh "$GALVO_BIN"
# Each worker has a server of its own. More of them keep two processors no busier.
step "end-to-end tests with real Dask" \
  runner "$GALVO_TEST_PYTHON_NEWEST" -m pytest --color=no -rs -n "$(($(nproc) + 1))" --dist loadfile tests/dask
command -v redis-server >/dev/null || install_packages redis-server
compgen -G '/usr/lib/*/faketime/libfaketimeMT.so.1' >/dev/null || install_packages faketime
# They mostly wait for outages to pass; what is measured under load comes last, alone.
step "what goes wrong: processes killed, databases and networks away" \
  runner "$GALVO_TEST_PYTHON_NEWEST" -m pytest --color=no -rs -n 3 --dist load -m "not alone" tests/faults
step "what goes wrong: more load than the server takes" \
  runner "$GALVO_TEST_PYTHON_NEWEST" -m pytest --color=no -rs -m alone tests/faults

result=passed
verdict || result=failed
printf '%d passed, %d failed\n' "$passed_total" "$failed_total"
[[ $result == passed ]]
