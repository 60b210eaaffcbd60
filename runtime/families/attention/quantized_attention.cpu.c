/* quantized_attention: attention between tensors of eight bits (cpu_quantized.h), where scores and weights are rounded to
 * bytes, too:
 *
 *   score = table[bytes of score_scale * sum of (q - q_zero) (k - k_zero)], within score_a and score_b
 *   weight = bytes of softmax(step * score) * per_weight, of the zero point w_zero
 *   y = bytes of y_scale * sum of (weight - w_zero) (v - v_zero), within act_a and act_b
 *
 * A turn is some queries of a head. Keys and values, less 128, become weights of products of bytes: these have too much what
 * rows of zero points have (a bias of each column), and too little what their zero points are less than 128 (a start of
 * each row). The _check and _run functions keep the contract of rt_cpu_operator. */
#include <float.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "../../native/src/cpu/cpu_quantized.h"
#include "../../native/src/cpu/cpu_vector.h"
#include "../../native/src/system/arithmetic.h"
#include "attention_turns.h"

enum { MOST_QUERIES = 256, LEAST_QUERIES = 48, SCORES = 1 << 16 };
enum { MIDDLE = 128, BYTES = 256, AT_ONCE = 8 };
enum {
    Q = RT_QUANTIZED_ATTENTION_Q,
    K = RT_QUANTIZED_ATTENTION_K,
    V = RT_QUANTIZED_ATTENTION_V,
    TABLE = RT_QUANTIZED_ATTENTION_TABLE,
    Y = RT_QUANTIZED_ATTENTION_Y
};
typedef rt_quantized_attention_args dims;

/* Products of an output whose sum fits 31 bits. */
enum { MOST_PRODUCTS = INT32_MAX / (255 * 255) };

/* What all turns share. */
typedef struct {
    const rt_cpu_call *call;
    rt_workers *workers;
    const rt_quantized_kernels *kernels;
    const rt_blocked_kernels *loops;
    dims d;
    int64_t block, queries_per_turn;
    uint32_t turns; /* of a head */
    float exponentials[RT_EXPONENTIALS];
} job;

/* Weights of a product with `columns` columns, of `rows` products each. A value. */
typedef struct {
    int64_t rows, columns;
    int8_t *packed; /* [columns / block][ceil(rows / 4)][block][4] */
    float *scales, *bias; /* [columns] */
} operand;

/* One turn: its queries, and a worker's memory. */
typedef struct {
    const job *all;
    int64_t first, count; /* queries */
    operand keys, values;
    int32_t *starts; /* [count] */
    uint8_t *scores; /* [count][keys.columns]; weights in the end */
} turn_state;

static uint64_t up_to(uint64_t count, uint64_t multiple) { return rt_product(rt_ceil_div(count, multiple), multiple); }

/* Queries of a turn, at most: as many as keep their scores near, but enough that packing the keys does not count. */
static int64_t queries_of(int32_t keys) {
    int64_t most = SCORES / keys;
    return most > MOST_QUERIES ? MOST_QUERIES : most < LEAST_QUERIES ? LEAST_QUERIES : most;
}

/* Bytes of an operand in a worker's memory: what is packed, then floats. */
static uint64_t operand_bytes(uint64_t rows, uint64_t columns) {
    return rt_product(columns, rt_sum(2 * sizeof(float), up_to(rows, RT_QUAD)));
}

