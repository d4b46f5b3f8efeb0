#!/bin/sh
# clang-tidy with the checks of .clang-tidy over every .c of src/. Needs a configured build whose
# messages are generated; its folder is the argument, build-asan unless given.
set -eu
cd "$(dirname "$0")/.."
build=${1:-build-asan}

# Flags of gcc that clang does not know are no finding.
git ls-files -z -- 'src/*.c' | xargs -0 -r -n 4 -P "$(nproc)" clang-tidy --quiet -p "$build" \
    --extra-arg=-Wno-unknown-warning-option --extra-arg=-Wno-ignored-optimization-argument \
    --extra-arg=-Wno-error
