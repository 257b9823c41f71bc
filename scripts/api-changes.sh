#!/usr/bin/env bash
# api-changes.sh VERSION DIRECTORY: writes what changed in the GraphQL schema and in the REST API since the previous
# release, which is the latest tag such as v0.1.0 before this commit. The documents are those of the repository,
# schema.graphql and openapi.json.
set -euo pipefail
source "$(dirname "$0")/lib.sh"

(($# == 2)) || fail "usage: api-changes.sh VERSION DIRECTORY"
version=$1 directory=$(realpath "$2")
node_packages scripts/api-changes
clean_up_at_exit

# Not a candidate such as v0.2.0-rc1.
tags=(--match 'v[0-9]*' --exclude '*-*' --exclude "v$version")
previous=$(git describe --tags --abbrev=0 "${tags[@]}" 2>/dev/null) || previous=
[[ -n $previous || $(git rev-parse --is-shallow-repository) == false ]] ||
  fail "the history is incomplete: git fetch --unshallow --tags"

# write_changes API DOCUMENT NAME: compares a document with that of the previous release.
write_changes() {
  local old=()
  if [[ -n $previous ]]; then
    git show "$previous:$2" >"$workdir/old"
    old=("$workdir/old" "$previous")
  fi
  node scripts/api-changes/changes.js "$1" "$2" "${old[@]}" >"$directory/galvo-$version-$3-changes.md"
}
write_changes graphql schema.graphql schema
write_changes openapi openapi.json openapi
