#!/usr/bin/env bash
# Installs the Debian packages that are missing. Usage: scripts/setup.sh [developer]
#   (nothing)   what building, running and testing need
#   developer   also the second compiler, format and lint tools, sanitizers, the arm64 cross build and its emulator
set -eu

packages="gcc libc6-dev cmake ninja-build pkg-config libjansson-dev libpcre2-dev libxxhash-dev libutf8proc-dev libedit-dev libcmocka-dev"
if [ "${1:-}" = developer ]; then
    packages="$packages clang clang-format clang-tidy libclang-rt-14-dev qemu-user gcc-aarch64-linux-gnu libc6-dev-arm64-cross
        libjansson-dev:arm64 libpcre2-dev:arm64 libxxhash-dev:arm64 libutf8proc-dev:arm64 libedit-dev:arm64 libcmocka-dev:arm64"
fi

if ! command -v dpkg-query >/dev/null; then
    echo "setup: this script knows Debian packages only; install by hand what matches:" $packages >&2
    exit 0
fi

installed() {
    dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null | grep -q '^installed'
}

missing=
for package in $packages; do
    installed "$package" || missing="$missing $package"
done
[ -n "$missing" ] || exit 0

as_root=
if [ "$(id -u)" != 0 ]; then
    if ! command -v sudo >/dev/null; then
        echo "setup: as root, run: apt-get install --no-install-recommends$missing" >&2
        exit 1
    fi
    as_root=sudo
fi
case "$missing" in
*:arm64*) $as_root dpkg --add-architecture arm64 ;;
esac
echo "setup: installing$missing" >&2
$as_root apt-get update -qq
$as_root env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends $missing >/dev/null
