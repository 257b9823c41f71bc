#!/usr/bin/env bash
# release.sh VERSION [DIRECTORY]: lays out what a release consists of, by default in dist: the wheels, the
# server's program with its unit, the container image, the Helm chart, the GraphQL schema, the description of
# the REST API, what changed in both and for users, the bill of materials, and the checksums of all. VERSION
# has to be that of the sources. GALVO_SERVER_BIN is a server's program that is already built; otherwise the
# dashboard and a release build are made. The same sources and program give the same files.
set -euo pipefail
source "$(dirname "$0")/lib.sh"

version=${1:-}
[[ -n $version ]] || fail "usage: release.sh VERSION [DIRECTORY]"
directory=$(realpath -m "${2:-dist}")

# version_of FILE EXPRESSION: fails unless the expression finds this version in the file.
version_of() {
  local found
  found=$(sed -nE "s/$2/\\1/p" "$1" | head -n 1)
  [[ $found == "$version" ]] || fail "$1 has the version ${found:-that is not found}, and not $version"
}
version_of Cargo.toml '^version = "([^"]+)"'
version_of python/src/galvo/plugin/settings.py '^VERSION = "([^"]+)"'
version_of docker/helm/galvo/Chart.yaml '^version: (.+)'
version_of docker/helm/galvo/Chart.yaml '^appVersion: (.+)'
version_of docker/api.Dockerfile '.*org\.opencontainers\.image\.version="([^"]+)".*'

[[ ! -e $directory || -z $(ls -A "$directory") ]] || fail "$directory is not empty"
mkdir -p "$directory"
clean_up_at_exit
umask 022

# The time of files in archives. Compilers of C have it for the present time, which a library puts into the program.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH

# Builds the program for release. Messages of panics contain paths of the sources: those of this machine do not
# concern anybody else, and the program would differ in another directory.
build() {
  local cargo_home=${CARGO_HOME:-$HOME/.cargo} path rust='' c=''
  for path in "$root=/galvo" "$target_dir=/galvo/target" "$cargo_home=/cargo"; do
    rust+=${rust:+$'\x1f'}--remap-path-prefix=$path
    c+=" -ffile-prefix-map=$path"
  done
  CARGO_ENCODED_RUSTFLAGS=$rust CFLAGS="${CFLAGS:-}$c" \
    cargo build --locked --release --package galvo --bin galvo
  for path in "$root/" "$cargo_home/"; do
    ! grep -qaF "$path" "$target_dir/release/galvo" || fail "the program contains the path $path"
  done
}
if [[ -z ${GALVO_SERVER_BIN:-} ]]; then
  need_node
  build_dashboard
  say "building for release"
  build
  GALVO_SERVER_BIN=$target_dir/release/galvo
fi
GALVO_SERVER_BIN=$(realpath "$GALVO_SERVER_BIN")
REVISION=$(git rev-parse HEAD)
export GALVO_SERVER_BIN REVISION

# archive PATH FILE: archives a directory. The same files give the same archive.
archive() {
  tar --create --directory="$(dirname "$1")" --sort=name --owner=0 --group=0 --numeric-owner \
    --mode=u=rwX,go=rX --mtime="@$SOURCE_DATE_EPOCH" "$(basename "$1")" | gzip -n >"$2"
}

# same COMMITTED MADE HOW: fails if a document of the repository is not the one of the program.
same() { cmp -s "$1" "$2" || fail "$1 is not that of the program: $3"; }

say "the APIs"
env --ignore-environment "$GALVO_SERVER_BIN" schema >"$workdir/schema"
same schema.graphql "$workdir/schema" "galvo schema > schema.graphql"
scripts/openapi.sh "$workdir/openapi"
same openapi.json "$workdir/openapi" "scripts/openapi.sh"
cp schema.graphql "$directory/galvo-$version.graphql"
cp openapi.json "$directory/galvo-$version.openapi.json"
scripts/api-changes.sh "$version" "$directory"

# Prints the part of the changelog with a heading, without blank lines at its ends.
changes() {
  awk -v heading="## [$1]" '
    /^## / { inside = index($0, heading) == 1; next }
    inside && (NF || begun) { if (NF) { printf "%s%s\n", blank, $0; blank = "" } else { blank = blank "\n" } begun = 1 }
  ' CHANGELOG.md
}
say "the changes"
notes=$(changes "$version")
if [[ -z $notes ]]; then
  say "CHANGELOG.md has no heading for $version: these are the changes that are not released"
  notes=$(changes Unreleased)
fi
[[ -n $notes ]] || fail "CHANGELOG.md says nothing about $version"
printf '%s\n' "$notes" >"$directory/galvo-$version-changes.md"

say "the wheels"
scripts/wheel.sh "$directory"

say "the program for Linux"
name=galvo-$version-$(uname -m)-linux
install -D -m 755 "$GALVO_SERVER_BIN" "$workdir/$name/galvo"
strip --strip-debug "$workdir/$name/galvo"
install -m 644 LICENSE docs/linux.md docs/running.md "$workdir/$name"
install -d "$workdir/$name/docker"
cp -r docker/systemd "$workdir/$name/docker"
archive "$workdir/$name" "$directory/$name.tar.gz"

say "the container image"
python3 scripts/oci_image.py "$workdir/$name/galvo" "$directory/$name.oci.tar"

say "the chart"
python=$(python_env packages "$(find_python 11 12 13)" -r tests/packaging/requirements.txt)
mkdir "$workdir/chart"
"$python" -c 'import sys, helm_python
with helm_python.Chart.load(sys.argv[1]) as chart:
    chart.save(sys.argv[2])' docker/helm/galvo "$workdir"
# Helm puts the current time into its archive.
tar --extract --gzip --directory="$workdir/chart" --file="$workdir/galvo-$version.tgz"
archive "$workdir/chart/galvo" "$directory/galvo-$version.tgz"

scripts/sbom.sh "$directory/galvo-$version.cdx.json"

cd "$directory"
# The order of the names is the same everywhere.
export LC_ALL=C
sha256sum -- * >"$workdir/SHA256SUMS"
mv "$workdir/SHA256SUMS" .
say "$directory has $(wc -l <SHA256SUMS) files for $version"
