#!/usr/bin/env bash
# The checks before each commit: formatting, clippy, and the Rust tests on SQLite. `make lint` and `make test` check
# everything else.
set -euo pipefail
source "$(dirname "$0")/lib.sh"

# Some tests need Redis. PostgreSQL is not started if its URL is given, and no test uses it here.
if [[ -z ${GALVO_TEST_REDIS_URL:-} ]]; then
  exec env GALVO_TEST_DATABASE_URL=none scripts/with-services.sh "$0" "$@"
fi
step "cargo fmt" cargo fmt --all --check
step "cargo clippy" cargo clippy --workspace --all-targets -- -D warnings
step "Rust tests, on SQLite" \
  env -u GALVO_TEST_DATABASE_URL cargo test --workspace --no-fail-fast --lib --bins --tests
print_times
verdict
