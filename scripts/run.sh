#!/usr/bin/env bash
# Builds Galvo and serves on 127.0.0.1:8000 with the embedded store. PROFILE=release builds for speed;
# GALVO_DATABASE_URL, GALVO_LISTEN and further arguments of `galvo serve` work as ever.
set -euo pipefail
source "$(dirname "$0")/lib.sh"

profile=${PROFILE:-dev}
cargo build --package galvo --bin galvo --profile "$profile"

# Cargo keeps the directory name `debug` for the profile `dev`.
exec "$target_dir/${profile/#dev/debug}/galvo" serve --bootstrap "$@"
