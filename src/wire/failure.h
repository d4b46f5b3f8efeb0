/* failure.h - keeps stored failure details shallow enough for every SDK's parser.
 *
 * A chain of failures grows with each parent that wraps its child's; Python and Java cannot parse a
 * work item with more than 97 levels, and their stream would break for ever. So what is stored is cut
 * (spec 6.8): the outermost failure is level 1, an inner failure is one level further, and each list
 * or struct inside a property value three.
 * Tests: tests/unit/test_wire_failure.c
 */
#pragma once

#include <stdbool.h>

#include "durabletask.pb-c.h"

/* Cuts everything past `levels` (> 0): inner failures are dropped, lists and structs in property
 * values become null. Changes *details in place. True when something was cut. */
bool wire_failure_cut(TaskFailureDetails *details, unsigned levels);