static const char *attention_check(const rt_cpu_call *call, rt_cpu_needs *needs) {
    dims d = rt_quantized_attention_args_of(call);
    const rt_cpu_tensor *tensors = call->tensors;
    const int32_t q_extents[] = {d.batch, d.heads, d.queries, d.depth}, k_extents[] = {d.batch, d.heads, d.keys, d.depth};
    const int32_t v_extents[] = {d.batch, d.heads, d.keys, d.values};
    const int32_t y_extents[] = {d.batch, d.heads, d.queries, d.values};
    if (!rt_block_is_known(call)) return "its block is neither 8 nor 16";
    uint64_t block = call->codes.block, turns = rt_product3(d.batch, d.heads, d.queries);
    if (turns > UINT32_MAX) return "too many queries";
    if (d.depth > MOST_PRODUCTS || d.keys > MOST_PRODUCTS) return "too many products of an output";
    if ((uint64_t)d.depth % block != 0 || (uint64_t)d.values % block != 0) return "its heads are no whole blocks";
    if (d.qs[3] != 1 || d.ks[3] != 1 || d.vs[3] != 1 || d.ys[3] != 1) return "the elements of a head are no neighbours";
    if (!rt_nest_fits(&tensors[Q], q_extents, d.qs, 4)) return "q exceeds its pool";
    if (!rt_nest_fits(&tensors[K], k_extents, d.ks, 4)) return "k exceeds its pool";
    if (!rt_nest_fits(&tensors[V], v_extents, d.vs, 4)) return "v exceeds its pool";
    if (!rt_flat_fits(&tensors[TABLE], BYTES)) return "the table exceeds its pool";
    if (!rt_nest_fits(&tensors[Y], y_extents, d.ys, 4)) return "the output exceeds its pool";
    if (!rt_are_byte_bounds(d.score_a, d.score_b) || !rt_are_byte_bounds(d.act_a, d.act_b)) return "its bounds are no bytes";
    if (!(d.step >= 0.0f && d.step <= FLT_MAX)) return "its scores have no step";
    if (!(d.per_weight >= 0.0f && d.per_weight <= FLT_MAX)) return "its weights have no step";
    uint64_t keys = up_to((uint64_t)d.keys, block), of_a_query = rt_sum(keys, sizeof(int32_t));
    needs->work = rt_product(turns, rt_product((uint64_t)d.keys, (uint64_t)d.depth + (uint64_t)d.values));
    needs->scratch_bytes = rt_sum(operand_bytes((uint64_t)d.depth, keys), operand_bytes((uint64_t)d.keys, (uint64_t)d.values));
    uint64_t scores = rt_sum(rt_product((uint64_t)queries_of(d.keys), of_a_query), (uint64_t)d.depth);
    needs->scratch_bytes = rt_sum(needs->scratch_bytes, scores);
    if (needs->scratch_bytes > INT32_MAX) return "too many keys";
    return NULL;
}

/* --- operands --- */

/* What lies in memory from `memory` on; moves it behind that. */
static operand operand_place(char **memory, int64_t rows, int64_t columns) {
    operand made = {.rows = rows, .columns = columns, .packed = (int8_t *)*memory};
    made.scales = (float *)(void *)(*memory + up_to((uint64_t)rows, RT_QUAD) * (uint64_t)columns);
    made.bias = made.scales + columns;
    *memory += operand_bytes((uint64_t)rows, (uint64_t)columns);
    return made;
}

/* AT_ONCE elements, less 128, of each of four rows, which follow each other `by_bytes`, or quad by quad, STEP apart. */
static void rows_pack(const uint8_t *const rows[RT_QUAD], int8_t *packed, int64_t step, bool by_bytes) {
#if defined(__SSE2__)
    const __m128i middle = _mm_set1_epi8((char)MIDDLE);
    __m128i own[RT_QUAD], low, high;
    for (int i = 0; i < RT_QUAD; i++) own[i] = _mm_xor_si128(_mm_loadl_epi64((const __m128i *)(const void *)rows[i]), middle);
    if (by_bytes) {
        const __m128i first = _mm_unpacklo_epi8(own[0], own[1]), second = _mm_unpacklo_epi8(own[2], own[3]);
        low = _mm_unpacklo_epi16(first, second), high = _mm_unpackhi_epi16(first, second);
    } else {
        const __m128i first = _mm_unpacklo_epi32(own[0], own[1]), second = _mm_unpacklo_epi32(own[2], own[3]);
        low = _mm_unpacklo_epi64(first, second), high = _mm_unpackhi_epi64(first, second);
    }
    _mm_storeu_si128((__m128i *)(void *)packed, low);
    _mm_storeu_si128((__m128i *)(void *)(packed + step), high);
#else
    const int64_t place = by_bytes ? 1 : RT_QUAD, next = by_bytes ? RT_QUAD : 1;
    for (int i = 0; i < RT_QUAD; i++) {
        for (int k = 0; k < AT_ONCE / 2; k++) packed[i * place + k * next] = (int8_t)(rows[i][k] ^ MIDDLE);
        for (int k = 0; k < AT_ONCE / 2; k++) packed[step + i * place + k * next] = (int8_t)(rows[i][k + AT_ONCE / 2] ^ MIDDLE);
    }
#endif
}

/* Four rows from `first` on, at an element; zeros in the place of those that are not there. */
static void rows_find(const uint8_t *x, int64_t row, int64_t first, int64_t count, int64_t element,
                      const uint8_t *found[RT_QUAD]) {
    static const uint8_t nothing[AT_ONCE] = {MIDDLE, MIDDLE, MIDDLE, MIDDLE, MIDDLE, MIDDLE, MIDDLE, MIDDLE};
    for (int64_t i = 0; i < RT_QUAD; i++) found[i] = first + i < count ? x + (first + i) * row + element : nothing;
}

