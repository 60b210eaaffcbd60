/* attention: y[b][h][l] = sum over s of p[s] * v[b][h][s], where p is the softmax over s of
 * scale * (q[b][h][l] . k[b][h][s]) + mask[b][h][l][s].
 *
 * A turn is up to QUERIES queries of a head. They pass over the keys once, KEYS at a time: both products are those of
 * cpu_tile.h, and of the scores so far only the greatest of each query and the sum of its weights are kept; what was
 * summed is scaled anew where a greater one comes. The _check and _run functions keep the contract of rt_cpu_operator.
 */
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "../../native/src/system/arithmetic.h"
#include "cpu_arguments.h"
#include "../../native/src/cpu/cpu_math.h"
#include "../../native/src/cpu/cpu_tile.h"
#include "../../native/src/cpu/cpu_vector.h"
#include "attention_turns.h"

enum { QUERIES = 104, KEYS = 256 };
enum { FEW_QUERIES = 8 }; /* for which packing the keys takes longer than the product with them */
enum {
    Q = RT_ATTENTION_Q,
    K = RT_ATTENTION_K,
    V = RT_ATTENTION_V,
    MASK = RT_ATTENTION_MASK,
    Y = RT_ATTENTION_Y
};
typedef rt_attention_args dims;

/* A matrix whose rows and columns lie anywhere. A value. */
typedef struct {
    const float *data;
    int64_t row, column; /* elements from one to the next */
} matrix;

/* What all turns share. */
typedef struct {
    const rt_cpu_call *call;
    rt_workers *workers;
    dims d;
    int64_t queries_per_turn;
    uint32_t turns; /* of a head */
} job;

/* One turn: its queries, and a worker's memory. Matrices are row-major; `weights` are scores first. */
typedef struct {
    const job *all;
    int64_t first, count; /* queries */
    matrix k, v, mask;
    float *q;       /* [count][depth], scaled */
    float *weights; /* [count][KEYS] */
    float *packed;  /* as rt_tile has weights: keys by blocks of them, or values by blocks of their elements */
    float *sums;    /* [count][values] */
    float *greatest, *total; /* [count] */
} turn_state;

static uint64_t whole_blocks(uint64_t count) { return rt_ceil_div(count, RT_CPU_BLOCK) * RT_CPU_BLOCK; }

/* Elements of what is packed: of KEYS keys, or values. */
static uint64_t packed_elements(const dims *d) {
    uint64_t keys = d->keys < KEYS ? whole_blocks((uint64_t)d->keys) : KEYS;
    return rt_product(keys, whole_blocks((uint64_t)(d->depth > d->values ? d->depth : d->values)));
}

static const char *attention_check(const rt_cpu_call *call, rt_cpu_needs *needs) {
    dims d = rt_attention_args_of(call);
    const rt_cpu_tensor *tensors = call->tensors;
    const int32_t groups = d.heads / d.members; /* of heads that share keys and values */
    const int32_t q_extents[] = {d.batch, d.heads, d.queries, d.depth}, k_extents[] = {d.batch, groups, d.keys, d.depth};
    const int32_t v_extents[] = {d.batch, groups, d.keys, d.values}, m_extents[] = {d.batch, d.heads, d.queries, d.keys};
    const int32_t y_extents[] = {d.batch, d.heads, d.queries, d.values};
    uint64_t turns = rt_product3(d.batch, d.heads, d.queries);
    if (turns > UINT32_MAX) return "too many queries";
    if (d.heads % d.members != 0) return "its heads are no whole groups";
    if (!rt_nest_fits(&tensors[Q], q_extents, d.qs, 4)) return "q exceeds its pool";
    if (!rt_nest_fits(&tensors[K], k_extents, d.ks, 4)) return "k exceeds its pool";
    if (!rt_nest_fits(&tensors[V], v_extents, d.vs, 4)) return "v exceeds its pool";
    if (d.masked && !rt_nest_fits(&tensors[MASK], m_extents, d.ms, 4)) return "the mask exceeds its pool";
    if (!rt_nest_fits(&tensors[Y], y_extents, d.ys, 4)) return "the output exceeds its pool";
    needs->work = rt_product(turns, rt_product((uint64_t)d.keys, (uint64_t)d.depth + (uint64_t)d.values));
    uint64_t of_a_query = (uint64_t)d.depth + (uint64_t)d.values + KEYS + 2;
    needs->scratch_bytes = rt_product(rt_sum(rt_product(QUERIES, of_a_query), packed_elements(&d)), sizeof(float));
    return NULL;
}

