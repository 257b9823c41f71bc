#!/usr/bin/env bash
# demo.sh [COMMAND...]: starts a server on a temporary store and fills it with real Dask clusters. Then it
# runs the command, with the server in GALVO_URL, the password of the user ada in GALVO_PASSWORD, the server's
# program in GALVO_BIN and Dask's Python in GALVO_PYTHON, or serves the built dashboard at port 8080 until
# Ctrl-C. DEMO_PROGRAM is a server program that is already built; LIVE_SECONDS=600 is the life of the cluster
# that keeps running. TEAM=1 adds the invented clusters of a team, for pictures, and makes the main Dask clusters
# run for three minutes.
set -euo pipefail
source "$(dirname "$0")/../../scripts/lib.sh"

password="correct horse battery"
galvo=${DEMO_PROGRAM:-}
if [[ -z $galvo ]]; then
  cargo build --package galvo --bin galvo
  galvo=$target_dir/debug/galvo
fi
python=$(python_env test-newest "$(find_python 11)" -r tests/dask/requirements-newest.txt -e ./python)

clean_up_at_exit
# The program refuses settings that it does not know, such as those of tests.
unset "${!GALVO_@}"
export GALVO_DATABASE_URL="sqlite://$workdir/galvo.db?mode=rwc" GALVO_LOG=warn
"$galvo" migrate
"$galvo" account create tidewater >/dev/null
"$galvo" user create ada --account tidewater --role owner >/dev/null
"$galvo" user password ada <<<"$password" >/dev/null
token=$("$galvo" token create --user ada --account tidewater --scope ingest --scope read --label demo)
export TEAM_TOKENS=
if [[ ${TEAM:-} == 1 ]]; then
  export FEATURES_SECONDS=180
  for user in ines batch-bot priya teodor okan mara lena hanne yusuf; do
    "$galvo" user create "$user" --account tidewater >/dev/null
    TEAM_TOKENS+=" $user=$("$galvo" token create --user "$user" --account tidewater --scope ingest --label team)"
  done
fi

say "starting the server"
export GALVO_LOG=info
background server "$galvo" serve --listen "127.0.0.1:${DEMO_PORT:-8000}"
wait_for 30 "the server" grep 'listening on http' "$workdir/server.log"
server=$(sed -n 's/.*listening on \(http[^ ]*\).*/\1/p' "$workdir/server.log")
export DASK_GALVO__SERVER=$server DASK_GALVO__TOKEN=$token

if [[ -n $TEAM_TOKENS ]]; then
  say "reporting the clusters of a team"
  "$python" web/tests/team.py
  background team "$python" web/tests/team.py "${LIVE_SECONDS:-600}"
fi

say "running Dask clusters; this takes a minute, and seven for pictures"
"$python" web/tests/seed.py >"$workdir/seed.log" 2>&1 || say "the seed failed: $(tail -n 1 "$workdir/seed.log")"
background live "$python" web/tests/seed.py "${LIVE_SECONDS:-600}"

if (($# > 0)); then
  export GALVO_URL=$server GALVO_PASSWORD=$password GALVO_BIN=$galvo GALVO_PYTHON=$python
  "$@"
  exit
fi

if [[ -d web/dist ]]; then
  GALVO_URL=$server background dashboard node web/tests/serve.js "${DASHBOARD_PORT:-8080}"
  say "the dashboard is at http://127.0.0.1:${DASHBOARD_PORT:-8080}"
fi
say "the server is at $server, user ada, password: $password"
wait "${pids[0]}"
