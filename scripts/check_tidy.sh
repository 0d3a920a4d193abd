#!/usr/bin/env bash
# clang-tidy over every translation unit of the build folder given. Any finding fails.
set -eu
cd "$(dirname "$0")/.."
. scripts/sources.sh

folder=${1:-build}
project_sources | grep -E '\.c$' | grep -E '^(src|tools|bench|tests)/' |
    xargs -P "$(nproc)" -n 1 clang-tidy -p "$folder" --quiet --warnings-as-errors='*' 2>/dev/null
