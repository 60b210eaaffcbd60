/* recurrent_sequence: all time steps of an RNN, GRU or LSTM; runtime/semantics/recurrence.py says how its tensors lie.
 *
 * The weights are packed (BLOCK), [D, G, ceil(H / RT_CPU_BLOCK)] blocks of [H, RT_CPU_BLOCK], or as in the graph where
 * a model computes them.
 *
 * A share of the work is a direction, some of its sequences, and some of the hidden values: it sums their gates, a
 * product of the hidden states with as many columns of the weights, then applies the functions. Shares of one step are
 * independent. Either each turn runs all steps of some sequences, and no thread waits for another; or, in a large layer
 * that has too few sequences for that, the workers share each step.
 */
#include <math.h>
#include <stddef.h>

#include "../../native/src/system/arithmetic.h"
#include "cpu_arguments.h"
#include "../../native/src/cpu/cpu_math.h"
#include "../../native/src/cpu/cpu_tile.h"

enum {
    X = RT_RECURRENT_SEQUENCE_X,
    R = RT_RECURRENT_SEQUENCE_R,
    H = RT_RECURRENT_SEQUENCE_H,
    C = RT_RECURRENT_SEQUENCE_C,
    P = RT_RECURRENT_SEQUENCE_P,
    Y = RT_RECURRENT_SEQUENCE_Y
};
typedef rt_recurrent_sequence_args recurrent_dims;

enum { MAX_GATES = 4, MAX_CHUNKS = 4, CHUNK = RT_CPU_BLOCK, MAX_SEQUENCES = 2 * RT_TILE_PIXELS };
/* Multiply-accumulates of a step from which its sharing pays, and weights of a direction that a core's cache holds. */
enum { SHARED_STEP = 1 << 17, CACHED_WEIGHTS = 1 << 17 };

/* A layer, and the shares of a step: groups of a direction's sequences, and shares of the chunks of hidden values. */
typedef struct {
    const rt_cpu_call *call;
    recurrent_dims dims;
    uint32_t chunks, groups, sequences, shares, width, parts; /* sequences of a group, chunks of a share */
    int32_t step, part; /* in a large layer: those that the workers share now */
} layer;

/* What one share computes at a step. `i` counts steps in the order of computing; `chunks` may end behind `columns`. */
typedef struct {
    const layer *all;
    int32_t direction, first, count; /* sequences */
    int32_t i, part, column, columns;
    uint32_t chunks;
    float sums[MAX_SEQUENCES * MAX_GATES * MAX_CHUNKS * CHUNK] __attribute__((aligned(64)));
} share;

/* --- tensors --- */

static int64_t state_rows(const recurrent_dims *d) { return (int64_t)d->directions * d->batch; }

/* States of a sequence in a row of the output. */
static float *state_at(const share *own, int64_t row, int32_t n) {
    const recurrent_dims *d = &own->all->dims;
    int64_t place = row * state_rows(d) + (int64_t)own->direction * d->batch + n;
    return rt_floats(&own->all->call->tensors[Y]) + place * d->hidden;
}

static bool runs_back(const share *own) { return own->direction > 0 || own->all->dims.backwards != 0; }

static int64_t time_at(const share *own, int32_t i) {
    return runs_back(own) ? (int64_t)own->all->dims.times - 1 - i : i;
}

/* A state of a sequence before the step: the given one, or what the step before has left in a row of the output. */
static const float *before(const share *own, uint32_t given, int64_t row, int32_t n) {
    const recurrent_dims *d = &own->all->dims;
    if (own->i > 0) return state_at(own, row, n);
    return rt_floats(&own->all->call->tensors[given]) + ((int64_t)own->direction * d->batch + n) * d->hidden;
}

static const float *hidden_before(const share *own, int32_t n) {
    return before(own, H, own->i > 0 ? time_at(own, own->i - 1) : 0, n);
}

