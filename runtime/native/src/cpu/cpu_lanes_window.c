/* Depthwise convolution and pools: each lane for itself.
 *
 * A depthwise convolution whose loop knows no padding brings each row of inputs, with its own, to memory that stays in the
 * cache, so that all outputs of a row are alike; bytes become floats on the way. Pools leave taps outside out, pixel by pixel. */
#include "cpu_lanes_window.h"
#include "cpu_lanes_bytes.h"

/* Outputs that are computed at once: the sums of MOST hide the latency of their additions, and the rest is done by LEAST,
 * both of which may overlap those before. */
enum { MOST = 8, LEAST = 4 };

#define ROLLED _Pragma("GCC unroll 1")

/* Of a window of k x k taps: larger ones have products enough for cores that look some hundred instructions ahead. */
#if defined(__aarch64__)
#define MOST_OF(k) MOST
#else
#define MOST_OF(k) ((k) == 3 || ((k) > 0 && (k) <= SLIDING) ? MOST : LEAST)
#endif

/* Outputs of a row that are computed at once where rows are multiples of them, as those of many networks are. */
enum { FITTING = 7 };

/* The most taps of an axis whose inputs are loaded once for all outputs; 0: each product loads its own. */
enum { WIDEST = 5, SLIDING = LANES >= 8 && LANES == RT_BLOCK ? WIDEST : 0 };

/* Keeps the compiler from loading a value for each product. */
#if LANES >= 8
#define KEEP(x) __asm__("" : "+v"(x))
#else
#define KEEP(x)
#endif

/* The rows under the window, from the first output's first column on. */
typedef struct {
    const float **under;
    float *zeros, *ring; /* the last rows of the input, with their padding */
    int64_t slots, step; /* rows, and elements from one to the next */
    int64_t next;        /* the first row that is not there yet */
    int64_t slot;        /* its place in the ring */
    bool in_place;       /* rows are read where they lie */
} padded_rows;

/* `bare`: rows need no padding. */
static padded_rows padded_start(const rt_blocked_rows *rows, bool bare) {
    const rt_blocked_window *w = rows->window;
    rt_padded_rows size = rt_padded_rows_of(w);
    padded_rows in = {.under = rows->padded, .slots = (int64_t)size.rows, .step = (int64_t)size.width * RT_BLOCK};
    in.zeros = (float *)((char *)rows->padded + size.pointer_bytes);
    in.ring = in.zeros + in.step;
    int64_t top = rows->first_row * w->stride_h - w->pad_t;
    in.next = top < 0 ? 0 : top;
    in.in_place = rows->x_bytes == NULL && (bare || (w->pad_l == 0 && size.width <= (uint64_t)w->in_w));
    memset(in.zeros, 0, (size_t)((in.in_place ? 1 : in.slots + 1) * in.step) * sizeof(float));
    return in;
}

/* One of the last rows that were brought to the ring. */
INLINE const float *ring_row(const padded_rows *in, int64_t row) {
    int64_t slot = in->slot - (in->next - row);
    return in->ring + (slot < 0 ? slot + in->slots : slot) * in->step;
}

/* Brings the rows under an output row that are not there yet. */
static void padded_move(const rt_blocked_rows *rows, int64_t row, padded_rows *in) {
    const rt_blocked_window *w = rows->window;
    int64_t top = row * w->stride_h - w->pad_t, end = top + (w->k_h - 1) * w->dil_h + 1;
    int64_t room = in->step / RT_BLOCK - w->pad_l, columns = w->in_w < room ? w->in_w : room;
    for (; !in->in_place && in->next < end && in->next < w->in_h; in->next++) {
        float *target = in->ring + in->slot * in->step + w->pad_l * RT_BLOCK;
        int64_t count = columns * RT_BLOCK, source = in->next * w->in_w * RT_BLOCK;
        if (rows->x_bytes != NULL) {
            const uint8_t *bytes = rows->x_bytes + source, zero = rows->zero;
            for (int64_t i = 0; i < count; i += RT_BLOCK) block_widen(bytes + i, zero, target + i);
        } else {
            for (int64_t i = 0; i < count; i += LANES) store(target + i, load(rows->x + source + i));
        }
        in->slot = in->slot + 1 < in->slots ? in->slot + 1 : 0;
    }
    for (int64_t i = 0; i < w->k_h; i++) {
        int64_t at = top + i * w->dil_h;
        const float *inside = in->in_place ? rows->x + (at * w->in_w - w->pad_l) * RT_BLOCK : ring_row(in, at);
        in->under[i] = at < 0 || at >= w->in_h ? in->zeros : inside;
    }
}

