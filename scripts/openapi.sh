#!/usr/bin/env bash
# openapi.sh [FILE]: writes the description of the REST API, by default to openapi.json, as the server's program
# GALVO_SERVER_BIN serves it, which is by default the debug build.
set -euo pipefail
source "$(dirname "$0")/lib.sh"

file=${1:-openapi.json}
program=$(realpath -m "${GALVO_SERVER_BIN:-$target_dir/debug/galvo}")
[[ -x $program ]] || fail "$program is missing: cargo build --package galvo --bin galvo"
clean_up_at_exit
mkdir "$workdir/data"
# Settings of this machine, such as a public URL, would be in the document.
background server env --ignore-environment --chdir="$workdir/data" GALVO_LISTEN=127.0.0.1:0 "$program" serve
wait_for 60 "the server" grep -q '^listening on ' "$workdir/server.log"
python3 - "$(sed -n 's/^listening on //p' "$workdir/server.log")" "$file" <<'PYTHON'
"""Writes one value per line, so that a comparison shows the changed ones."""
import json
import sys
import urllib.request

server, file = sys.argv[1:]
with urllib.request.urlopen(f"{server}/api/v1/openapi.json", timeout=60) as response:
    document = json.load(response)
with open(file, "w", encoding="utf-8") as output:
    json.dump(document, output, indent=1, ensure_ascii=False)
    output.write("\n")
PYTHON
