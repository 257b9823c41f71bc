#!/usr/bin/env bash
# Builds Galvo with its dashboard, and serves on 127.0.0.1:8000 with the embedded store. PROFILE=release builds
# for release; GALVO_DATABASE_URL, GALVO_LISTEN and further arguments of `galvo serve` work as usual.
set -euo pipefail
source "$(dirname "$0")/lib.sh"

profile=${PROFILE:-dev}
need_build_tools
try_to_build_dashboard
cargo build --package galvo --bin galvo --profile "$profile"

# Cargo keeps the directory name `debug` for the profile `dev`.
exec "$target_dir/${profile/#dev/debug}/galvo" serve --bootstrap --sign-in-link "$@"
