#!/usr/bin/env bash
# Starts a server on a temporary store and a real Dask cluster that reports to it, runs a workload with
# one error, and checks the GraphQL answer about it. DEMO_KEEP=1 keeps the server running afterwards;
# DEMO_PROGRAM is a server program that is already built.
set -euo pipefail
source "$(dirname "$0")/lib.sh"

profile=${PROFILE:-dev}
galvo=${DEMO_PROGRAM:-}
if [[ -z $galvo ]]; then
  need_build_tools
  try_to_build_dashboard
  cargo build --package galvo --bin galvo --profile "$profile"
  galvo=$target_dir/${profile/#dev/debug}/galvo
fi
python=$(find_python 11 12 13 10 9)
python=$(python_env demo "$python" dask distributed numpy -e ./python)

clean_up_at_exit
export GALVO_DATABASE_URL="sqlite://$workdir/galvo.db?mode=rwc"
admin() { GALVO_LOG=warn "$galvo" "$@"; }
# The other commands require an existing store.
admin migrate
admin account create demo >/dev/null
admin user create demo --account demo --role owner >/dev/null
token=$(admin token create --user demo --account demo --scope ingest --scope read --label demo)

say "starting the server"
background server "$galvo" serve --listen 127.0.0.1:0
wait_for 30 "the server" grep 'listening on http' "$workdir/server.log"
server=$(sed -n 's/.*listening on \(http[^ ]*\).*/\1/p' "$workdir/server.log")

say "starting a Dask scheduler and two workers"
export DASK_GALVO__SERVER=$server DASK_GALVO__TOKEN=$token DASK_GALVO__COMPUTATION__INTERVAL=1s
# The workers' files are deleted with the demo's other files.
export DASK_TEMPORARY_DIRECTORY=$workdir
background scheduler "$python" -m dask scheduler --host 127.0.0.1 --port 0 --no-dashboard \
  --scheduler-file "$workdir/scheduler.json" --preload galvo
for n in 1 2; do
  background "worker-$n" "$python" -m dask worker --scheduler-file "$workdir/scheduler.json" \
    --name "worker-$n" --nthreads 2 --memory-limit 1GiB --no-nanny --no-dashboard
done

say "running the workload"
"$python" scripts/demo_workload.py "$workdir/scheduler.json"

say "asking GraphQL about it"
GALVO_TOKEN=$token "$python" scripts/demo_query.py "$server/graphql"

if [[ ${DEMO_KEEP:-} == 1 ]]; then
  say "the server stays at $server, GraphiQL at $server/graphql, token $token; Ctrl-C ends it"
  wait "${pids[0]}"
fi