/* --- products --- */

/* Four neighbours of each of four columns, which lie `column` apart, as parts of four rows of a block. */
static void quad_pack(const float *source, int64_t column, float *packed) {
#if defined(__SSE2__)
    __m128 a = _mm_loadu_ps(source), b = _mm_loadu_ps(source + column);
    __m128 c = _mm_loadu_ps(source + 2 * column), d = _mm_loadu_ps(source + 3 * column);
    _MM_TRANSPOSE4_PS(a, b, c, d);
    const __m128 rows[4] = {a, b, c, d};
    for (int r = 0; r < 4; r++) _mm_storeu_ps(packed + r * RT_CPU_BLOCK, rows[r]);
#else
    for (int r = 0; r < 4; r++) {
        for (int i = 0; i < 4; i++) packed[r * RT_CPU_BLOCK + i] = source[i * column + r];
    }
#endif
}

/* Packs a whole block of columns, four by four where rows are neighbours. */
static void block_pack(const matrix *m, const float *source, int64_t rows, float *packed) {
    int64_t r = 0;
    for (; m->row == 1 && r + 4 <= rows; r += 4, packed += 4 * RT_CPU_BLOCK) {
        for (int64_t i = 0; i < RT_CPU_BLOCK; i += 4) quad_pack(source + r + i * m->column, m->column, packed + i);
    }
    for (; r < rows; r++, packed += RT_CPU_BLOCK) {
        for (int64_t i = 0; i < RT_CPU_BLOCK; i++) packed[i] = source[r * m->row + i * m->column];
    }
}

/* Packs `rows` rows, each a depth of the product, with `columns` columns into blocks; zeros fill the last. */
static void pack(const matrix *m, int64_t rows, int64_t columns, float *packed) {
    for (int64_t first = 0; first < columns; first += RT_CPU_BLOCK, packed += rows * RT_CPU_BLOCK) {
        const float *source = m->data + first * m->column;
        int64_t count = columns - first;
        if (count >= RT_CPU_BLOCK) {
            block_pack(m, source, rows, packed);
            continue;
        }
        for (int64_t i = 0; i < rows * RT_CPU_BLOCK; i++) {
            int64_t r = i / RT_CPU_BLOCK, c = i % RT_CPU_BLOCK;
            packed[i] = c < count ? source[r * m->row + c * m->column] : 0.0f;
        }
    }
}

/* y[p] (+)= x[p] . weights, for all queries p of a turn and `channels` columns; `tile` has the weights and the depth. */
static void product(const turn_state *turn, const float *x, int64_t x_stride, rt_tile tile, rt_epilogue *end,
                    uint64_t channels) {
    const rt_tile_kernels *tiles = turn->all->call->tiles;
    const float *rows[RT_TILE_PIXELS];
    end->a = -INFINITY, end->b = INFINITY;
    tile.rows = rows, tile.taps = 1, tile.epilogue = end;
    for (uint64_t blocks = rt_ceil_div(channels, RT_CPU_BLOCK); tile.first_channel < channels; blocks -= tile.blocks) {
        tile.blocks = rt_tile_blocks(tiles, blocks);
        uint64_t width = (uint64_t)tile.blocks * RT_CPU_BLOCK, rest = channels - tile.first_channel;
        tile.channels = rest < width ? rest : width;
        for (int64_t p = 0; p < turn->count; p += tiles->pixels) {
            int64_t exist = turn->count - p;
            tile.first_pixel = (uint64_t)p;
            tile.pixels = (uint32_t)(exist < tiles->pixels ? exist : tiles->pixels);
            for (uint32_t i = 0; i < RT_TILE_PIXELS; i++) {
                rows[i] = x + (p + (i < tile.pixels ? i : tile.pixels - 1)) * x_stride;
            }
            tiles->product(&tile);
        }
        tile.weights += tile.blocks * tile.block_stride;
        tile.first_channel += width;
    }
}

