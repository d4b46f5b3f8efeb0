/* stage.h - a small real store with a bit of everything in it, for the fuzzer that damages stores.
 *
 * Each instance has work to do that ends it: a turn, an activity, a timer, a child, events behind a suspension, a scheduled
 * start; two have ended already. stage_finish() plays the worker until nothing is left.
 */
#pragma once

#include "talk.h"

struct stage_instance {
    const char *id;
    const char *needs; /* the instance that it waits for; NULL: none */
    int32_t status;    /* when all is done */
};

#define STAGE_INSTANCES 10
extern const struct stage_instance STAGE[STAGE_INSTANCES];

/* The bytes of the store's file, as a clean stop leaves it. */
void stage_build(struct strbuf *image);
/* Hands out and answers all that comes, for two minutes of the world's clock; resumes what is suspended. How many calls were
 * UNAVAILABLE. */
unsigned stage_finish(struct served *s, bool lies);
