#include "sim/shrink.h"

bool shrink(const struct sim_options *opts, uint64_t seed)
{
    (void)opts;
    (void)seed;
    return false;
}
