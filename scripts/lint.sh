#!/usr/bin/env bash
# Every static check; all run even when an earlier one fails.
set -euo pipefail
source "$(dirname "$0")/lib.sh"

step "cargo fmt" cargo fmt --all --check
step "cargo fmt, of what is fuzzed" cargo fmt --manifest-path fuzz/Cargo.toml --check
step "cargo clippy" cargo clippy --workspace --all-targets -- -D warnings
step "cargo doc" env RUSTDOCFLAGS="-D warnings" cargo doc --no-deps --workspace

if cargo deny --version >/dev/null 2>&1; then
  step "cargo deny" cargo deny check bans licenses sources
else
  say "cargo deny: left out, because cargo-deny is not installed (cargo install cargo-deny)"
fi

if command -v shellcheck >/dev/null; then
  step "shellcheck" shellcheck --external-sources --source-path=scripts scripts/*.sh docker/*.sh .ci/run
else
  say "shellcheck: left out, because shellcheck is not installed (apt-get install shellcheck)"
fi

python=$(find_python 11 12 13)
python=$(python_env lint "$python" -r scripts/requirements-lint.txt)
# The package's settings hold for all Python here; outside its directory they have to be named.
ruff() {
  "$python" -m ruff "$@" python && "$python" -m ruff "$@" tests/faults &&
    "$python" -m ruff "$@" --config python/pyproject.toml scripts tests/dask fuzz
}
step "ruff check" ruff check
step "ruff format" ruff format --check
step "mypy" env --chdir=python "$python" -m mypy

verdict
say "lint passed"
