#!/bin/sh
# Says which C files are not as .clang-format has them, and fails when there are any; with --fix it
# formats them. Only files that git knows.
set -eu
cd "$(dirname "$0")/.."

if [ "${1:-}" = --fix ]; then
    git ls-files -z -- '*.c' '*.h' | xargs -0 -r clang-format -i
    exit 0
fi
# One line a file, with its first line that differs.
git ls-files -z -- '*.c' '*.h' | xargs -0 -r -n 1 -P "$(nproc)" sh -c '
    clang-format "$1" | cmp -s - "$1" && exit 0
    echo "$1:$(clang-format "$1" | diff "$1" - | sed -n "1s/[,acd].*//p"): not as make format has it"
    exit 1' sh