/* Sums of a sequence's inputs: all gates of the direction at this step. */
static const float *inputs_of(const share *own, int32_t n) {
    const recurrent_dims *d = &own->all->dims;
    int64_t place = (time_at(own, own->i) * d->batch + n) * d->directions + own->direction;
    return rt_floats(&own->all->call->tensors[X]) + place * d->gates * d->hidden;
}

/* Row `index` of the direction's peepholes or reset bias, at the share's first column. */
static const float *extra_at(const share *own, int32_t index) {
    const recurrent_dims *d = &own->all->dims;
    int64_t rows = own->all->call->codes.recurrent == RT_RECURRENT_KIND_LSTM ? 3 : 1;
    return rt_floats(&own->all->call->tensors[P]) + (own->direction * rows + index) * d->hidden + own->column;
}

/* The sums of a gate of a sequence of the share: whole chunks, those of the next gate behind them. */
static float *sums_at(const share *own, int32_t n, uint32_t gate) {
    return (float *)own->sums + ((uint32_t)n * MAX_GATES + gate) * own->chunks * CHUNK;
}

/* --- products --- */

/* Sums of blocks of weights that follow each other, from `y` of each sequence on; `rows` of all sequences. A tile's
 * last row is repeated, as tiles ask. */
static void blocks_sum(const share *own, const float *const *rows, rt_tile tile, uint32_t blocks, float *y) {
    const rt_tile_kernels *tiles = own->all->call->tiles;
    uint32_t count = (uint32_t)own->count, passes = (count + tiles->pixels - 1) / tiles->pixels;
    uint32_t pixels = (count + passes - 1) / passes;
    int64_t between = MAX_GATES * (int64_t)own->chunks * CHUNK;
    for (uint32_t done = 0; done < blocks; done += tile.blocks, tile.weights += tile.blocks * tile.block_stride) {
        tile.blocks = rt_tile_blocks(tiles, blocks - done);
        tile.channels = tile.blocks * CHUNK;
        for (uint32_t n = 0; n < count; n += pixels) {
            const float *its_rows[RT_TILE_PIXELS];
            rt_epilogue end = {.y = y + n * between + done * CHUNK, .y_stride = between, .a = -INFINITY, .b = INFINITY};
            tile.pixels = count - n < pixels ? count - n : pixels;
            uint32_t last = n + tile.pixels - 1;
            for (uint32_t p = 0; p < RT_TILE_PIXELS; p++) its_rows[p] = rows[n + p < last ? n + p : last];
            tile.rows = its_rows;
            tile.epilogue = &end;
            tiles->product(&tile);
        }
    }
}

/* Sums of gates with packed weights; all chunks of some gates are one run. */
static void packed_sum(const share *own, const float *const *rows, uint32_t first, uint32_t end) {
    const layer *all = own->all;
    int64_t block = (int64_t)all->dims.hidden * CHUNK;
    bool whole = own->chunks == all->chunks;
    rt_tile tile = {.taps = 1, .depth = (uint32_t)all->dims.hidden, .weights_stride = CHUNK, .block_stride = block};
    const float *weights = rt_floats(&all->call->tensors[R]) + own->column * (int64_t)all->dims.hidden;
    for (uint32_t g = first; g < end; g += whole ? end - first : 1) {
        tile.weights = weights + ((int64_t)own->direction * all->dims.gates + g) * all->chunks * block;
        blocks_sum(own, rows, tile, whole ? (end - first) * own->chunks : own->chunks, sums_at(own, 0, g));
    }
}

