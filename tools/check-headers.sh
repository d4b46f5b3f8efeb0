#!/bin/sh
# Every header of ours compiles alone. Needs a configured build whose messages are generated; its
# folder is the argument, build unless given.
set -eu
cd "$(dirname "$0")/.."
build=${1:-build}

check_one='
    printf "#include \"%s\"\n" "${2#src/}" |
        gcc -std=gnu17 -D_GNU_SOURCE -Isrc -Itests/lib -isystem "$1/proto/include" -Wall -Wextra \
            -Wstrict-prototypes -Werror -fsyntax-only -x c - || { echo "$2 does not compile alone"; exit 1; }'
git ls-files -z -- 'src/*.h' | xargs -0 -r -n 1 -P "$(nproc)" sh -c "$check_one" sh "$build"
