#!/bin/sh
# Every number of the checklist, and every public report that is to have a test, is named by one; and
# the script that says so notices what is missing.
set -u
root=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
failed=0

report() { # report STATUS NAME
    if [ "$1" -eq 0 ]; then
        echo "PASS $2"
    else
        echo "FAIL $2"
        failed=1
        cat "$work/log"
    fi
}

python3 "$root/tools/check-checklist.py" >"$work/log"
report $? checklist.numbers_and_reports
sed 's/^/    /' "$work/log"

# notices NAME TEXT LINE: a folder whose one test has this line is refused with this text.
notices() {
    mkdir -p "$work/tests"
    printf '%s\n' "$3" >"$work/tests/test.py"
    python3 "$root/tools/check-checklist.py" "$work/tests" >"$work/log"
    [ $? -eq 1 ] && grep -q "$2" "$work/log"
    report $? "checklist.notices_$1"
}
notices missing_numbers "no test names: 2, 3, 4, 5, 7" "# checklist: 1, 6, 8"
notices a_partial_one "without need: 12$" "# checklist-partial: 12"
notices a_bad_marker "cannot read the marker" "# checklist: twelve"
notices missing_reports "no test names: BL-001, BL-002, BL-004" "# reports: BL-003"
notices one_that_is_not_for_later "BL-017 is left for later, but a test names it" "# reports: BL-017"
exit "$failed"
