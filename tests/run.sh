#!/usr/bin/env bash
# Runs the tests, making their environment first (recipes/environment.sh says what can be set).
#
#     bash tests/run.sh [what pytest takes]      e.g. -m slow, -k elision, -x
#
# Slow tests are left out unless -m asks for them.

set -euo pipefail

cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."
export RNNSEARCH_EXTRAS=${RNNSEARCH_EXTRAS:-test}
# shellcheck source=recipes/environment.sh
source recipes/environment.sh
exec python -m pytest -m "not slow" "$@"
