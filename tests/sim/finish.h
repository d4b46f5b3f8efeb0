/* finish.h - the end of a run: faults stop, everything ends within 30 simulated minutes, and what is left is checked. */
#pragma once

#include "sim/sim.h"

void sim_finish(struct sim *s);
