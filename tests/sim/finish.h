/* finish.h - the end of a run: faults stop, everything ends within 30 simulated minutes, and what is left is checked. */
#pragma once

#include "sim/sim.h"

void sim_finish(struct sim *s);
/* The instances that have not ended, on stderr. */
void sim_print_living(struct sim *s);