/* The same with weights as the graph has them; a chunk that is not whole is summed value by value. */
static void flat_sum(const share *own, const float *const *rows, uint32_t first, uint32_t end) {
    const recurrent_dims *d = &own->all->dims;
    int64_t width = (int64_t)d->gates * d->hidden;
    int32_t whole = own->columns / CHUNK * CHUNK;
    rt_tile tile = {.taps = 1, .depth = (uint32_t)d->hidden, .weights_stride = width, .block_stride = CHUNK};
    const float *weights = rt_floats(&own->all->call->tensors[R]) + own->direction * d->hidden * width + own->column;
    for (uint32_t g = first; g < end; g++) {
        const float *w = tile.weights = weights + (int64_t)g * d->hidden;
        blocks_sum(own, rows, tile, (uint32_t)(whole / CHUNK), sums_at(own, 0, g));
        for (int32_t n = 0; n < own->count; n++) {
            for (int32_t j = whole; j < (int32_t)own->chunks * CHUNK; j++) {
                float sum = 0.0f;
                for (int64_t k = 0; k < d->hidden && j < own->columns; k++) sum += rows[n][k] * w[k * width + j];
                sums_at(own, n, g)[j] = sum;
            }
        }
    }
}

/* sums[.][g] = h . r for gates from `first` on, where h are the rows; plus x for those before `inputs`. */
static void gates_sum(const share *own, const float *const *rows, uint32_t first, uint32_t end, uint32_t inputs) {
    (own->all->call->codes.block ? packed_sum : flat_sum)(own, rows, first, end);
    for (int32_t n = 0; n < own->count; n++) {
        for (uint32_t g = first; g < inputs; g++) {
            const float *x = inputs_of(own, own->first + n) + (int64_t)g * own->all->dims.hidden + own->column;
            float *sums = sums_at(own, n, g);
            for (int32_t j = 0; j < own->columns; j++) sums[j] += x[j];
        }
    }
}

/* --- functions, of many values at once --- */

static void apply(const share *own, uint32_t function, float a, float b, float *values, uint32_t count) {
    const rt_tile_kernels *tiles = own->all->call->tiles;
#define EACH_CASE(code, call)                      \
    case code:                                     \
        for (uint32_t j = 0; j < count; j++) {     \
            float v = values[j];                   \
            values[j] = call;                      \
        }                                          \
        break;
    if (function == RT_RECURRENT_FUNCTION_SIGMOID) {
        tiles->apply(RT_UNARY_SIGMOID, a, b, values, count);
    } else if (function == RT_RECURRENT_FUNCTION_TANH) {
        tiles->apply(RT_UNARY_TANH, a, b, values, count);
    } else {
        switch (function) {
            RT_RECURRENT_FUNCTIONS(EACH_CASE)
            default: break; /* no plan that was checked */
        }
    }
#undef EACH_CASE
}

static void clip(const share *own, float *values, uint32_t count) {
    float most = own->all->dims.clip;
    if (most < INFINITY) own->all->call->tiles->apply(RT_UNARY_CLAMP, -most, most, values, count);
}

/* The function of some gates whose sums follow each other. */
static void gates_apply(const share *own, float *values, uint32_t gates) {
    const recurrent_dims *d = &own->all->dims;
    uint32_t count = gates * own->chunks * CHUNK;
    clip(own, values, count);
    apply(own, own->all->call->codes.gate, d->gate_a, d->gate_b, values, count);
}

static void cell_apply(const share *own, float *values) {
    const recurrent_dims *d = &own->all->dims;
    clip(own, values, own->chunks * CHUNK);
    apply(own, own->all->call->codes.cell, d->cell_a, d->cell_b, values, own->chunks * CHUNK);
}

/* --- steps of the three operators; the sums of `n`, a sequence of the share, are complete --- */

/* The state of a sequence of the share in a row of the output, at the share's first column. */
static float *own_state(const share *own, int64_t row, int32_t n) {
    return state_at(own, row, own->first + n) + own->column;
}

static float *output_at(const share *own, int32_t n) { return own_state(own, time_at(own, own->i), n); }

static void rnn_finish(const share *own, int32_t n) {
    float *sums = sums_at(own, n, 0), *y = output_at(own, n);
    cell_apply(own, sums);
    for (int32_t j = 0; j < own->columns; j++) y[j] = sums[j];
}

