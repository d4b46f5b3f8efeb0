/* worker.h - workers as the released SDKs make them, with their habits, and some that are worse.
 *
 *   PY, JS  send tokens, say Hello first, reconnect with back-off; PY limits its items
 *   GO      no tokens; an answer that is under way when its stream breaks goes out on the next connection
 *   JAVA    no tokens, no Hello, one item at a time; after an error to a completion it leaves its stream unread and opens another 5 s later
 *
 * None sends a completion again. Workers without tokens answer each dispatch once, soon or never: later answers are the stated limit
 * of spec 8.2.
 */
#pragma once

#include "sim/sim.h"

struct worker *worker_new(struct sim *s, unsigned number);
void worker_free(struct worker *w);
void worker_start(struct worker *w);
/* Its process ends, with all it held; another one comes after `pause`. */
void worker_die(struct worker *w, usec_t pause);
/* From now on it does its work and nothing else. */
void worker_behave(struct worker *w);
struct net_conn *worker_conn(struct worker *w); /* NULL: not connected */
bool worker_is_token_less(const struct worker *w);
