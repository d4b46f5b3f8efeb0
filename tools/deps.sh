#!/bin/sh
# Installs the Debian packages that are missing; instant, and no root needed, when none is.
#
#   tools/deps.sh build    what building takes
#   tools/deps.sh          what the tests take as well
#   tools/deps.sh bench    what comparing with other servers takes as well
set -eu

# Libraries, and their headers: by package.
packages="libnghttp2-dev libevent-dev libssl-dev libprotobuf-c-dev libprotobuf-dev libsqlite3-dev
    libjansson-dev libxxhash-dev libmimalloc-dev zlib1g-dev libcmocka-dev"
# Programs: `package:command`, asked for by the command, since many come from elsewhere too.
programs="gcc:gcc make:make cmake:cmake ninja-build:ninja pkg-config:pkg-config
    protobuf-compiler:protoc protobuf-c-compiler:protoc-c python3:python3"
if [ "${1:-all}" != build ]; then
    packages="$packages libclang-rt-14-dev"
    programs="$programs clang:clang clang-format:clang-format clang-tidy:clang-tidy git:git valgrind:valgrind
        util-linux:flock sqlite3:sqlite3 curl:curl procps:ps openssl:openssl openjdk-17-jdk-headless:javac maven:mvn"
fi
if [ "${1:-all}" = bench ]; then
    programs="$programs nghttp2-server:nghttpd nghttp2-client:h2load strace:strace"
fi

missing=
for package in $packages; do
    status=$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null || true)
    [ "$status" = installed ] || missing="$missing $package"
done
for program in $programs; do
    command -v "${program#*:}" >/dev/null || missing="$missing ${program%%:*}"
done
if ! python3 -c 'import ensurepip, venv' 2>/dev/null; then
    missing="$missing python3-venv"
fi
[ -n "$missing" ] || exit 0

echo "installing:$missing" >&2
if [ "$(id -u)" -eq 0 ]; then
    sudo=
elif command -v sudo >/dev/null; then
    sudo=sudo
else
    echo "cannot install Debian packages without root or sudo; as root: apt-get install$missing" >&2
    exit 1
fi
export DEBIAN_FRONTEND=noninteractive
$sudo apt-get update -qq >&2
# shellcheck disable=SC2086 # a list of words
$sudo apt-get install -y -qq --no-install-recommends $missing >&2