/* y = new + z * (h - new), where `new` is the function of sums. */
static void gru_mix(const share *own, int32_t n, const float *z, float *new) {
    const float *h = hidden_before(own, own->first + n) + own->column;
    float *y = output_at(own, n);
    cell_apply(own, new);
    for (int32_t j = 0; j < own->columns; j++) y[j] = new[j] + z[j] * (h[j] - new[j]);
}

/* With the reset behind the product, which sums[2] has without the inputs. */
static void gru_linear_finish(const share *own, int32_t n) {
    const float *x = inputs_of(own, own->first + n) + 2 * (int64_t)own->all->dims.hidden + own->column;
    const float *bias = own->all->call->codes.extra ? extra_at(own, 0) : NULL;
    float *z = sums_at(own, n, 0), *reset = sums_at(own, n, 1), *new = sums_at(own, n, 2);
    gates_apply(own, z, 2);
    for (int32_t j = 0; j < own->columns && bias; j++) new[j] += bias[j];
    for (int32_t j = 0; j < own->columns; j++) new[j] = x[j] + reset[j] * new[j];
    gru_mix(own, n, z, new);
}

/* The first part of a step with the product behind the reset: z and r * h, in the working rows. */
static void gru_first_finish(const share *own, int32_t n) {
    const float *h = hidden_before(own, own->first + n) + own->column;
    int64_t times = own->all->dims.times;
    float *sums = sums_at(own, n, 0), *reset = sums_at(own, n, 1);
    float *z = own_state(own, times, n), *kept = own_state(own, times + 1, n);
    gates_apply(own, sums, 2);
    for (int32_t j = 0; j < own->columns; j++) {
        z[j] = sums[j];
        kept[j] = reset[j] * h[j];
    }
}

static void gru_second_finish(const share *own, int32_t n) {
    gru_mix(own, n, own_state(own, own->all->dims.times, n), sums_at(own, n, 2));
}

/* sums += peephole * cell */
static void peep(const share *own, int32_t index, const float *state, float *sums) {
    const float *weights = extra_at(own, index);
    for (int32_t j = 0; j < own->columns; j++) sums[j] += weights[j] * state[j];
}

static void lstm_finish(const share *own, int32_t n) {
    const rt_cpu_codes *codes = &own->all->call->codes;
    const recurrent_dims *d = &own->all->dims;
    const float *old = before(own, C, d->times, own->first + n) + own->column;
    float *i = sums_at(own, n, 0), *o = sums_at(own, n, 1), *f = sums_at(own, n, 2), *new = sums_at(own, n, 3);
    float *kept = own_state(own, d->times, n), *y = output_at(own, n);
    if (codes->extra) {
        peep(own, 0, old, i);
        peep(own, 2, old, f);
        gates_apply(own, i, 1);
        gates_apply(own, f, 1);
    } else {
        gates_apply(own, i, 3);
    }
    cell_apply(own, new);
    for (int32_t j = 0; j < own->columns && codes->coupled; j++) f[j] = 1.0f - i[j];
    for (int32_t j = 0; j < own->columns; j++) new[j] = f[j] * old[j] + i[j] * new[j];
    for (int32_t j = 0; j < own->columns; j++) kept[j] = new[j];
    if (codes->extra) {
        peep(own, 1, new, o);
        gates_apply(own, o, 1);
    }
    apply(own, codes->out, d->out_a, d->out_b, new, own->chunks * CHUNK);
    for (int32_t j = 0; j < own->columns; j++) y[j] = o[j] * new[j];
}

typedef void finish(const share *own, int32_t n);

static void all_finish(const share *own, finish *one) {
    for (int32_t n = 0; n < own->count; n++) one(own, n);
}

