/* recurrent_sequence: all time steps of an RNN, GRU or LSTM; runtime/semantics/recurrence.py says how its tensors lie.
 *
 * A share of the work is a direction, some of its sequences, and a chunk of hidden values: it sums their gates, a
 * product of the hidden states with as many columns of the weights, then applies the functions. Shares of one step are
 * independent. In a small layer each turn runs all steps of some sequences, since threads would wait for each other
 * longer than they compute; in a large one the workers share each step.
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

enum { MAX_GATES = 4, CHUNK = RT_CPU_BLOCK };
/* Multiply-accumulates of a step from which its sharing pays. */
enum { SHARED_STEP = 1 << 17 };

/* A layer, and the shares of a step: sequences of a tile, tiles of a direction, chunks of the hidden values. */
typedef struct {
    const rt_cpu_call *call;
    recurrent_dims dims;
    uint32_t width, tiles, chunks, parts;
    int32_t step, part; /* in a large layer: those that the workers share now */
} layer;

/* What one share computes at a step. `i` counts steps in the order of computing. */
typedef struct {
    const layer *all;
    int32_t direction, first, count; /* sequences */
    int32_t i, part, column, columns;
    float sums[RT_TILE_PIXELS][MAX_GATES][CHUNK];
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

static const float *weights_of(const share *own) {
    const recurrent_dims *d = &own->all->dims;
    return rt_floats(&own->all->call->tensors[R]) + (int64_t)own->direction * d->hidden * d->gates * d->hidden;
}

/* Row `index` of the direction's peepholes or reset bias, at the share's first column. */
static const float *extra_at(const share *own, int32_t index) {
    const recurrent_dims *d = &own->all->dims;
    int64_t rows = own->all->call->codes.recurrent == RT_RECURRENT_KIND_LSTM ? 3 : 1;
    return rt_floats(&own->all->call->tensors[P]) + (own->direction * rows + index) * d->hidden + own->column;
}

/* --- products --- */

/* sums[.][g] = x (or 0 without) + h . r for some gates, where h are the rows; a chunk that is not whole is summed value
 * by value. */
static void gates_sum(share *own, const float *const *rows, uint32_t first, uint32_t end, bool with_inputs) {
    const recurrent_dims *d = &own->all->dims;
    int64_t width = (int64_t)d->gates * d->hidden, between = width * d->directions;
    const float *x = inputs_of(own, own->first) + own->column;
    for (uint32_t g = first; g < end; g++) {
        const float *w = weights_of(own) + (int64_t)g * d->hidden + own->column;
        const float *added = with_inputs ? x + (int64_t)g * d->hidden : NULL;
        rt_epilogue epilogue = {.residual = added,
                                .residual_stride = between,
                                .y = own->sums[0][g],
                                .y_stride = MAX_GATES * CHUNK,
                                .a = -INFINITY,
                                .b = INFINITY};
        rt_tile tile = {.rows = rows,
                        .taps = 1,
                        .depth = (uint32_t)d->hidden,
                        .weights = w,
                        .weights_stride = width,
                        .pixels = (uint32_t)own->count,
                        .blocks = 1,
                        .channels = CHUNK,
                        .epilogue = &epilogue};
        if (own->columns == CHUNK) {
            own->all->call->tiles->product(&tile);
            continue;
        }
        for (int32_t n = 0; n < own->count; n++) {
            for (int32_t j = 0; j < own->columns; j++) {
                float sum = added ? added[n * between + j] : 0.0f;
                for (int64_t k = 0; k < d->hidden; k++) sum += rows[n][k] * w[k * width + j];
                own->sums[n][g][j] = sum;
            }
        }
    }
}

/* The hidden states before the step as rows; the last one is repeated, as tiles ask. */
static void hidden_rows(const share *own, const float **rows) {
    for (int32_t n = 0; n < RT_TILE_PIXELS; n++) {
        rows[n] = hidden_before(own, own->first + (n < own->count ? n : own->count - 1));
    }
}

/* --- functions --- */

static float apply(uint32_t function, float v, float a, float b) {
#define EACH_CASE(code, call) \
    case code: return call;
    switch (function) {
        RT_RECURRENT_FUNCTIONS(EACH_CASE)
        default: return v; /* no plan that was checked */
    }
#undef EACH_CASE
}

static float gate(const share *own, float v) {
    const recurrent_dims *d = &own->all->dims;
    return apply(own->all->call->codes.gate, rt_unary_clamp(v, -d->clip, d->clip), d->gate_a, d->gate_b);
}

static float cell(const share *own, float v) {
    const recurrent_dims *d = &own->all->dims;
    return apply(own->all->call->codes.cell, rt_unary_clamp(v, -d->clip, d->clip), d->cell_a, d->cell_b);
}

/* --- steps of the three operators; the sums of `n`, a sequence of the share, are complete --- */

static void rnn_finish(const share *own, int32_t n) {
    float *y = state_at(own, time_at(own, own->i), own->first + n) + own->column;
    for (int32_t j = 0; j < own->columns; j++) y[j] = cell(own, own->sums[n][0][j]);
}

/* With the reset behind the product, which sums[2] has without the inputs. */
static void gru_linear_finish(const share *own, int32_t n) {
    const rt_cpu_call *call = own->all->call;
    const float *h = hidden_before(own, own->first + n) + own->column;
    const float *x = inputs_of(own, own->first + n) + 2 * (int64_t)own->all->dims.hidden + own->column;
    const float *bias = call->codes.extra ? extra_at(own, 0) : NULL;
    float *y = state_at(own, time_at(own, own->i), own->first + n) + own->column;
    for (int32_t j = 0; j < own->columns; j++) {
        float z = gate(own, own->sums[n][0][j]), reset = gate(own, own->sums[n][1][j]);
        float inner = own->sums[n][2][j] + (bias ? bias[j] : 0.0f);
        float new = cell(own, x[j] + reset * inner);
        y[j] = new + z * (h[j] - new);
    }
}

/* The first part of a step with the product behind the reset: z and r * h, in the working rows. */
static void gru_first_finish(const share *own, int32_t n) {
    const float *h = hidden_before(own, own->first + n) + own->column;
    int64_t times = own->all->dims.times;
    float *z = state_at(own, times, own->first + n) + own->column;
    float *kept = state_at(own, times + 1, own->first + n) + own->column;
    for (int32_t j = 0; j < own->columns; j++) {
        z[j] = gate(own, own->sums[n][0][j]);
        kept[j] = gate(own, own->sums[n][1][j]) * h[j];
    }
}

static void gru_second_finish(const share *own, int32_t n) {
    const float *h = hidden_before(own, own->first + n) + own->column;
    const float *z = state_at(own, own->all->dims.times, own->first + n) + own->column;
    float *y = state_at(own, time_at(own, own->i), own->first + n) + own->column;
    for (int32_t j = 0; j < own->columns; j++) {
        float new = cell(own, own->sums[n][2][j]);
        y[j] = new + z[j] * (h[j] - new);
    }
}

static void lstm_finish(const share *own, int32_t n) {
    const rt_cpu_call *call = own->all->call;
    int64_t times = own->all->dims.times;
    const float *old = before(own, C, times, own->first + n) + own->column;
    float *kept = state_at(own, times, own->first + n) + own->column;
    float *y = state_at(own, time_at(own, own->i), own->first + n) + own->column;
    bool peeps = call->codes.extra != 0;
    const float *of_i = peeps ? extra_at(own, 0) : NULL, *of_o = peeps ? extra_at(own, 1) : NULL;
    const float *of_f = peeps ? extra_at(own, 2) : NULL;
    for (int32_t j = 0; j < own->columns; j++) {
        float i = gate(own, own->sums[n][0][j] + (peeps ? of_i[j] * old[j] : 0.0f));
        float f = call->codes.coupled ? 1.0f - i : gate(own, own->sums[n][2][j] + (peeps ? of_f[j] * old[j] : 0.0f));
        float new = f * old[j] + i * cell(own, own->sums[n][3][j]);
        float o = gate(own, own->sums[n][1][j] + (peeps ? of_o[j] * new : 0.0f));
        kept[j] = new;
        y[j] = o * apply(call->codes.out, new, own->all->dims.out_a, own->all->dims.out_b);
    }
}

typedef void finish(const share *own, int32_t n);

static void all_finish(const share *own, finish *one) {
    for (int32_t n = 0; n < own->count; n++) one(own, n);
}

/* GRU, either order of reset and product. */
static void gru_run(share *own, const float **rows) {
    if (own->all->call->codes.linear) {
        gates_sum(own, rows, 0, 2, true);
        gates_sum(own, rows, 2, 3, false);
        all_finish(own, gru_linear_finish);
    } else if (own->part == 0) {
        gates_sum(own, rows, 0, 2, true);
        all_finish(own, gru_first_finish);
    } else {
        int64_t row = (int64_t)own->all->dims.times + 1;
        for (int32_t n = 0; n < RT_TILE_PIXELS; n++) {
            rows[n] = state_at(own, row, own->first + (n < own->count ? n : own->count - 1));
        }
        gates_sum(own, rows, 2, 3, true);
        all_finish(own, gru_second_finish);
    }
}

/* One share at one step and part. */
static void share_run(share *own) {
    const float *rows[RT_TILE_PIXELS];
    uint32_t kind = own->all->call->codes.recurrent;
    hidden_rows(own, rows);
    if (kind == RT_RECURRENT_KIND_GRU) {
        gru_run(own, rows);
        return;
    }
    gates_sum(own, rows, 0, (uint32_t)own->all->dims.gates, true);
    all_finish(own, kind == RT_RECURRENT_KIND_LSTM ? lstm_finish : rnn_finish);
}

/* --- turns --- */

/* The share of a tile of a direction; step and chunk are set later. */
static share tile_share(const layer *all, uint32_t tile) {
    share own;
    own.all = all;
    own.direction = (int32_t)(tile / all->tiles);
    own.first = (int32_t)(tile % all->tiles * all->width);
    int32_t rest = all->dims.batch - own.first;
    own.count = rest < (int32_t)all->width ? rest : (int32_t)all->width;
    return own;
}

static void chunk_run(share *own, uint32_t chunk) {
    own->column = (int32_t)chunk * CHUNK;
    int32_t rest = own->all->dims.hidden - own->column;
    own->columns = rest < CHUNK ? rest : CHUNK;
    share_run(own);
}

/* All steps of a tile. */
static void sequence_turn(const void *context, uint32_t turn, uint32_t worker) {
    (void)worker;
    const layer *all = context;
    share own = tile_share(all, turn);
    for (own.i = 0; own.i < all->dims.times; own.i++) {
        for (own.part = 0; own.part < (int32_t)all->parts; own.part++) {
            for (uint32_t chunk = 0; chunk < all->chunks; chunk++) chunk_run(&own, chunk);
        }
    }
}

/* A chunk of a tile at the layer's present step. */
static void step_turn(const void *context, uint32_t turn, uint32_t worker) {
    (void)worker;
    const layer *all = context;
    share own = tile_share(all, turn / all->chunks);
    own.i = all->step;
    own.part = all->part;
    chunk_run(&own, turn % all->chunks);
}

static bool is_two_part(const rt_cpu_call *call) {
    return call->codes.recurrent == RT_RECURRENT_KIND_GRU && !call->codes.linear;
}

static void recurrent_run(const rt_cpu_call *call, rt_workers *workers) {
    layer all = {.call = call, .dims = rt_recurrent_sequence_args_of(call), .width = call->tiles->pixels};
    all.tiles = (uint32_t)rt_ceil_div((uint64_t)all.dims.batch, all.width);
    all.chunks = (uint32_t)rt_ceil_div((uint64_t)all.dims.hidden, CHUNK);
    all.parts = is_two_part(call) ? 2 : 1;
    uint32_t tiles = (uint32_t)all.dims.directions * all.tiles;
    if (call->needs.work / (uint64_t)all.dims.times < SHARED_STEP || rt_workers_count(workers) == 1) {
        rt_workers_run(workers, tiles, sequence_turn, &all);
        return;
    }
    for (all.step = 0; all.step < all.dims.times; all.step++) {
        for (all.part = 0; all.part < (int32_t)all.parts; all.part++) {
            rt_workers_run(workers, tiles * all.chunks, step_turn, &all);
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
    if (!rt_flat_fits(&tensors[R], rt_product(rt_product((uint64_t)d.directions, hidden), width)))
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
