/* How attention is divided among workers: a turn is some queries of a head. Without state. */
#ifndef RT_ATTENTION_TURNS_H
#define RT_ATTENTION_TURNS_H

#include "../../native/src/cpu/workers.h"
#include "../../native/src/system/arithmetic.h"

/* The queries of a turn, and the turns of a head. A value. */
typedef struct {
    int64_t queries;
    uint32_t turns;
} rt_attention_turns;

/* As few turns as there may be, each with as many queries, but more than workers. `pixels`: of a tile, which a turn
 * fills; `most`: queries that a turn has memory for. */
static inline rt_attention_turns rt_attention_turns_divide(const rt_workers *workers, uint64_t heads, uint64_t queries,
                                                           uint64_t pixels, uint64_t most) {
    enum { TURNS_PER_WORKER = 3 };
    uint64_t threads = rt_workers_count(workers), wanted = threads > 1 ? threads * TURNS_PER_WORKER : 1;
    uint64_t most_turns = rt_ceil_div(queries, pixels), least_turns = rt_ceil_div(queries, most);
    uint64_t turns = rt_ceil_div(wanted, heads);
    turns = turns < least_turns ? least_turns : turns > most_turns ? most_turns : turns;
    if (heads % threads != 0) turns = rt_ceil_div(turns, threads) * threads;
    uint64_t of_a_turn = rt_ceil_div(queries, turns);
    return (rt_attention_turns){(int64_t)of_a_turn, (uint32_t)rt_ceil_div(queries, of_a_turn)};
}

#endif
