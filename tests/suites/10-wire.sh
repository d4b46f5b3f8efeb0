#!/bin/sh
# The .proto files agree with the tables of names and numbers, and the checker notices when not.
# Prints PASS, FAIL or SKIP and a name, a line each. Exit status: 1 when one failed.
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
        cat "$work/log" >&2
    fi
}

check() { # check SET TABLE
    python3 "$root/tests/wire/check_wire.py" "$1" "$2" >"$work/log" 2>&1
}

protoc -I "$root/proto" --include_imports --descriptor_set_out="$work/set.pb" \
    "$root"/proto/*.proto >"$work/log" 2>&1
report $? wire.compiles
[ "$failed" -eq 0 ] || exit 1

for table in durabletask perdure_admin; do
    check "$work/set.pb" "$root/tests/wire/$table.txt"
    report $? "wire.$table"
done

# finds NAME EXPECTED SED-SCRIPT: the table changed by the script is told apart from the .proto.
finds() {
    sed "$3" "$root/tests/wire/durabletask.txt" >"$work/changed.txt"
    cmp -s "$work/changed.txt" "$root/tests/wire/durabletask.txt" && echo "the script changes nothing" >"$work/log"
    check "$work/set.pb" "$work/changed.txt"
    status=$?
    grep -q "^$2" "$work/log" && [ "$status" -eq 1 ]
    report $? "wire.finds_$1"
}
finds missing_field "missing: field ActivityRequest.retries 8 int32" '/^message ActivityRequest$/a\    8 retries int32'
finds missing_method "missing: method TaskHubSidecarService.Goodbye" '/^    Hello: /a\    Goodbye: WorkItem -> WorkItem'
finds extra_field "extra: field OrchestratorResponse.isPartial" '/ isPartial /d'
finds extra_message "extra: message HealthPing" '/^message HealthPing$/d'
finds changed_number "changed: field WorkItem.completionToken" 's/10 completionToken/11 completionToken/'
finds changed_type "changed: field TaskFailureDetails.isNonRetriable" 's/isNonRetriable bool/isNonRetriable int32/'
finds changed_oneof "changed: field HistoryEvent.timerFired" 's/timerFired TimerFiredEvent in eventType/timerFired TimerFiredEvent/'
finds changed_enum "changed: value OrchestrationStatus.ORCHESTRATION_STATUS_PENDING" 's/6 ORCHESTRATION_STATUS_PENDING/8 ORCHESTRATION_STATUS_PENDING/'
finds changed_stream "changed: method TaskHubSidecarService.GetWorkItems" 's/-> stream WorkItem/-> WorkItem/'
finds lost_reserve "extra: reserved OrchestrationIdReusePolicy.2" '/^    reserved 2$/d'

shared="$root/../shared/wire"
if [ -e "$shared/check.py" ]; then
    python3 "$shared/check.py" "$work/set.pb" "$shared/durabletask.tsv" --no-extra >"$work/log" 2>&1
    report $? wire.shared_table
else
    echo "SKIP wire.shared_table: no shared tables beside the checkout"
fi
exit "$failed"
