#!/usr/bin/env bash
# Installs the release build into an empty folder, builds the example against it and asks the installed model.
set -eu
cd "$(dirname "$0")/.."
prefix=$(mktemp -d)
trap 'rm -rf "$prefix"' EXIT

cmake --preset release >/dev/null
cmake --build --preset release >/dev/null
cmake --install build --prefix "$prefix" >/dev/null
pc=$(find "$prefix" -name sluice.pc -printf '%h' -quit)
libdir=$(PKG_CONFIG_PATH=$pc pkg-config --variable=libdir sluice)
cc=${CC:-cc}
# shellcheck disable=SC2046
$cc -std=c11 -Wall -Werror examples/ask.c $(PKG_CONFIG_PATH=$pc pkg-config --cflags --libs sluice) \
    -o "$prefix/ask"
answer=$(LD_LIBRARY_PATH=$libdir "$prefix/ask" "$prefix/share/sluice/models/demo" "What does happy mean?")
case "$answer" in
*"enjoying or showing"*) echo "installed library answers: $answer" ;;
*)
    echo "check_install: unexpected answer: $answer" >&2
    exit 1
    ;;
esac
"$prefix/bin/sluice" run --quiet --chat -p "What does happy mean?" | grep -q "enjoying or showing" || {
    echo "check_install: the installed command does not find the installed model" >&2
    exit 1
}