/* Which inputs the lanes of a register multiply: one of each group, whose sizes are powers of two. */
typedef struct {
    int64_t from, to; /* the first lane of the register that has them, and the one in it where a group has a register */
    mask lanes;
} group_inputs;

/* Input `index` of each group, for the register whose first lane is `part`. */
INLINE group_inputs group_inputs_of(int64_t group, int64_t index, int part) {
    group_inputs at = {.from = (part & -group) + (index & -LANES), .to = index & (LANES - 1)};
    UNROLLED for (int32_t lane = 0; lane < LANES; lane++) at.lanes[lane] = lane;
    at.lanes = (at.lanes & (int32_t)-group) + (int32_t)at.to;
    return at;
}

/* A pixel's inputs for a register; `at` NULL: each lane's own. */
INLINE lanes inputs_load(const float *x, const group_inputs *at) {
    if (at == NULL) return load(x);
#if LANES == 16
    return (lanes)_mm512_permutexvar_ps((__m512i)at->lanes, (__m512)load(x));
#elif LANES == 8
    return (lanes)_mm256_permutevar8x32_ps((__m256)load(x), (__m256i)at->lanes);
#else
    return (lanes){0} + x[at->to]; /* groups are whole registers */
#endif
}

/* Adds the products of one tap. */
INLINE void tap_add(lanes *sum, const float *x, const float *weight, int pixels, int stride, const group_inputs *at) {
    lanes w = load(weight);
    UNROLLED for (int p = 0; p < pixels; p++) sum[p] += w * inputs_load(x + p * stride * RT_BLOCK, at);
}

/* Adds those of all taps of any window, whose weights begin at w. */
INLINE void taps_add(const rt_blocked_rows *rows, const float *const *under, lanes *sum, int64_t first, const float *w,
                     int pixels, int stride, int dil, const group_inputs *at) {
    ROLLED for (int64_t i = 0; i < rows->window->k_h; i++) {
        ROLLED for (int64_t j = 0; j < rows->window->k_w; j++, w += RT_BLOCK) {
            tap_add(sum, under[i] + first + j * dil * RT_BLOCK, w, pixels, stride, at);
        }
    }
}

/* Adds those of all taps, of one input of each group or of each lane's own: `first` is that of the first tap. */
INLINE void window_add(const rt_blocked_rows *rows, const float *const *under, lanes *sum, int64_t first, const float *w,
                       int pixels, int k, int stride, int dil, const group_inputs *at) {
    UNROLLED for (int i = 0; i < k; i++) {
        UNROLLED for (int j = 0; j < k; j++) {
            tap_add(sum, under[i] + first + j * RT_BLOCK, w + (i * k + j) * RT_BLOCK, pixels, stride, at);
        }
    }
    if (k == 0) taps_add(rows, under, sum, first, w, pixels, stride, dil, at);
}

/* Whether an element of a row is there, of the `count` under a tile from `first` on: only those at its ends may be missing. */
INLINE bool is_there(rt_tap_range there, int64_t first, int q, int count, int k) {
    return (q >= k - 1 || first + q >= there.first) && (q < count - (k - 1) || first + q < there.end);
}

