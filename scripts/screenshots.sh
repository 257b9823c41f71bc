#!/usr/bin/env bash
# Takes pictures of all pages of the dashboard, in three widths and both themes, into web/tests/shots. The server
# has real Dask clusters, whose pages are shown, and the invented clusters of a team, as web/tests/team.py reports
# them. DEMO_PROGRAM is a server program that is already built.
set -euo pipefail
source "$(dirname "$0")/lib.sh"

need_chromium
build_dashboard
rm -rf web/tests/shots
TEAM=1 LIVE_SECONDS=1800 DEMO_PORT=0 web/tests/demo.sh node web/tests/shots.js --width=1440,1024,390 --theme=light,dark
say "the pictures are in web/tests/shots"
