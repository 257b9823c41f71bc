#!/usr/bin/env bash
# wheel.sh [DIRECTORY]: builds the wheels of the Python package and of the server's program, by default in
# dist. GALVO_SERVER_BIN is a server's program that is already built; otherwise a release build is made,
# which takes some 12 minutes on two cores. The same sources and program give the same files.
set -euo pipefail
source "$(dirname "$0")/lib.sh"

directory=$(realpath -m "${1:-dist}")
mkdir -p "$directory"
if [[ -n ${GALVO_SERVER_BIN:-} ]]; then
  GALVO_SERVER_BIN=$(realpath "$GALVO_SERVER_BIN")
  export GALVO_SERVER_BIN
fi
python=$(find_python 11 12 13)
python=$(python_env packages "$python" -r tests/packaging/requirements.txt)
# Files in archives get this time instead of the current one.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 1767225600)}
export SOURCE_DATE_EPOCH
for project in python python/server; do
  env --chdir="$project" "$python" -m hatchling build --target wheel --directory "$directory" >&2
done
