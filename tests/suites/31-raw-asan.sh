#!/bin/sh
# The same tests by hand on the server under the address and undefined-behaviour sanitizers: bad bytes
# first of all. Left out: what measures memory or speed.
# timeout: 1200
export PERDURE_SANITIZED=1
exec "$(dirname "$0")/../raw/suite.sh" --jobs 4 --skip rapid_reset --skip pings_every --skip many_workers \
    --skip without_a_deadline --skip a_child_that_takes_long --skip raw.start.large --skip many_buffered \
    --skip many_events_in --skip many_actions --skip clients_give_up --skip thousand --skip slow_reader \
    --skip kill_at_random --skip memory_after --skip no_busy --skip nothing_looks_missing \
    --skip many_generations --skip eternal_loops --skip many_instances --skip results_are_batched \
    --skip a_singleton --skip a_long_history --skip hundred_thousand --skip large_history \
    transport start turns activities timers children events suspend continue dispatch tokenless drain random secure