/* One share at one step and part; the rows of a GRU's second part are what the first has left. */
static void share_run(const share *own) {
    const float *rows[MAX_SEQUENCES];
    const rt_cpu_codes *codes = &own->all->call->codes;
    for (int32_t n = 0; n < own->count; n++) {
        int64_t kept = (int64_t)own->all->dims.times + 1;
        rows[n] = own->part ? state_at(own, kept, own->first + n) : hidden_before(own, own->first + n);
    }
    if (codes->recurrent != RT_RECURRENT_KIND_GRU) {
        uint32_t gates = (uint32_t)own->all->dims.gates;
        gates_sum(own, rows, 0, gates, gates);
        all_finish(own, codes->recurrent == RT_RECURRENT_KIND_LSTM ? lstm_finish : rnn_finish);
    } else if (codes->linear) {
        gates_sum(own, rows, 0, 3, 2);
        all_finish(own, gru_linear_finish);
    } else if (own->part == 0) {
        gates_sum(own, rows, 0, 2, 2);
        all_finish(own, gru_first_finish);
    } else {
        gates_sum(own, rows, 2, 3, 3);
        all_finish(own, gru_second_finish);
    }
}

/* --- turns --- */

/* Makes a share one of a group of a direction's sequences; step and chunks are set later. */
static void group_take(share *own, const layer *all, uint32_t group) {
    own->all = all;
    own->direction = (int32_t)(group / all->groups);
    own->first = (int32_t)(group % all->groups * all->sequences);
    int32_t rest = all->dims.batch - own->first;
    own->count = rest < (int32_t)all->sequences ? rest : (int32_t)all->sequences;
}

static void chunks_run(share *own, uint32_t index) {
    uint32_t chunk = index * own->all->width, rest = own->all->chunks - chunk;
    own->chunks = rest < own->all->width ? rest : own->all->width;
    own->column = (int32_t)chunk * CHUNK;
    int32_t columns = own->all->dims.hidden - own->column, whole = (int32_t)own->chunks * CHUNK;
    own->columns = columns < whole ? columns : whole;
    share_run(own);
}

/* All steps of a group. */
static void sequence_turn(const void *context, uint32_t turn, uint32_t worker) {
    (void)worker;
    const layer *all = context;
    share own;
    group_take(&own, all, turn);
    for (own.i = 0; own.i < all->dims.times; own.i++) {
        for (own.part = 0; own.part < (int32_t)all->parts; own.part++) {
            for (uint32_t index = 0; index < all->shares; index++) chunks_run(&own, index);
        }
    }
}

/* A share of a group at the layer's present step. */
static void step_turn(const void *context, uint32_t turn, uint32_t worker) {
    (void)worker;
    const layer *all = context;
    share own;
    group_take(&own, all, turn / all->shares);
    own.i = all->step;
    own.part = all->part;
    chunks_run(&own, turn % all->shares);
}

static bool is_two_part(const rt_cpu_call *call) {
    return call->codes.recurrent == RT_RECURRENT_KIND_GRU && !call->codes.linear;
}

static uint32_t parts_of(uint64_t whole, uint64_t part) { return (uint32_t)rt_ceil_div(whole, part); }

/* Divides the layer among so many workers; returns whether they share each step. */
static bool layer_divide(layer *all, uint32_t workers) {
    const recurrent_dims *d = &all->dims;
    uint32_t batch = (uint32_t)d->batch, directions = (uint32_t)d->directions;
    uint64_t step = all->call->needs.work / (uint64_t)d->times, weights = step / batch / directions;
    all->groups = parts_of(batch, MAX_SEQUENCES);
    bool is_even = directions * all->groups % workers == 0;
    bool splits = batch * directions >= workers && weights <= CACHED_WEIGHTS;
    bool shared = !is_even && !splits && step >= SHARED_STEP;
    if (!is_even && !shared) all->groups = parts_of(all->groups * directions, workers) * parts_of(workers, directions);
    if (all->groups > batch) all->groups = batch;
    all->sequences = parts_of(batch, all->groups);
    all->groups = parts_of(batch, all->sequences);
    uint32_t groups = directions * all->groups, least = parts_of(all->chunks, MAX_CHUNKS);
    all->shares = shared ? parts_of(parts_of(groups * least, workers) * workers, groups) : least;
    all->width = parts_of(all->chunks, all->shares < all->chunks ? all->shares : all->chunks);
    all->shares = parts_of(all->chunks, all->width);
    return shared;
}

