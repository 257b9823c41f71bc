#!/usr/bin/env bash
# image.sh [BINARY]: makes the image of docker/api.Dockerfile as a release does, without Docker, and runs
# it as Docker would: as its user, with its environment and command, on a file system that is read-only
# except for the data. The server has to become ready, accept a report, answer a query about it, and shut
# down cleanly on SIGTERM.
#
# BINARY is the result of the first build stage, by default target/release/galvo; with the default,
# docker/compose.yml is checked as well. Mounting requires root.
set -euo pipefail
source "$(dirname "$0")/lib.sh"

((EUID == 0)) || exec sudo --preserve-env=PATH,CARGO_TARGET_DIR "$0" "$@"
binary=$(realpath "${1:-$target_dir/release/galvo}")
[[ -x $binary ]] || fail "$binary is missing: cargo build --release --package galvo --bin galvo"
clean_up_at_exit
chmod 711 "$workdir"

# --- The composition ------------------------------------------------------------------------------------

# Uses an available program that checks compose files; that of Debian 12 does not support project names.
check_composition() {
  local composition=docker/compose.yml
  export GALVO_POSTGRES_PASSWORD=x GALVO_SECRET_KEY=x
  if docker compose version >/dev/null 2>&1; then
    docker compose -f "$composition" --profile example config --quiet
  else
    command -v docker-compose >/dev/null || install_packages docker-compose
    sed '/^name:/d' "$composition" >"$workdir/compose.yml"
    docker-compose --project-directory docker -f "$workdir/compose.yml" --profile example config --quiet
  fi
}

if (($# == 0)); then
  say "checking docker/compose.yml"
  check_composition
fi

# --- Making it ------------------------------------------------------------------------------------------

root=$workdir/root data=$workdir/root/var/lib/galvo
mkdir "$root" "$workdir/layout"
REVISION=$(git rev-parse HEAD) SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export REVISION SOURCE_DATE_EPOCH
python3 scripts/oci_image.py "$binary" "$workdir/image.tar"
tar --extract --directory="$workdir/layout" --file="$workdir/image.tar"
layer='' user='' directory='' environment=() entrypoint=() arguments=() health=()
eval "$(python3 scripts/oci_image.py --settings "$workdir/layout")"
tar --extract --gzip --numeric-owner --same-permissions --directory="$root" --file="$layer"
rm -r "$workdir/image.tar" "$workdir/layout"
[[ -n $user && $user != 0* && -n $directory && ${#health[@]} -gt 0 ]] ||
  fail "the image does not say as whom or how it is looked at"
[[ -z $(find "$root" -perm /6000) ]] || fail "something in the image changes who runs it"
say "the image: $(du -sh "$root" | cut -f1), $(find "$root" -type f | wc -l) files"

# --- Running it -----------------------------------------------------------------------------------------

port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
# A free port of this machine instead of the fixed one.
environment+=("GALVO_LISTEN=127.0.0.1:$port")

# A script that runs a command in the image: it sees only the image's file system, which is read-only
# except for the data, and cannot gain privileges.
cat >"$workdir/confined" <<CONFINED
#!/usr/bin/env bash
set -euo pipefail
exec unshare --mount --propagation private bash -euc '
  mount --bind "$root" "$root"
  mount --bind "$data" "$data"
  mount --options remount,bind,ro "$root"
  mount --rbind /proc "$root/proc"
  mount --rbind /dev "$root/dev"
  exec setpriv --no-new-privs env --ignore-environment ${environment[*]} \
    $(command -v unshare) --root="$root" --wd="$directory" --setgid="${user#*:}" --setuid="${user%:*}" "\$@"
' confined "\$@"
CONFINED
chmod +x "$workdir/confined"
galvo() { "$workdir/confined" "${entrypoint[@]}" "$@"; }

galvo migrate
galvo account create team >/dev/null
galvo user create ada --account team --role owner >/dev/null
token=$(galvo token create --user ada --account team --scope ingest --scope read)
[[ -n $(find "$data" -name galvo.db) ]] || fail "the store is not where the data is"

background image "$workdir/confined" "${entrypoint[@]}" "${arguments[@]}"
server=${pids[-1]}
wait_for 60 "the image" "$workdir/confined" "${health[@]}"

status() { sed -n "s/^$1:[[:space:]]*//p" "/proc/$server/status"; }
read -r _ effective _ <<<"$(status Uid)"
[[ $effective == "${user%:*}" ]] || fail "it runs as the user $effective"
[[ $(status CapEff) == 0000000000000000 ]] || fail "it has capabilities: $(status CapEff)"
[[ $(status NoNewPrivs) == 1 ]] || fail "it may become more than it is"
written=$(find "$root" -xdev -newer "$root/etc/passwd" -type f ! -path "$data/*")
[[ -z $written ]] || fail "it wrote where it should not: $written"

python3 - "http://127.0.0.1:$port" "$token" <<'PYTHON'
"""Sends a report and asks what was told by it."""
import json
import sys
import urllib.request

server, token = sys.argv[1:]


def post(path, body):
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    request = urllib.request.Request(server + path, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=10) as response:
        return json.load(response)


with open("fuzz/corpus/report/everything.json") as file:
    report = json.load(file)
assert post("/api/v1/reports", report)["acknowledged"] == report["sequence"]
query = "{ viewer { account { clusters { nodes { name errors { nodes { message } } } } } } }"
(cluster,) = post("/graphql", {"query": query})["data"]["viewer"]["account"]["clusters"]["nodes"]
# The message is stored encrypted, with the key that the server created beside the store.
assert cluster["name"] == report["cluster"]["name"], cluster
assert cluster["errors"]["nodes"] == [{"message": report["errors"][0]["message"]}], cluster
PYTHON

kill -TERM "$server"
ended=0
wait "$server" || ended=$?
((ended == 0)) || fail "it ended with the status $ended"
pids=()
if "$workdir/confined" "${health[@]}" >/dev/null 2>&1; then fail "it is ready when it is gone"; fi
say "the image runs as it should"
