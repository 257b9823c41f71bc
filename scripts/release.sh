#!/usr/bin/env bash
# release.sh VERSION [DIRECTORY]: lays out what a release consists of, by default in dist: the wheels, the
# server's program with its unit, the Helm chart, the GraphQL schema, the bill of materials, and the
# checksums of all. VERSION has to be that of the sources. GALVO_SERVER_BIN is a server's program that is
# already built; otherwise a release build is made.
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

[[ ! -e $directory || -z $(ls -A "$directory") ]] || fail "$directory is not empty"
mkdir -p "$directory"
clean_up_at_exit

if [[ -z ${GALVO_SERVER_BIN:-} ]]; then
  say "building for release"
  cargo build --locked --release --package galvo --bin galvo
  GALVO_SERVER_BIN=$target_dir/release/galvo
fi
export GALVO_SERVER_BIN
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH

say "the wheels"
scripts/wheel.sh "$directory"

say "the program for Linux"
name=galvo-$version-$(uname -m)-linux
install -D -m 755 "$GALVO_SERVER_BIN" "$workdir/$name/galvo"
strip --strip-debug "$workdir/$name/galvo"
install -m 644 LICENSE docs/linux.md docs/running.md "$workdir/$name"
install -d "$workdir/$name/docker"
cp -r docker/systemd "$workdir/$name/docker"
# The same files give the same archive.
tar --create --directory="$workdir" --sort=name --owner=0 --group=0 --numeric-owner \
  --mtime="@$SOURCE_DATE_EPOCH" "$name" | gzip -n >"$directory/$name.tar.gz"

say "the chart"
python=$(python_env packages "$(find_python 11 12 13)" -r tests/packaging/requirements.txt)
"$python" -c 'import sys, helm_python
with helm_python.Chart.load(sys.argv[1]) as chart:
    chart.save(sys.argv[2])' docker/helm/galvo "$directory"

cp schema.graphql "$directory/galvo-$version.graphql"
scripts/sbom.sh "$directory/galvo-$version.cdx.json"

cd "$directory"
# The order of the names is the same everywhere.
export LC_ALL=C
sha256sum -- * >"$workdir/SHA256SUMS"
mv "$workdir/SHA256SUMS" .
say "$directory has $(wc -l <SHA256SUMS) files for $version"
