#!/usr/bin/env bash
# The library never prints, exits or reads the environment, and nothing uses unbounded string calls.
set -u
cd "$(dirname "$0")/.."
. scripts/sources.sh

status=0
report() { # report WHAT PATTERN FILES...
    local what=$1 pattern=$2
    shift 2
    [ $# -gt 0 ] || return 0
    if grep -nE "(^|[^A-Za-z0-9_])($pattern)[ ]*\(" "$@"; then
        echo "check_calls: $what" >&2
        status=1
    fi
}
mapfile -t library < <(project_sources | grep -E '^src/')
mapfile -t everything < <(project_sources)
report "the library must not print, exit or read the environment" \
    'printf|fprintf|vprintf|vfprintf|puts|putchar|fputs|perror|exit|_exit|abort|getenv|secure_getenv|setlocale' "${library[@]}"
report "unbounded or stateful calls are banned" 'strcpy|strcat|sprintf|vsprintf|gets|strtok|atoi|atol|atof|alloca|rand|srand' "${everything[@]}"
exit $status
