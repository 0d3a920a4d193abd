#!/usr/bin/env bash
# Runs one golden test of the command line: cases/NAME.sh, whose output must equal cases/NAME.expected.
#
# usage: run_case.sh NAME COMMAND...      COMMAND: how `sluice` is started, emulator included
# SLUICE_MODELS names the folder of the shipped models, SLUICE_DATA that of the tests' data.
# With SLUICE_GOLDEN_UPDATE=1 the expected output is written instead of compared; read the difference before committing it.
set -u
here=$(cd "$(dirname "$0")" && pwd)
name=$1
shift
SLUICE=("$@")
WORK=$(mktemp -d /tmp/sluice-golden-XXXXXX)
export LC_ALL=C.UTF-8

clean_up() {
    chmod -R u+rwx "$WORK" 2>/dev/null
    rm -rf "$WORK"
}
trap clean_up EXIT

. "$here/lib.sh"
mkdir "$WORK/files"
cd "$WORK/files" || exit 1
(. "$here/cases/$name.sh") >"$WORK/actual.raw" 2>&1
# Paths of this machine are no part of the result.
sed -e "s|$WORK/files|WORK|g" -e "s|$SLUICE_MODELS|MODELS|g" -e "s|$SLUICE_DATA|DATA|g" "$WORK/actual.raw" >"$WORK/actual"

if [ "$(tail -n 1 "$WORK/actual")" = "SKIPPED" ]; then
    echo SKIPPED
    exit 77
fi
if [ "${SLUICE_GOLDEN_UPDATE:-}" = 1 ]; then
    cp "$WORK/actual" "$here/cases/$name.expected"
    exit 0
fi
diff -a -u "$here/cases/$name.expected" "$WORK/actual"