/* Packs the keys, a column each. */
static void keys_pack(const turn_state *turn, const uint8_t *k) {
    const operand *to = &turn->keys;
    const int64_t block = turn->all->block, row = turn->all->d.ks[2], keys = turn->all->d.keys;
    for (int64_t key = 0; key < to->columns; key += RT_QUAD) {
        int8_t *packed = to->packed + key / block * block * to->rows + key % block * RT_QUAD;
        for (int64_t c = 0; c < to->rows; c += AT_ONCE, packed += AT_ONCE * block) {
            const uint8_t *rows[RT_QUAD];
            rows_find(k, row, key, keys, c, rows);
            rows_pack(rows, packed, block * RT_QUAD, false);
        }
    }
}

/* Packs the values, of which each element is a column. */
static void values_pack(const turn_state *turn, const uint8_t *v) {
    const operand *to = &turn->values;
    const int64_t block = turn->all->block, row = turn->all->d.vs[2], quads = (to->rows + RT_QUAD - 1) / RT_QUAD;
    for (int64_t first = 0; first < to->columns; first += AT_ONCE) {
        int8_t *packed = to->packed + (first / block * block * quads + first % block) * RT_QUAD;
        for (int64_t key = 0; key < to->rows; key += RT_QUAD, packed += block * RT_QUAD) {
            const uint8_t *rows[RT_QUAD];
            rows_find(v, row, key, to->rows, first, rows);
            rows_pack(rows, packed, AT_ONCE / 2 * RT_QUAD, true);
        }
    }
}

/* --- products --- */

/* What becomes of the products of `count` rows x with an operand: `end` is that of the first column of the first row. Rows
 * of x and of the results lie so many elements apart. */
static void product(const job *all, const operand *by, const uint8_t *x, int64_t x_row, const int32_t *starts, int64_t count,
                    rt_quantized_end end, int64_t y_row) {
    const int64_t blocks = by->columns / all->block, quads = (by->rows + RT_QUAD - 1) / RT_QUAD;
    const int64_t size = end.bytes & RT_BYTES_OUTPUT ? 1 : sizeof(float);
    const void *rows[RT_BLOCKED_PIXELS];
    rt_quantized_tile tile = {.rows = rows, .taps = 1, .channels = (uint32_t)by->rows, .plane = all->block};
    tile.weights_stride = quads * all->block * RT_QUAD;
    tile.y_plane = all->block;
    tile.y_pixel = y_row;
    for (int64_t first = 0; first < blocks; first += all->kernels->blocks) {
        const int64_t rest = blocks - first, column = first * all->block;
        tile.blocks = (uint32_t)(rest < all->kernels->blocks ? rest : all->kernels->blocks);
        tile.weights = by->packed + first * tile.weights_stride;
        tile.end = end;
        tile.end.scales += column;
        tile.end.bias += column;
        for (int64_t p = 0; p < count; p += tile.pixels) {
            tile.pixels = (uint32_t)(count - p < all->kernels->pixels ? count - p : all->kernels->pixels);
            for (uint32_t i = 0; i < RT_BLOCKED_PIXELS; i++) rows[i] = x + (p + (i < tile.pixels ? i : 0)) * x_row;
            if (starts != NULL) tile.starts = starts + p;
            tile.end.y = (char *)end.y + (p * y_row + column) * size;
            all->kernels->product(&tile);
        }
    }
}

/* Makes scales and biases of a packed operand; `zero`: a row of the zero point of what it is multiplied with, whose
 * products all others have too much. */
static void operand_end(const job *all, const operand *of, float scale, const uint8_t *zeros) {
    for (int64_t i = 0; i < of->columns; i++) of->scales[i] = -scale, of->bias[i] = 0.0f;
    const rt_quantized_end end = {.scales = of->scales, .bias = of->bias, .y = of->bias, .activation = RT_UNARY_CLAMP,
                                  .a = -INFINITY, .b = INFINITY};
    product(all, of, zeros, 0, NULL, 1, end, of->columns);
    for (int64_t i = 0; i < of->columns; i++) of->scales[i] = scale;
}

/* Bytes of the products of all queries with an operand. */
static void bytes_product(const turn_state *turn, const operand *by, const uint8_t *x, int64_t x_row, uint8_t *y, int64_t y_row,
                          float a, float b) {
    const rt_quantized_end end = {.scales = by->scales, .bias = by->bias, .y = y, .bytes = RT_BYTES_OUTPUT, .a = a, .b = b};
    product(turn->all, by, x, x_row, turn->starts, turn->count, end, y_row);
}

/* --- turns --- */

