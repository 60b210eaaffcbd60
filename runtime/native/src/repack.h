/* Weights in another block size than the plan's: [group][ceil(rows/block)][col][block], zero-filled. */
#ifndef RT_REPACK_H
#define RT_REPACK_H

#include "engine.h"

/* The weights of a packing in blocks of `block`, made at the first request, as memory object or on the host. The result
 * is valid until the next call. */
rt_status rt_repack_get(rt_engine *engine, uint32_t pack, uint32_t block, bool on_host, const rt_repacked **repacked,
                        rt_error *error);
void rt_repack_release(rt_engine *engine);

#endif
