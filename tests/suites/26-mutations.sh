#!/bin/sh
# Thirty deliberate bugs (tests/sim/mutations/): each patch applies, and is caught by the seed of the simulator or the
# test that tests/sim/mutations/TABLE names for it. Then the tool itself: what it must refuse, and what it must not find.
# timeout: 900
set -u
failed=0
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

# ends STATUS NAME FILE SCRIPT: mutate ends with STATUS for a patch that does to FILE what sed's SCRIPT says.
ends() {
    sed "$4" "$3" | diff -u --label "a/$3" --label "b/$3" "$3" - >"$dir/$2.patch"
    [ "$1" != 2 ] || sed -i 's/^ /  /' "$dir/$2.patch" # its context is no longer there
    tests/sim/mutate "$dir/$2.patch" --seeds 2 >"$dir/out" 2>&1
    status=$?
    if [ "$status" = "$1" ]; then
        echo "PASS $2"
    else
        sed 's/^/    /' "$dir/out"
        echo "FAIL $2: status $status"
        failed=1
    fi
}

tests/sim/mutate --check || failed=1
ends 2 a_patch_of_other_text_is_refused src/engine/timers.c '1i /* A line more. */'
ends 3 a_patch_that_does_not_compile_says_so src/engine/timers.c '1i #error planted'
ends 1 a_change_of_a_comment_is_not_caught src/engine/timers.c '1i /* A line more. */'
# Headers are built as a whole.
ends 3 a_header_that_does_not_compile_says_so src/durabletask/orchestration.h '1i #error planted'
ends 0 a_bug_in_a_header_is_caught src/durabletask/orchestration.h 's/ || status == ORCH_TERMINATED//'
exit $failed
