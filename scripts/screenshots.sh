#!/usr/bin/env bash
# Takes pictures of all pages of the dashboard with the data of real Dask clusters, in three widths and both
# themes, into web/tests/shots. DEMO_PROGRAM is a server program that is already built.
set -euo pipefail
source "$(dirname "$0")/lib.sh"

need_chromium
build_dashboard
rm -rf web/tests/shots
DEMO_PORT=0 web/tests/demo.sh node web/tests/shots.js --width=1440,1024,390 --theme=light,dark
say "the pictures are in web/tests/shots"
