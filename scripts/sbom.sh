#!/usr/bin/env bash
# sbom.sh [FILE]: writes the software bill of materials of Galvo in CycloneDX 1.6, by default to
# target/galvo.cdx.json, and checks it against the schema and against Cargo.lock. The same sources give
# the same file.
set -euo pipefail
source "$(dirname "$0")/lib.sh"

file=${1:-$target_dir/galvo.cdx.json}
mkdir -p "$(dirname "$file")"
python=$(find_python 11 12 13)
python=$(python_env lint "$python" -r scripts/requirements-lint.txt)
"$python" scripts/sbom.py "$file"