/* The scores of all queries of a turn and `keys` keys from `from` on. */
static void scores_compute(turn_state *turn, int64_t from, int64_t keys) {
    const dims *d = &turn->all->d;
    const float *first = turn->k.data + from * turn->k.row;
    if (turn->count <= FEW_QUERIES && turn->k.column == 1) {
        turn->all->call->tiles->dots(&(rt_dots){.x = turn->q,
                                                .rows = first,
                                                .y = turn->weights,
                                                .x_stride = d->depth,
                                                .rows_stride = turn->k.row,
                                                .y_stride = KEYS,
                                                .queries = (uint64_t)turn->count,
                                                .count = (uint64_t)keys,
                                                .depth = (uint64_t)d->depth});
        return;
    }
    const matrix transposed = {first, turn->k.column, turn->k.row};
    pack(&transposed, d->depth, keys, turn->packed);
    rt_tile tile = {.depth = (uint32_t)d->depth,
                    .weights = turn->packed,
                    .weights_stride = RT_CPU_BLOCK,
                    .block_stride = (int64_t)d->depth * RT_CPU_BLOCK};
    /* zeros behind the last key, which whole blocks need no care for */
    product(turn, turn->q, d->depth, tile, &(rt_epilogue){.y = turn->weights, .y_stride = KEYS}, whole_blocks((uint64_t)keys));
}

/* Adds the weighted values to the sums. Values are read where they lie, if these are runs of whole blocks. */
static void values_add(turn_state *turn, int64_t from, int64_t keys) {
    const dims *d = &turn->all->d;
    const matrix values = {turn->v.data + from * turn->v.row, turn->v.row, turn->v.column};
    rt_tile tile = {.depth = (uint32_t)keys,
                    .weights = values.data,
                    .weights_stride = values.row,
                    .block_stride = RT_CPU_BLOCK};
    if (values.column != 1 || d->values % RT_CPU_BLOCK != 0) {
        pack(&values, keys, d->values, turn->packed);
        tile.weights = turn->packed;
        tile.weights_stride = RT_CPU_BLOCK;
        tile.block_stride = keys * RT_CPU_BLOCK;
    }
    rt_epilogue end = {.y = turn->sums, .y_stride = d->values};
    if (from > 0) end.residual = turn->sums, end.residual_stride = d->values;
    product(turn, turn->weights, KEYS, tile, &end, (uint64_t)d->values);
}

/* --- weights --- */

/* Adds the mask to the scores of a query; behind it there is nothing where attention is causal. */
static void scores_mask(const turn_state *turn, int64_t query, int64_t from, int64_t keys, float *scores) {
    const dims *d = &turn->all->d;
    int64_t place = turn->first + query;
    if (d->masked) {
        const float *mask = turn->mask.data + place * turn->mask.row + from * turn->mask.column;
        for (int64_t s = 0; s < keys; s++) scores[s] += mask[s * turn->mask.column];
    }
    for (int64_t s = place + 1 > from ? place + 1 - from : 0; d->causal && s < keys; s++) scores[s] = -INFINITY;
}

/* Turns scores into weights that are to be divided by the total, and scales the total and the sums so far. */
static void scores_to_weights(turn_state *turn, int64_t from, int64_t keys) {
    const rt_tile_kernels *tiles = turn->all->call->tiles;
    int64_t values = turn->all->d.values;
    for (int64_t p = 0; p < turn->count; p++) {
        float *scores = turn->weights + p * KEYS, *sums = turn->sums + p * values;
        scores_mask(turn, p, from, keys, scores);
        float before = turn->greatest[p], most = rt_greater(tiles->greatest(scores, (uint64_t)keys), before);
        float base = most == -INFINITY ? 0.0f : most; /* of keys that are all masked, none has a weight */
        float factor = rt_exp(before - base);
        turn->greatest[p] = most;
        turn->total[p] = turn->total[p] * factor + tiles->exponentials(scores, (uint64_t)keys, base);
        for (int64_t e = 0; e < values && from > 0; e++) sums[e] *= factor;
    }
}

/* --- turns --- */

/* to = factor * from; apart where both are runs of neighbours, so that it becomes vector code. */
static void scaled_copy(const float *restrict from, int64_t from_step, float factor, int64_t count, float *restrict to,
                        int64_t to_step) {
    if (from_step == 1 && to_step == 1) {
        for (int64_t i = 0; i < count; i++) to[i] = factor * from[i];
        return;
    }
    for (int64_t i = 0; i < count; i++) to[i * to_step] = factor * from[i * from_step];
}

