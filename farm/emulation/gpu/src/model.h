/* How long a launch takes on the played GPU: an analytic model, without a state.
 *
 * A compute unit runs waves of work items. A wave takes the longer of computing and reading through the unit's cache,
 * which is longer where its lanes lie far apart, and where too few waves are on the unit to hide the latency: waves need
 * registers, so large tiles hold few. All units together share L2 and memory. Groups are dealt to units in rounds, so a
 * last round that is not full costs a whole one.
 */
#ifndef PLAYED_MODEL_H
#define PLAYED_MODEL_H

#include "costs.h"
#include "profile.h"

/* Time of a launch in ns, without what it takes to start it. Sizes of axes that the launch does not have are 1. */
double played_launch_ns(const played_profile *profile, const played_work *work, const size_t global[3],
                        const size_t local[3]);

/* The largest work group that the kernel can be launched with: a power of two from 32 (or less, where the GPU has less)
 * to the GPU's own limit, which those of many registers do not reach. */
size_t played_group_limit(const played_profile *profile, const played_work *work);

/* 0 for a work group within the limits, 1 for one that does not go into the launch, or has more items than `limit`, 2 for
 * one with too many items on an axis. */
int played_local_refused(const played_profile *profile, size_t limit, const size_t global[3], const size_t local[3]);

/* The work group that the driver chooses for a launch without one. */
void played_driver_local(const played_profile *profile, size_t limit, const size_t global[3], size_t local[3]);

#endif
