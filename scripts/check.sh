#!/usr/bin/env bash
# The checks before each commit: formatting, clippy, and the Rust tests on SQLite. `make lint` and `make test` check
# everything else, also the modules of tests that are left out below.
set -euo pipefail
source "$(dirname "$0")/lib.sh"

# Some tests need Redis. PostgreSQL is not started if its URL is given, and no test uses it here.
if [[ -z ${GALVO_TEST_REDIS_URL:-} ]]; then
  exec env GALVO_TEST_DATABASE_URL=none scripts/with-services.sh "$0" "$@"
fi
step "cargo fmt" cargo fmt --all --check
step "cargo clippy" cargo clippy --workspace --all-targets -- -D warnings
# Tests also wait, so that more threads than processors are faster.
export RUST_TEST_THREADS=${RUST_TEST_THREADS:-$((2 * $(nproc)))}
unset GALVO_TEST_DATABASE_URL
step "unit tests" cargo test --workspace --no-fail-fast --lib --bins
# These modules try all fields, orders, roles or moments, or wait for time limits. They take half of the time.
skip_modules alert convergence coiled_list export::stream history hostile hostile_query in_place \
  isolation::every_field listed paging role shares
step "integration tests, on SQLite, without the exhaustive ones" \
  cargo test --workspace --no-fail-fast --test it -- "${skip[@]}"
print_times
verdict