static void recurrent_run(const rt_cpu_call *call, rt_workers *workers) {
    layer all = {.call = call, .dims = rt_recurrent_sequence_args_of(call), .parts = is_two_part(call) ? 2 : 1};
    all.chunks = parts_of((uint64_t)all.dims.hidden, CHUNK);
    bool shared = layer_divide(&all, rt_workers_count(workers));
    uint32_t groups = (uint32_t)all.dims.directions * all.groups;
    if (!shared) {
        rt_workers_run(workers, groups, sequence_turn, &all);
        return;
    }
    for (all.step = 0; all.step < all.dims.times; all.step++) {
        for (all.part = 0; all.part < (int32_t)all.parts; all.part++) {
            rt_workers_run(workers, groups * all.shares, step_turn, &all);
        }
    }
}

/* Compares each tensor with the elements that the sizes ask for; a product that overflows saturates, and so exceeds any
 * pool. */
static const char *recurrent_check(const rt_cpu_call *call, rt_cpu_needs *needs) {
    static const int32_t gates[] = {1, 3, 4};
    recurrent_dims d = rt_recurrent_sequence_args_of(call);
    const rt_cpu_tensor *tensors = call->tensors;
    bool is_lstm = call->codes.recurrent == RT_RECURRENT_KIND_LSTM;
    if (d.gates != gates[call->codes.recurrent]) return "its gates are not those of the operator";
    uint64_t hidden = (uint64_t)d.hidden, rows = rt_product((uint64_t)d.directions, (uint64_t)d.batch);
    uint64_t width = rt_product(hidden, (uint64_t)d.gates), state = rt_product(rows, hidden);
    uint64_t working = is_lstm ? 1 : is_two_part(call) ? 2 : 0;
    if (rt_product(rows, hidden) > UINT32_MAX) return "too many states";
    if (!rt_flat_fits(&tensors[X], rt_product(rt_product((uint64_t)d.times, rows), width)))
        return "the input exceeds its pool";
    rt_cpu_packing packing = {rt_product((uint64_t)d.directions, (uint64_t)d.gates), hidden, hidden};
    uint64_t weights = rt_product(rt_product((uint64_t)d.directions, hidden), width);
    if (call->codes.block && call->codes.block != RT_CPU_BLOCK) return "its weights' packing is not known";
    if (call->codes.block ? !rt_packing_fits(call, &packing) : !rt_flat_fits(&tensors[R], weights))
        return "the weights exceed their pool";
    if (!rt_flat_fits(&tensors[H], state)) return "the hidden state exceeds its pool";
    if (is_lstm && !rt_flat_fits(&tensors[C], state)) return "the cell state exceeds its pool";
    if (call->codes.extra && !rt_flat_fits(&tensors[P], rt_product3(d.directions, is_lstm ? 3 : 1, d.hidden)))
        return "peepholes or bias exceed their pool";
    if (!rt_flat_fits(&tensors[Y], rt_product(rt_sum((uint64_t)d.times, working), state)))
        return "the output exceeds its pool";
    needs->work = rt_product(rt_product((uint64_t)d.times, state), width);
    needs->scratch_bytes = 0;
    return NULL;
}

const rt_cpu_operator rt_cpu_recurrent_sequence = {
    RT_RECURRENT_SEQUENCE_ROW, .check = recurrent_check, .run = recurrent_run};