/* Adds those of a row of k taps, whose inputs are loaded once each: from column `first` on, of which `there` exist. */
INLINE void row_slide(const float *row, rt_tap_range there, lanes *sum, int64_t first, int part, const float *w, int pixels,
                      int k, int stride) {
    static const float zeros[RT_BLOCK];
    const int count = (pixels - 1) * stride + k;
    lanes weight[WIDEST];
    UNROLLED for (int j = 0; j < k; j++) weight[j] = load(w + j * RT_BLOCK);
    UNROLLED for (int q = 0; q < count; q++) {
        lanes x = load(is_there(there, first, q, count, k) ? row + (first + q) * RT_BLOCK + part : zeros);
        KEEP(x);
        UNROLLED for (int j = 0; j < k; j++) {
            if (q >= j && (q - j) % stride == 0 && (q - j) / stride < pixels) sum[(q - j) / stride] += weight[j] * x;
        }
    }
}

/* The same of k rows; unrolled where that is worth its bytes. */
INLINE void window_slide(const float *const *under, rt_tap_range there, lanes *sum, int64_t first, int part, const float *w,
                         int pixels, int k, int stride) {
    if (LANES == 16 && k == 3) {
        UNROLLED for (int i = 0; i < k; i++) {
            row_slide(under[i], there, sum, first, part, w + i * k * RT_BLOCK, pixels, k, stride);
        }
        return;
    }
    ROLLED for (int i = 0; i < k; i++) {
        row_slide(under[i], there, sum, first, part, w + i * k * RT_BLOCK, pixels, k, stride);
    }
}

/* `pixels` neighbours of a row from `column` on, the first of which is output `out` of the plane. `k`: taps of either
 * axis, a constant; 0: any numbers, those of a row `dil` apart. `grouped`, a constant: lanes sum their groups' inputs. */
INLINE void neighbours_compute(const rt_blocked_rows *rows, const float *const *under, rt_tap_range there, int64_t column,
                               int64_t out, int pixels, int k, int stride, int dil, bool grouped) {
    int64_t first = column * stride * RT_BLOCK, taps = rows->window->k_h * rows->window->k_w;
    lanes low = lower_bound(rows->activation, rows->a), high = upper_bound(rows->activation, rows->b);
    ROLLED for (int part = 0; part < RT_BLOCK; part += LANES) {
        lanes sum[MOST], bias = load(rows->bias + part);
        UNROLLED for (int p = 0; p < pixels; p++) sum[p] = bias;
        if (rows->residual != NULL) {
            UNROLLED for (int p = 0; p < pixels; p++) sum[p] += load(rows->residual + (out + p) * RT_BLOCK + part);
        }
        const float *w = rows->weights + part;
        for (int64_t index = 0; grouped && index < rows->group; index++, w += taps * RT_BLOCK) {
            const group_inputs at = group_inputs_of(rows->group, index, part);
            window_add(rows, under, sum, first + at.from, w, pixels, k, stride, dil, &at);
        }
        if (!grouped && k > 0 && k <= SLIDING) window_slide(under, there, sum, column * stride, part, w, pixels, k, stride);
        else if (!grouped) window_add(rows, under, sum, first + part, w, pixels, k, stride, dil, NULL);
        float *y = rows->y + out * RT_BLOCK + part;
        UNROLLED for (int p = 0; p < pixels; p++) store(y + p * RT_BLOCK, clamp(sum[p], low, high));
    }
}

/* A row of at least LEAST outputs. */
INLINE void row_compute(const rt_blocked_rows *rows, const float *const *under, rt_tap_range there, int64_t row, int k,
                        int stride, bool grouped) {
    const int most = MOST_OF(k);
    int64_t width = rows->window->out_w, out = row * width, column = 0;
    if (k <= SLIDING && !grouped && width % FITTING == 0 && width % most != 0) {
        for (; column < width; column += FITTING) {
            neighbours_compute(rows, under, there, column, out + column, FITTING, k, stride, 1, grouped);
        }
        return;
    }
    for (; most > LEAST && width >= most && width - column > LEAST; column += most) {
        if (column + most > width) column = width - most;
        neighbours_compute(rows, under, there, column, out + column, most, k, stride, 1, grouped);
    }
    for (; column < width; column += LEAST) {
        if (column + LEAST > width) column = width - LEAST;
        neighbours_compute(rows, under, there, column, out + column, LEAST, k, stride, 1, grouped);
    }
}

