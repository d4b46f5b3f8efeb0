/* shrink.h - makes a failing run small: the same checker, with fewer actors, operations and faults and less time. */
#pragma once

#include "sim/sim.h"

/* Prints what is left and the command that runs it. False: the seed does not fail. */
bool shrink(const struct sim_options *opts, uint64_t seed);
