#!/usr/bin/env bash
# Formats every C file (format) or fails if one is not formatted (format-check).
set -eu
cd "$(dirname "$0")/.."
. scripts/sources.sh

case "${1:-}" in
format) project_sources | xargs clang-format -i ;;
format-check) project_sources | xargs clang-format --dry-run --Werror ;;
*)
    echo "usage: scripts/format.sh format | format-check" >&2
    exit 2
    ;;
esac