/* Any row of any window. */
INLINE void row_compute_any(const rt_blocked_rows *rows, const float *const *under, rt_tap_range there, int64_t row,
                            bool grouped) {
    int stride = (int)rows->window->stride_w, dil = (int)rows->window->dil_w;
    int64_t column = 0, width = rows->window->out_w, out = row * width;
    for (; MOST_OF(0) > LEAST && column + MOST <= width; column += MOST) {
        neighbours_compute(rows, under, there, column, out + column, MOST, 0, stride, dil, grouped);
    }
    for (; column + LEAST <= width; column += LEAST) {
        neighbours_compute(rows, under, there, column, out + column, LEAST, 0, stride, dil, grouped);
    }
    for (; column < width; column++) neighbours_compute(rows, under, there, column, out + column, 1, 0, stride, dil, grouped);
}

/* Of rows that have their padding. */
static const rt_tap_range EVERYWHERE = {0, INT64_MAX};

typedef void row_of(const rt_blocked_rows *rows, const float *const *under, rt_tap_range there, int64_t row);

#define ROW(name, compute)                                                                                             \
    static void name(const rt_blocked_rows *rows, const float *const *under, rt_tap_range there, int64_t row) { compute; }
ROW(row_any, row_compute_any(rows, under, there, row, false))
ROW(row_3_1, row_compute(rows, under, there, row, 3, 1, false))
ROW(row_3_2, row_compute(rows, under, there, row, 3, 2, false))
ROW(row_5_1, row_compute(rows, under, there, row, 5, 1, false))
ROW(row_5_2, row_compute(rows, under, there, row, 5, 2, false))
ROW(grouped_any, row_compute_any(rows, under, there, row, true))
ROW(grouped_3_1, row_compute(rows, under, there, row, 3, 1, true))
ROW(grouped_3_2, row_compute(rows, under, there, row, 3, 2, true))

static row_of *row_choose(const rt_blocked_window *w, bool grouped) {
    bool is_dense = w->dil_w == 1 && w->k_h == w->k_w && w->stride_w <= 2 && w->out_w >= LEAST;
    if (is_dense && w->k_w == 3 && grouped) return w->stride_w == 1 ? grouped_3_1 : grouped_3_2;
    if (grouped) return grouped_any;
    if (is_dense && w->k_w == 3) return w->stride_w == 1 ? row_3_1 : row_3_2;
    if (is_dense && w->k_w == 5) return w->stride_w == 1 ? row_5_1 : row_5_2;
    return row_any;
}

/* Whether a row's function knows by itself which columns are padding. */
static bool pads_itself(const rt_blocked_window *w, row_of *compute) {
    bool knows = compute == row_3_1 || compute == row_3_2 || compute == row_5_1 || compute == row_5_2;
    int64_t width = (w->out_w - 1) * w->stride_w + w->k_w;
    return knows && w->k_w <= SLIDING && w->pad_l < w->k_w && width - w->pad_l - w->in_w < w->k_w;
}

void NAME(rt_lanes_depthwise_)(const rt_blocked_rows *rows) {
    const rt_blocked_window *w = rows->window;
    row_of *compute = row_choose(w, rows->group > 1);
    if (rows->under != NULL) {
        compute(rows, rows->under, EVERYWHERE, 0);
    } else {
        padded_rows in = padded_start(rows, pads_itself(w, compute));
        rt_tap_range there = in.in_place ? (rt_tap_range){w->pad_l, w->pad_l + w->in_w} : EVERYWHERE;
        for (int64_t row = rows->first_row; row < rows->end_row; row++) {
            padded_move(rows, row, &in);
            compute(rows, in.under, there, row);
        }
    }
    if (rows->activation == RT_UNARY_CLAMP) return;
    int64_t width = rows->window->out_w;
    uint64_t count = (uint64_t)((rows->end_row - rows->first_row) * width * RT_BLOCK);
    rows->tiles->apply(rows->activation, rows->a, rows->b, rows->y + rows->first_row * width * RT_BLOCK, count);
}

