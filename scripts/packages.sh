#!/usr/bin/env bash
# packages.sh [PYTEST_ARGUMENT...]: tests the Helm chart, the systemd unit, the files of a release and the
# README's quick start, with the server's program GALVO_BIN, by default the debug build. It installs its tools in an
# environment of its own, and these programs if they are absent: systemd's check units without running any; skopeo and
# umoci read container images as registries and runtimes do; mmdebstrap makes an empty Debian.
set -euo pipefail
source "$(dirname "$0")/lib.sh"

export GALVO_BIN=${GALVO_BIN:-$target_dir/debug/galvo}
[[ -x $GALVO_BIN ]] || fail "$GALVO_BIN is missing: cargo build --package galvo --bin galvo"
command -v systemd-analyze >/dev/null || install_packages systemd
command -v strace >/dev/null || install_packages strace
{ command -v skopeo && command -v umoci; } >/dev/null || install_packages skopeo umoci
need_node
python=$(find_python 11 12 13)
python=$(python_env packages "$python" -r tests/packaging/requirements.txt)
GALVO_TEST_PYTHON_FIRST=$(find_python 9 10 11)
GALVO_TEST_PYTHON_LAST=$(find_python 13 12)
export GALVO_TEST_PYTHON_FIRST GALVO_TEST_PYTHON_LAST
# One of the tools brings a plugin for tests with real clusters.
export PYTEST_DISABLE_PLUGIN_AUTOLOAD=1
# A directory of its own: pytest closes the usual one to other users at its start, and the tests of faults, which
# run at the same time, have PostgreSQL's user in theirs.
clean_up_at_exit
"$python" -m pytest -p xdist -n 2 --dist loadfile --color=no -rfEs -p no:cacheprovider --durations=10 --durations-min=1 \
  --basetemp "$workdir/pytest" "${@:-tests/packaging}"
