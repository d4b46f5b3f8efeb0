#!/bin/sh
# Says which C files are not as .clang-format has them, and fails when there are any; with --fix it
# formats them. Only files that git knows.
set -eu
cd "$(dirname "$0")/.."

if [ "${1:-}" = --fix ]; then
    git ls-files -z -- '*.c' '*.h' | xargs -0 -r clang-format -i
    exit 0
fi
git ls-files -z -- '*.c' '*.h' | xargs -0 -r -n 8 -P "$(nproc)" clang-format --dry-run -Werror