/* The results of a row of sums, by fixed point; `place`: of the first in the plane. */
static void fixed_finish(const rt_quantized_rows *rows, int64_t place) {
    for (int part = 0; part < RT_BLOCK; part += LANES) {
        const fixed_lanes by = fixed_lanes_of(&rows->end, rows->end.bias, part, false);
        for (int64_t column = 0; column < rows->window->out_w; column += LEAST) {
            int64_t left = rows->window->out_w - column, at = column * RT_BLOCK + part;
            int count = left < LEAST ? (int)left : LEAST;
            ints whole[LEAST];
            for (int i = 0; i < count; i++) whole[i] = __builtin_convertvector(load(rows->sums + at + i * RT_BLOCK), ints);
            held_sums_store(&by, whole, count, (uint8_t *)rows->end.y + place + at);
        }
    }
}

/* Completes `count` registers that follow each other, the first of which has the first lanes. */
INLINE void sums_finish(const rt_quantized_end *end, const float *sums, int64_t place, int count, const lanes *scales,
                        const lanes *bias) {
    lanes v[LEAST];
    UNROLLED for (int i = 0; i < count; i++) v[i] = load(sums + i * LANES) * scales[i % PARTS] + bias[i % PARTS];
    results_store(end, v, count, place, LANES, least(end), most(end), false);
}

/* The results of a row of sums; `place`: of the first in the plane. */
static void row_finish(const rt_quantized_rows *rows, int64_t place) {
    const rt_quantized_end end = rows->end; /* stores could change it, for all that the compiler knows */
    const float *sums = rows->sums;
    int64_t i = 0, count = rows->window->out_w * RT_BLOCK;
    lanes scales[PARTS], bias[PARTS];
    UNROLLED for (int part = 0; part < PARTS; part++) {
        scales[part] = load(end.scales + part * LANES) * end.step, bias[part] = load(end.bias + part * LANES);
    }
    for (; i + LEAST * LANES <= count; i += LEAST * LANES) sums_finish(&end, sums + i, place + i, LEAST, scales, bias);
    for (; i < count; i += RT_BLOCK) sums_finish(&end, sums + i, place + i, PARTS, scales, bias);
}

void NAME(rt_lanes_quantized_depthwise_)(const rt_quantized_rows *rows) {
    static const float none[RT_BLOCK];
    rt_blocked_rows sums = {.window = rows->window, .x_bytes = rows->x, .zero = rows->zero, .padded = rows->padded};
    sums.weights = rows->weights;
    sums.bias = none;
    sums.y = rows->sums;
    sums.first_row = rows->first_row;
    sums.end_row = rows->end_row;
    sums.activation = RT_UNARY_CLAMP;
    sums.a = -INFINITY;
    sums.b = INFINITY;
    row_of *compute = row_choose(rows->window, false);
    padded_rows in = padded_start(&sums, false);
    int64_t width = rows->window->out_w * RT_BLOCK;
    for (int64_t row = rows->first_row; row < rows->end_row; row++) {
        padded_move(&sums, row, &in);
        compute(&sums, in.under, EVERYWHERE, 0);
        if (rows->end.bytes & RT_BYTES_FIXED) fixed_finish(rows, row * width);
        else row_finish(rows, row * width);
    }
    results_activate(&rows->end, rows->first_row * width, (rows->end_row - rows->first_row) * width);
}

/* Where a tap's row begins in the input, for the first pixel. */
INLINE const float *tap_row(const rt_blocked_rows *rows, const taps *at, int64_t i) {
    const rt_blocked_window *window = rows->window;
    return rows->x + ((at->top + i * window->dil_h) * window->in_w + at->left) * RT_BLOCK;
}

/* Adds one tap to the result so far; of a maximum, a NaN on either side is the result. */
INLINE lanes combine(bool is_max, lanes value, lanes x) {
    return is_max ? choose((x > value) | (x != x), x, value) : value + x;
}

