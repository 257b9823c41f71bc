#!/usr/bin/env bash
# Makes the Python environments the tests use, where they are missing or out of date, and prints the
# variables that name their interpreters: eval "$(scripts/python-envs.sh)"
#   oldest  the oldest Dask and the oldest Python that are supported
#   middle  a Dask between the two, with its nannies and events as they were then
#   newest  the newest Dask
#   coiled  a Dask and a coiled client that stay as they are
#   other   the same Dask as `newest` on another Python, for what travels between client and scheduler
set -euo pipefail
source "$(dirname "$0")/lib.sh"

dask_version() { "$1" -c 'import dask, distributed; print(dask.__version__, distributed.__version__)'; }

oldest=$(find_python 9 10 11)
oldest=$(python_env test-oldest "$oldest" -r tests/dask/requirements-oldest.txt -e ./python)

middle=$(find_python 11)
middle=$(python_env test-middle "$middle" -r tests/dask/requirements-middle.txt -e ./python)

newest=$(find_python 11)
newest=$(python_env test-newest "$newest" -r tests/dask/requirements-newest.txt -e ./python)

coiled=$(find_python 11)
coiled=$(python_env test-coiled "$coiled" -r tests/dask/requirements-coiled.txt -e ./python)

read -r dask distributed <<<"$(dask_version "$newest")"
other=$(find_python 13 12 10)
other=$(python_env test-other "$other" -r tests/dask/requirements-newest.txt -e ./python \
  "dask==$dask" "distributed==$distributed")
[[ $(dask_version "$other") == "$dask $distributed" ]] ||
  fail "the environments 'newest' and 'other' hold different versions of Dask: delete .venv/test-*"

printf 'export %s=%q\n' \
  GALVO_TEST_PYTHON_OLDEST "$oldest" \
  GALVO_TEST_PYTHON_MIDDLE "$middle" \
  GALVO_TEST_PYTHON_NEWEST "$newest" \
  GALVO_TEST_PYTHON_COILED "$coiled" \
  GALVO_TEST_PYTHON_OTHER "$other"