/* The memory of a worker and the queries of a turn. */
static turn_state turn_start(const job *all, uint32_t turn, uint32_t worker) {
    const dims *d = &all->d;
    const rt_cpu_tensor *tensors = all->call->tensors;
    int64_t pair = turn / all->turns, b = pair / d->heads, h = pair % d->heads, group = h / d->members;
    int64_t mask = d->masked ? b * d->ms[0] + h * d->ms[1] : 0;
    turn_state own = {.all = all,
                      .first = turn % all->turns * all->queries_per_turn,
                      .k = {rt_floats(&tensors[K]) + b * d->ks[0] + group * d->ks[1], d->ks[2], d->ks[3]},
                      .v = {rt_floats(&tensors[V]) + b * d->vs[0] + group * d->vs[1], d->vs[2], d->vs[3]},
                      .mask = {rt_floats(&tensors[MASK]) + mask, d->ms[2], d->ms[3]},
                      .packed = (float *)(void *)rt_workers_scratch(all->workers, worker)};
    int64_t rest = d->queries - own.first;
    own.count = rest < all->queries_per_turn ? rest : all->queries_per_turn;
    own.q = own.packed + packed_elements(d);
    own.weights = own.q + QUERIES * d->depth;
    own.sums = own.weights + QUERIES * KEYS;
    own.greatest = own.sums + QUERIES * d->values;
    own.total = own.greatest + QUERIES;
    const float *q = rt_floats(&tensors[Q]) + b * d->qs[0] + h * d->qs[1] + own.first * d->qs[2];
    for (int64_t p = 0; p < own.count; p++, q += d->qs[2]) {
        scaled_copy(q, d->qs[3], d->scale, d->depth, own.q + p * d->depth, 1);
        own.greatest[p] = -INFINITY;
        own.total[p] = 0.0f;
    }
    return own;
}

/* The sums, divided by the totals, to where the output lies. Of masked 2 a query without weights has 0, not NaN. */
static void turn_end(const turn_state *turn, float *y) {
    const dims *d = &turn->all->d;
    for (int64_t p = 0; p < turn->count; p++, y += d->ys[2]) {
        float *sums = turn->sums + p * d->values, total = turn->total[p];
        bool is_hidden = d->masked == 2 && !(total > 0.0f);
        if (is_hidden) memset(sums, 0, (size_t)d->values * sizeof *sums);
        scaled_copy(sums, 1, is_hidden ? 0.0f : 1.0f / total, d->values, y, d->ys[3]);
    }
}

static void turn_run(const void *context, uint32_t turn, uint32_t worker) {
    const job *all = context;
    const dims *d = &all->d;
    turn_state own = turn_start(all, turn, worker);
    int64_t seen = own.first + own.count, end = d->causal && seen < d->keys ? seen : d->keys;
    for (int64_t from = 0; from < end; from += KEYS) {
        int64_t keys = end - from < KEYS ? end - from : KEYS;
        scores_compute(&own, from, keys);
        scores_to_weights(&own, from, keys);
        values_add(&own, from, keys);
    }
    int64_t pair = turn / all->turns;
    turn_end(&own, rt_floats(&all->call->tensors[Y]) + pair / d->heads * d->ys[0] + pair % d->heads * d->ys[1] +
                       own.first * d->ys[2]);
}

static void attention_run(const rt_cpu_call *call, rt_workers *workers) {
    job all = {.call = call, .workers = workers, .d = rt_attention_args_of(call)};
    uint64_t heads = (uint64_t)all.d.batch * (uint64_t)all.d.heads;
    rt_attention_turns divided =
        rt_attention_turns_divide(workers, heads, (uint64_t)all.d.queries, call->tiles->pixels, QUERIES);
    all.queries_per_turn = divided.queries;
    all.turns = divided.turns;
    rt_workers_run(workers, (uint32_t)heads * all.turns, turn_run, &all);
}

const rt_cpu_operator rt_cpu_attention = {RT_ATTENTION_ROW, .check = attention_check, .run = attention_run};