/* One pixel of a pool. A window wholly outside gives what an empty maximum or mean is. */
INLINE void pool_pixel(const rt_blocked_rows *rows, const taps *at, int64_t out, bool is_max) {
    const rt_blocked_window *window = rows->window;
    lanes value[PARTS];
    for (int part = 0; part < PARTS; part++) value[part] = (lanes){0} + (is_max ? -INFINITY : 0.0f);
    for (int64_t i = at->rows.first; i < at->rows.end; i++) {
        const float *x = tap_row(rows, at, i);
        for (int64_t j = at->columns.first; j < at->columns.end; j++) {
            const float *source = x + j * window->dil_w * RT_BLOCK;
            UNROLLED for (int part = 0; part < PARTS; part++) {
                value[part] = combine(is_max, value[part], load(source + part * LANES));
            }
        }
    }
    bool is_none = at->rows.end <= at->rows.first || at->columns.end <= at->columns.first;
    int64_t found = is_none ? 0 : (at->rows.end - at->rows.first) * (at->columns.end - at->columns.first);
    float divisor = rows->count_include_pad ? (float)window->k_h * (float)window->k_w : (float)found;
    UNROLLED for (int part = 0; part < PARTS; part++) {
        if (!is_max) value[part] /= (lanes){0} + divisor;
        store(rows->y + out * RT_BLOCK + part * LANES, value[part]);
    }
}

/* One row of a pool. */
INLINE void pool_row(const rt_blocked_rows *rows, int64_t row, rt_tap_range inside, bool is_max) {
    const rt_blocked_window *window = rows->window;
    taps at = row_taps(window, row);
    for (int64_t column = 0; column < window->out_w; column++) {
        column_move(window, column, inside, &at);
        pool_pixel(rows, &at, row * window->out_w + column, is_max);
    }
}

void NAME(rt_lanes_pool_)(const rt_blocked_rows *rows) {
    rt_tap_range inside = columns_inside(rows->window);
    for (int64_t row = rows->first_row; row < rows->end_row; row++) {
        if (rows->pooling == RT_POOLING_MAX) {
            pool_row(rows, row, inside, true);
        } else {
            pool_row(rows, row, inside, false);
        }
    }
}

/* The lanes of a plane over all its pixels, or the squares of their distances from a mean: in LEAST sums, which do not
 * wait for each other. */
INLINE void plane_sum(const float *x, uint64_t pixels, const float *mean, float *sums) {
    ROLLED for (int part = 0; part < RT_BLOCK; part += LANES) {
        lanes sum[LEAST] = {0}, less = mean != NULL ? load(mean + part) : (lanes){0};
        uint64_t p = 0;
        for (; p + LEAST <= pixels; p += LEAST) {
            UNROLLED for (uint64_t i = 0; i < LEAST; i++) {
                lanes v = load(x + (p + i) * RT_BLOCK + part) - less;
                sum[i] += mean != NULL ? v * v : v;
            }
        }
        for (; p < pixels; p++) {
            lanes v = load(x + p * RT_BLOCK + part) - less;
            sum[0] += mean != NULL ? v * v : v;
        }
        store(sums + part, sum[0] + sum[1] + (sum[2] + sum[3]));
    }
}

void NAME(rt_lanes_sum_)(const float *x, uint64_t pixels, float *sums) { plane_sum(x, pixels, NULL, sums); }

void NAME(rt_lanes_squares_)(const float *x, uint64_t pixels, const float *mean, float *sums) {
    plane_sum(x, pixels, mean, sums);
}

void NAME(rt_lanes_affine_)(const rt_blocked_affine *pixels) {
    const rt_blocked_affine own = *pixels; /* stores could change it, for all that the compiler knows */
    const lanes low = (lanes){0} + own.low, high = (lanes){0} + own.high;
    ROLLED for (int part = 0; part < RT_BLOCK; part += LANES) {
        lanes mean = load(own.mean + part), factor = load(own.factor + part), shift = load(own.shift + part);
        for (uint64_t i = part; i < own.pixels * RT_BLOCK; i += RT_BLOCK) {
            store(own.y + i, clamp((load(own.x + i) - mean) * factor + shift, low, high));
        }
    }
}
