#!/usr/bin/env bash
# with-services.sh COMMAND...: runs the command with a temporary PostgreSQL and Redis, whose URLs are in
# GALVO_TEST_DATABASE_URL and GALVO_TEST_REDIS_URL. If a variable is already set, it is used and that
# server is not started. The command runs in the repository's root, for example
# scripts/with-services.sh cargo test --workspace --test it
set -euo pipefail
source "$(dirname "$0")/lib.sh"
(($# > 0)) || fail "usage: with-services.sh COMMAND..."

free_port() {
  python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

# The servers listen on TCP, so every user of this machine can reach them; the password denies access.
password=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')

# Prints the directory of PostgreSQL's server binaries, which Debian keeps off PATH. A client
# installation has pg_config too.
postgres_bin() {
  local dir
  for dir in "$(pg_config --bindir 2>/dev/null || true)" /usr/lib/postgresql/*/bin; do
    if [[ -x $dir/initdb && -x $dir/postgres ]]; then
      echo "$dir"
      return
    fi
  done
  return 1
}

start_postgres() {
  local bin port store=$workdir/postgres as_postgres=()
  postgres_bin >/dev/null || install_packages postgresql
  bin=$(postgres_bin) || fail "PostgreSQL's server binaries are missing: install PostgreSQL"
  port=$(free_port)
  install -d -m 700 "$store"
  echo "$password" >"$store/password"
  # PostgreSQL refuses to run as root.
  if ((EUID == 0)); then
    id postgres >/dev/null 2>&1 || fail "to start PostgreSQL as root there must be a user 'postgres'"
    as_postgres=(setpriv --reuid=postgres --regid=postgres --init-groups)
    chmod 711 "$workdir"
    chown -R postgres: "$store"
  fi
  # SCRAM costs a debug build tens of milliseconds per connection, and the server five wherever it stores
  # passwords in that form.
  "${as_postgres[@]}" "$bin/initdb" --pgdata="$store/data" --username=galvo --encoding=UTF8 --locale=C \
    --auth=md5 --pwfile="$store/password" --no-sync --no-instructions >"$workdir/initdb.log"
  # Nothing here is worth a disk flush: the data is deleted after the run.
  background postgres "${as_postgres[@]}" "$bin/postgres" -D "$store/data" -h 127.0.0.1 -p "$port" -k '' \
    -c fsync=off -c full_page_writes=off -c synchronous_commit=off -c max_connections=300
  # The other signals wait for clients or for a checkpoint.
  stop_signal[${pids[-1]}]=QUIT
  export GALVO_TEST_DATABASE_URL="postgres://galvo:$password@127.0.0.1:$port/postgres"
  wait_for 30 PostgreSQL "$bin/psql" "$GALVO_TEST_DATABASE_URL" -c ''
}

start_redis() {
  local port
  command -v redis-server >/dev/null || install_packages redis-server
  port=$(free_port)
  install -d -m 700 "$workdir/redis"
  # A file instead of arguments, because arguments show the password to everyone.
  printf '%s\n' 'bind 127.0.0.1' "port $port" "requirepass $password" "dir $workdir/redis" 'save ""' \
    >"$workdir/redis/redis.conf"
  background redis redis-server "$workdir/redis/redis.conf"
  export GALVO_TEST_REDIS_URL="redis://default:$password@127.0.0.1:$port/"
  REDISCLI_AUTH=$password wait_for 30 Redis redis-cli -h 127.0.0.1 -p "$port" -e ping
}

clean_up_at_exit
if [[ -z ${GALVO_TEST_DATABASE_URL:-} ]]; then start_postgres; fi
if [[ -z ${GALVO_TEST_REDIS_URL:-} ]]; then start_redis; fi

# The failed command has printed the reason; the servers' logs would only obscure it.
"$@" || {
  status=$?
  rm -f "$workdir"/*.log
  exit "$status"
}
