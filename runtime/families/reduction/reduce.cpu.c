/* reduce: along the middle of three axes, of any strides. The _check and _run functions keep the contract of
 * rt_cpu_operator. */
#include <math.h>
#include <stddef.h>

#include "cpu_arguments.h"
#include "../../native/src/cpu/cpu_math.h"
#include "../../native/src/cpu/cpu_nests.h"

static const char *reduce_check(const rt_cpu_call *call, rt_cpu_needs *needs) {
    rt_reduce_args d = rt_reduce_args_of(call);
    const int32_t extents[] = {d.outer, d.reduced, d.inner}, y_extents[] = {d.outer, d.inner};
    const int32_t xs[] = {d.x_outer_stride, d.x_reduced_stride, d.x_inner_stride};
    const int32_t ys[] = {d.y_outer_stride, d.y_inner_stride};
    if (!rt_nest_is_countable(extents, 3)) return "too many elements";
    if (!rt_nest_fits(&call->tensors[RT_REDUCE_X], extents, xs, 3)) return "the input exceeds its pool";
    if (!rt_nest_fits(&call->tensors[RT_REDUCE_Y], y_extents, ys, 2)) return "the output exceeds its pool";
    needs->work = rt_nest_elements(extents, 3);
    return NULL;
}

#define LINES_PER_PART 4096

/* Adds a line of inputs to the results so far; a mean is a sum until it is divided. */
__attribute__((noinline)) static void reduce_combine(uint32_t code, float *restrict result, const float *restrict x,
                                                     int64_t stride, int64_t count) {
    float line[RT_INNER_PER_TURN];
    if (stride != 1) {
        for (int64_t i = 0; i < count; i++) line[i] = x[i * stride];
        x = line;
    }
    switch (code) {
        case RT_REDUCE_MAX:
            for (int64_t i = 0; i < count; i++) result[i] = rt_greater(result[i], x[i]);
            break;
        case RT_REDUCE_MIN:
            for (int64_t i = 0; i < count; i++) result[i] = rt_less(result[i], x[i]);
            break;
        default:
            for (int64_t i = 0; i < count; i++) result[i] += x[i];
    }
}

static float start_of(uint32_t code) {
    return code == RT_REDUCE_MAX ? -INFINITY : code == RT_REDUCE_MIN ? INFINITY : 0.0f;
}

/* Lines of inputs, of which the elements of one index are combined. They add up in parts, and these do: in a single sum,
 * what comes after many millions of elements is rounded away. */
typedef struct {
    int64_t count, stride, elements, element_stride;
} lines;

static void reduce_lines(uint32_t code, float *result, const float *x, lines all) {
    float part[RT_INNER_PER_TURN];
    for (int64_t i = 0; i < all.elements; i++) result[i] = start_of(code);
    for (int64_t from = 0; from < all.count; from += LINES_PER_PART) {
        int64_t end = from + LINES_PER_PART < all.count ? from + LINES_PER_PART : all.count;
        for (int64_t i = 0; i < all.elements; i++) part[i] = start_of(code);
        for (int64_t r = from; r < end; r++) {
            reduce_combine(code, part, x + r * all.stride, all.element_stride, all.elements);
        }
        reduce_combine(code, result, part, 1, all.elements);
    }
}

/* One result of neighbours: as many of them at once as a turn has, then what they came to, and the rest. */
static float reduce_neighbours(uint32_t code, const float *x, int64_t count) {
    float lanes[RT_INNER_PER_TURN], result;
    int64_t whole = count / RT_INNER_PER_TURN;
    reduce_lines(code, lanes, x, (lines){whole, RT_INNER_PER_TURN, RT_INNER_PER_TURN, 1});
    reduce_lines(code, &result, lanes, (lines){RT_INNER_PER_TURN, 1, 1, 1});
    for (int64_t i = whole * RT_INNER_PER_TURN; i < count; i++) reduce_combine(code, &result, x + i, 1, 1);
    return result;
}

/* Line by line, so that the inner index runs through neighbours; a mean is divided at the end. */
static void reduce_piece(const rt_cpu_call *call, int64_t outer, int64_t first, int64_t count) {
    rt_reduce_args d = rt_reduce_args_of(call);
    uint32_t code = call->codes.reduce;
    const float *x = rt_floats(&call->tensors[RT_REDUCE_X]) + outer * d.x_outer_stride + first * d.x_inner_stride;
    float *y = rt_floats(&call->tensors[RT_REDUCE_Y]) + outer * d.y_outer_stride + first * d.y_inner_stride;
    float result[RT_INNER_PER_TURN];
    if (count == 1 && d.x_reduced_stride == 1 && d.reduced >= RT_INNER_PER_TURN) {
        result[0] = reduce_neighbours(code, x, d.reduced);
    } else {
        reduce_lines(code, result, x, (lines){d.reduced, d.x_reduced_stride, count, d.x_inner_stride});
    }
    float divisor = code == RT_REDUCE_MEAN ? (float)d.reduced : 1.0f;
    for (int64_t i = 0; i < count; i++) y[i * d.y_inner_stride] = result[i] / divisor;
}

static void reduce_run(const rt_cpu_call *call, rt_workers *workers) {
    rt_reduce_args d = rt_reduce_args_of(call);
    rt_middle_run(call, workers, d.outer, d.inner, reduce_piece);
}

const rt_cpu_operator rt_cpu_reduce = {RT_REDUCE_ROW, .check = reduce_check, .run = reduce_run};
