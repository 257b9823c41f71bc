# Sourced by the scripts beside it: the repository's root, messages, processes that end with the
# script, packages, and environments of Python and Node.js.
# shellcheck shell=bash

# Without it a failing command inside $(…) would go unnoticed.
shopt -s inherit_errexit

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root" || exit
# shellcheck disable=SC2034  # used by the scripts that source this
target_dir=$(realpath -m "${CARGO_TARGET_DIR:-target}")

# Messages go to stderr, because the stdout of some scripts is read by others.
say() { printf '==> %s\n' "$*" >&2; }
fail() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}

# --- Processes and files that must not outlive the script -------------------------------------------

workdir=
pids=()
declare -A stop_signal

# Makes `workdir` and takes care that everything in it, and every process of `background`, is gone when
# the script ends, however it ends. INT and TERM become an exit, or bash would skip the EXIT trap.
clean_up_at_exit() {
  workdir=$(mktemp -d "${TMPDIR:-/tmp}/galvo.XXXXXX")
  trap clean_up EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM
}

clean_up() {
  local status=$?
  trap - EXIT INT TERM
  # From 128 on it was a signal: somebody stopped the run, and nothing needs explaining.
  if ((status > 0 && status < 128)); then show_logs; fi
  stop_background
  rm -rf "$workdir"
  exit "$status"
}

show_logs() {
  local log
  for log in "$workdir"/*.log; do
    [[ -s $log ]] || continue
    say "end of ${log##*/}"
    tail -n 15 "$log" >&2
  done
}

# background NAME COMMAND...: runs in a process group of its own, so that Ctrl-C reaches it only through
# `clean_up` and a whole process tree can be signalled at once. Output goes to $workdir/NAME.log.
background() {
  local name=$1
  shift
  setsid "$@" >"$workdir/$name.log" 2>&1 </dev/null &
  pids+=("$!")
}

# Last started, first stopped. TERM unless `stop_signal` names another; KILL for what is left after 10 s.
stop_background() {
  local i pid
  for ((i = ${#pids[@]} - 1; i >= 0; i--)); do
    pid=${pids[i]}
    # The group exists a moment after the process does, hence the second try.
    kill "-${stop_signal[$pid]:-TERM}" -- "-$pid" 2>/dev/null ||
      kill "-${stop_signal[$pid]:-TERM}" "$pid" 2>/dev/null || continue
    for _ in {1..100}; do
      kill -0 -- "-$pid" 2>/dev/null || break
      sleep 0.1
    done
    kill -KILL -- "-$pid" 2>/dev/null || true
  done
  pids=()
}

# wait_for SECONDS WHAT COMMAND...: until the command succeeds. A background process that has ended makes
# waiting pointless.
wait_for() {
  local deadline=$((SECONDS + $1)) what=$2 pid
  shift 2
  until "$@" >/dev/null 2>&1; do
    for pid in "${pids[@]}"; do
      kill -0 "$pid" 2>/dev/null || fail "$what: a process it needs has ended"
    done
    ((SECONDS < deadline)) || fail "$what: not ready in time"
    sleep 0.1
  done
}

# --- What the machine must have -----------------------------------------------------------------------

# install_packages PACKAGE...: by apt-get, as root or through sudo.
install_packages() {
  local as_root=()
  if ((EUID != 0)); then
    command -v sudo >/dev/null || fail "install $* as root, then run this again (there is no sudo here)"
    as_root=(sudo)
  fi
  command -v apt-get >/dev/null || fail "install $* with this system's package manager, then run this again"
  say "installing $*"
  # The policy keeps the packages from starting services of their own: the tests start what they need,
  # and a default port may be taken. A policy that is already there is the machine's and stays.
  # shellcheck disable=SC2016  # expanded by the inner shell
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive bash -euc '
    policy=/usr/sbin/policy-rc.d
    if [[ ! -e $policy ]]; then
      trap "rm -f $policy" EXIT
      trap "exit 1" INT TERM
      printf "#!/bin/sh\nexit 101\n" >$policy
      chmod 755 $policy
    fi
    apt-get update -qq
    apt-get install -y -qq --no-install-recommends "$@"
  ' install "$@" </dev/null >&2 || fail "apt-get could not install $*"
}

# find_python MINOR...: prints the first interpreter that works, of the 3.MINOR asked for. A name on PATH
# may be a version manager's stand-in for a version that is not active, so each candidate is run.
find_python() {
  local wanted="$*" minor candidate
  for minor in "$@"; do
    for candidate in "python3.$minor" "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3."$minor".*/bin/python; do
      "$candidate" -c "
import ensurepip, sys, venv
sys.exit(sys.version_info[:2] != (3, $minor))" 2>/dev/null || continue
      "$candidate" -c 'import sys; print(sys.executable)'
      return
    done
  done
  fail "no working Python 3.${wanted// / or 3.} with its venv module: install one, on PATH or with pyenv"
}

# python_env NAME INTERPRETER PIP_ARGUMENT...: makes .venv/NAME and prints its python. It is made again
# when what it was made from has changed: the interpreter, the arguments, the requirement files among
# them, or the Python package's own metadata. The key is written last, so half an environment never counts.
python_env() {
  local dir=$root/.venv/$1 interpreter=$2 key argument
  shift 2
  key=$({
    "$interpreter" -VV
    for argument in "$interpreter" "$@" python/pyproject.toml; do
      echo "$argument"
      if [[ -f $argument ]]; then cat "$argument"; fi
    done
  } | sha256sum)
  mkdir -p .venv
  # Two runs at once must not build the same environment.
  (
    flock 9
    if [[ ! -f $dir/key || $(<"$dir/key") != "$key" ]]; then
      say "making ${dir#"$root/"} with $("$interpreter" -V)"
      rm -rf "$dir"
      "$interpreter" -m venv "$dir"
      "$dir/bin/python" -m pip install --quiet --disable-pip-version-check "$@" >&2
      printf '%s\n' "$key" >"$dir/key"
    fi
  ) 9>"$dir.lock"
  echo "$dir/bin/python"
}

# node_packages DIRECTORY: installs what its package-lock.json names, where it is missing or out of date, with Node.js
# itself if there is none. The key is written last, so half an installation never counts.
node_packages() {
  local dir=$root/$1 key
  if ! command -v node >/dev/null || ! command -v npm >/dev/null; then install_packages nodejs npm; fi
  # Older ones have no test runner that ends in counts.
  node -e 'process.exit(parseInt(process.versions.node) < 18 ? 1 : 0)' || fail "Node.js 18 or newer is needed"
  key=$({
    node --version
    cat "$dir/package.json" "$dir/package-lock.json"
  } | sha256sum)
  mkdir -p .venv
  (
    flock 9
    if [[ ! -f $dir/node_modules/key || $(<"$dir/node_modules/key") != "$key" ]]; then
      say "installing packages in $1"
      (cd "$dir" && npm ci --no-audit --no-fund --ignore-scripts --loglevel=error >&2)
      printf '%s\n' "$key" >"$dir/node_modules/key"
    fi
  ) 9>".venv/${1//\//-}.lock"
}

# --- Many steps, one verdict ----------------------------------------------------------------------------

failed_steps=()

# step NAME COMMAND...: runs it, and remembers the name if it fails, so that one run reports everything.
step() {
  local name=$1
  shift
  say "$name"
  "$@" || failed_steps+=("$name")
}

# Names the steps that failed, and fails itself when there are any.
verdict() {
  local name
  for name in "${failed_steps[@]}"; do printf 'failed: %s\n' "$name"; done
  ((${#failed_steps[@]} == 0))
}
