/* client.h - clients: they start, raise, wait, look, suspend, terminate and purge; retry, time out and give up. */
#pragma once

#include "sim/sim.h"

struct client *client_new(struct sim *s, unsigned number);
void client_free(struct client *c);
void client_start(struct client *c);
struct net_conn *client_conn(struct client *c); /* NULL: not connected */
/* ResumeInstance for an instance that nobody else would resume any more (the end of a run). */
void client_resume(struct client *c, struct bytes id);