/* The memory of a worker and the queries of a turn. */
static turn_state turn_start(const job *all, uint32_t turn, uint32_t worker) {
    const dims *d = &all->d;
    char *memory = rt_workers_scratch(all->workers, worker);
    turn_state own = {.all = all, .first = turn % all->turns * all->queries_per_turn};
    const int64_t rest = d->queries - own.first;
    own.count = rest < all->queries_per_turn ? rest : all->queries_per_turn;
    own.keys = operand_place(&memory, d->depth, (int64_t)up_to((uint64_t)d->keys, (uint64_t)all->block));
    own.values = operand_place(&memory, d->keys, d->values);
    own.starts = (int32_t *)(void *)memory;
    own.scores = (uint8_t *)memory + (uint64_t)all->queries_per_turn * sizeof *own.starts;
    return own;
}

static int32_t bytes_sum(const uint8_t *x, int64_t count) {
    int32_t sum = 0;
    for (int64_t i = 0; i < count; i++) sum += x[i];
    return sum;
}

/* Scores become weights. */
static void scores_to_weights(const turn_state *turn) {
    const job *all = turn->all;
    const uint8_t *table = all->call->tensors[TABLE].data;
    for (int64_t p = 0; p < turn->count; p++) {
        uint8_t *row = turn->scores + p * turn->keys.columns;
        if (all->d.looks_up) all->loops->lookup(row, table, turn->keys.columns, row);
        const int32_t sum = all->loops->quantized_softmax(row, all->d.keys, all->exponentials, all->d.per_weight, all->d.w_zero);
        turn->starts[p] = (MIDDLE - all->d.v_zero) * sum;
    }
}

static void turn_run(const void *context, uint32_t turn, uint32_t worker) {
    const job *all = context;
    const dims *d = &all->d;
    const rt_cpu_tensor *tensors = all->call->tensors;
    const turn_state own = turn_start(all, turn, worker);
    const int64_t pair = turn / all->turns, b = pair / d->heads, h = pair % d->heads;
    const uint8_t *q = (const uint8_t *)tensors[Q].data + b * d->qs[0] + h * d->qs[1] + own.first * d->qs[2];
    uint8_t *y = (uint8_t *)tensors[Y].data + b * d->ys[0] + h * d->ys[1] + own.first * d->ys[2];
    keys_pack(&own, (const uint8_t *)tensors[K].data + b * d->ks[0] + h * d->ks[1]);
    values_pack(&own, (const uint8_t *)tensors[V].data + b * d->vs[0] + h * d->vs[1]);
    memset(own.scores, d->q_zero, (size_t)d->depth);
    operand_end(all, &own.keys, d->score_scale, own.scores);
    memset(own.scores, d->w_zero, (size_t)own.keys.columns);
    operand_end(all, &own.values, d->y_scale, own.scores);
    for (int64_t p = 0; p < own.count; p++) {
        own.starts[p] = (MIDDLE - d->k_zero) * (bytes_sum(q + p * d->qs[2], d->depth) - d->depth * d->q_zero);
    }
    bytes_product(&own, &own.keys, q, d->qs[2], own.scores, own.keys.columns, d->score_a, d->score_b);
    scores_to_weights(&own);
    bytes_product(&own, &own.values, own.scores, own.keys.columns, y, d->ys[2], d->act_a, d->act_b);
}

static void attention_run(const rt_cpu_call *call, rt_workers *workers) {
    job all = {
        .call = call,
        .workers = workers,
        .kernels = rt_quantized_kernels_of(call->tiles, call->codes.block, 0),
        .loops = rt_blocked_kernels_of(call->tiles, call->codes.block),
        .d = rt_quantized_attention_args_of(call),
        .block = call->codes.block,
    };
    for (int i = 0; i < BYTES; i++) all.exponentials[i] = expf(-all.d.step * (float)i);
    for (int i = 0; i < RT_EXPONENTIALS - BYTES; i++) all.exponentials[BYTES + i] = all.exponentials[BYTES / 16 * i];
    uint64_t heads = (uint64_t)all.d.batch * (uint64_t)all.d.heads;
    rt_attention_turns divided =
        rt_attention_turns_divide(workers, heads, (uint64_t)all.d.queries, all.kernels->pixels,
                                  (uint64_t)queries_of(all.d.keys));
    all.queries_per_turn = divided.queries;
    all.turns = divided.turns;
    rt_workers_run(workers, (uint32_t)heads * all.turns, turn_run, &all);
}

const rt_cpu_operator rt_cpu_quantized_attention = {
    RT_QUANTIZED_ATTENTION_ROW, .check = attention_check, .run = attention_run};
