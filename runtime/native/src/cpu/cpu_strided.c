/* Half and bfloat16 numbers are converted here by their bits, so that no instruction set is needed for them. */
#include "cpu_strided.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#include "../system/arithmetic.h"
#include "../plan/plan.h"

enum { ELEMENTS_PER_TURN = 8192 };

bool rt_element_is_real(uint32_t type) {
    return type == RT_ELEMENT_TYPE_F32 || type == RT_ELEMENT_TYPE_F16 || type == RT_ELEMENT_TYPE_F64 ||
           type == RT_ELEMENT_TYPE_BF16;
}

/* --- views --- */

const int32_t *rt_strided_extents(const rt_cpu_call *call) { return call->ints + call->operator->head; }

/* Where a tensor's type and strides stand. */
static const int32_t *view_ints(const rt_cpu_call *call, uint32_t index) {
    return rt_strided_extents(call) + RT_LOOPS + index * RT_VIEW_INTS;
}

rt_strided rt_strided_tensor(const rt_cpu_call *call, uint32_t index) {
    const rt_cpu_tensor *tensor = &call->tensors[index];
    return (rt_strided){tensor->data, tensor->type, view_ints(call, index) + 1};
}

uint64_t rt_strided_turns(const int32_t *extents, uint32_t first, uint32_t last) {
    uint64_t count = 1;
    for (uint32_t i = first; i < last; i++) count = rt_product(count, (uint64_t)extents[i]);
    return count;
}

/* Widens a range of offsets by loops; false where it overflows. */
static bool range_widen(int64_t *lowest, int64_t *highest, const int32_t *extents, const int32_t *strides,
                        uint32_t loops) {
    for (uint32_t i = 0; i < loops; i++) {
        int64_t reach = ((int64_t)extents[i] - 1) * strides[i]; /* below 2^62 */
        int64_t *end = reach < 0 ? lowest : highest;
        if (__builtin_add_overflow(*end, reach, end)) return false;
    }
    return true;
}

const char *rt_strided_check_more(const rt_cpu_call *call, uint32_t index, const int32_t *more_extents,
                                  const int32_t *more_strides, uint32_t more) {
    const int32_t *extents = rt_strided_extents(call), *view = view_ints(call, index);
    const rt_cpu_tensor *tensor = &call->tensors[index];
    int64_t lowest = (int64_t)tensor->offset, highest = 0;
    if (tensor->element_bytes == 0) return "an element type is unknown";
    if (rt_strided_turns(extents, 0, RT_LOOPS) > UINT32_MAX) return "too many turns";
    if (!rt_all_at_least(more_extents, more, 1)) return "a limit is out of range";
    bool counted = range_widen(&lowest, &highest, extents, view + 1, RT_LOOPS) &&
                   range_widen(&lowest, &highest, more_extents, more_strides, more);
    if (!counted || lowest < 0 || (uint64_t)highest >= tensor->count) return "a view exceeds its pool";
    return NULL;
}

const char *rt_strided_check(const rt_cpu_call *call, uint32_t index, uint32_t loops) {
    for (uint32_t i = loops; i < RT_LOOPS; i++) {
        if (view_ints(call, index)[1 + i] != 0) return "a tensor takes part in too many loops";
    }
    return rt_strided_check_more(call, index, NULL, NULL, 0);
}

void rt_strided_index(const int32_t *extents, uint32_t loops, uint64_t turn, int64_t *index) {
    for (uint32_t axis = loops; axis-- > 0;) {
        index[axis] = (int64_t)(turn % (uint64_t)extents[axis]);
        turn /= (uint64_t)extents[axis];
    }
}

int64_t rt_strided_at(const rt_strided *tensor, const int64_t *index, uint32_t loops) {
    int64_t at = 0;
    for (uint32_t i = 0; i < loops; i++) at += index[i] * tensor->strides[i];
    return at;
}

/* --- conversions --- */

static float float_of_bits(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint32_t bits_of_float(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static double half_read(uint16_t half) {
    uint32_t exponent = half >> 10 & 31, fraction = half & 1023;
    double value = exponent == 31  ? (fraction ? NAN : INFINITY)
                   : exponent == 0 ? ldexp((double)fraction, -24)
                                   : ldexp((double)(fraction + 1024), (int)exponent - 25);
    return half & 0x8000 ? -value : value;
}

static double bfloat16_read(uint16_t value) { return (double)float_of_bits((uint32_t)value << 16); }

/* To the nearest half, ties to even. */
static uint16_t half_write(double value) {
    uint16_t sign = signbit(value) ? 0x8000 : 0;
    double size = fabs(value);
    if (value != value) return 0x7E00;
    if (size >= 65520.0) return sign | 0x7C00;
    if (size < 6.103515625e-05) return (uint16_t)(sign | (uint16_t)rint(ldexp(size, 24)));
    int exponent;
    double fraction = frexp(size, &exponent); /* 0.5 <= fraction < 1; a carry goes on into the exponent */
    return (uint16_t)(sign | (((uint32_t)(exponent + 14) << 10) + (uint32_t)rint(ldexp(fraction, 11)) - 1024));
}

/* To the nearest, ties to even. */
static uint16_t bfloat16_write(float value) {
    uint32_t bits = bits_of_float(value);
    if (value != value) return 0x7FC0;
    return (uint16_t)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

/* Towards zero; what no 64 bits can hold becomes the least number, as on x86. */
static int64_t whole_of(double value, bool is_unsigned) {
    if (is_unsigned && value >= 9223372036854775808.0 && value < 18446744073709551616.0) {
        return (int64_t)(uint64_t)value;
    }
    return value > -9223372036854775809.0 && value < 9223372036854775808.0 ? (int64_t)value : INT64_MIN;
}

/* The loop over elements of one C type, `v` each; `into` is the statement. */
#define EACH(ctype, into)                                                             \
    for (int64_t i = 0; i < count; i++) {                                             \
        const ctype v = ((const ctype *)(const void *)tensor->base)[at + i * step];   \
        into;                                                                         \
    }                                                                                 \
    break

void rt_strided_reals(const rt_strided *tensor, int64_t at, int64_t step, int64_t count, double *reals) {
    switch (tensor->type) {
        case RT_ELEMENT_TYPE_F32: EACH(float, reals[i] = (double)v);
        case RT_ELEMENT_TYPE_F16: EACH(uint16_t, reals[i] = half_read(v));
        case RT_ELEMENT_TYPE_F64: EACH(double, reals[i] = v);
        case RT_ELEMENT_TYPE_BF16: EACH(uint16_t, reals[i] = bfloat16_read(v));
        case RT_ELEMENT_TYPE_I8: EACH(int8_t, reals[i] = v);
        case RT_ELEMENT_TYPE_I16: EACH(int16_t, reals[i] = v);
        case RT_ELEMENT_TYPE_I32: EACH(int32_t, reals[i] = v);
        case RT_ELEMENT_TYPE_I64: EACH(int64_t, reals[i] = (double)v);
        case RT_ELEMENT_TYPE_U16: EACH(uint16_t, reals[i] = v);
        case RT_ELEMENT_TYPE_U32: EACH(uint32_t, reals[i] = v);
        case RT_ELEMENT_TYPE_U64: EACH(uint64_t, reals[i] = (double)v);
        default: EACH(uint8_t, reals[i] = v);
    }
}

void rt_strided_wholes(const rt_strided *tensor, int64_t at, int64_t step, int64_t count, int64_t *wholes) {
    switch (tensor->type) {
        case RT_ELEMENT_TYPE_I8: EACH(int8_t, wholes[i] = v);
        case RT_ELEMENT_TYPE_I16: EACH(int16_t, wholes[i] = v);
        case RT_ELEMENT_TYPE_I32: EACH(int32_t, wholes[i] = v);
        case RT_ELEMENT_TYPE_I64: EACH(int64_t, wholes[i] = v);
        case RT_ELEMENT_TYPE_U16: EACH(uint16_t, wholes[i] = v);
        case RT_ELEMENT_TYPE_U32: EACH(uint32_t, wholes[i] = v);
        case RT_ELEMENT_TYPE_U64: EACH(uint64_t, wholes[i] = (int64_t)v);
        case RT_ELEMENT_TYPE_F32: EACH(float, wholes[i] = whole_of((double)v, false));
        case RT_ELEMENT_TYPE_F64: EACH(double, wholes[i] = whole_of(v, false));
        case RT_ELEMENT_TYPE_F16: EACH(uint16_t, wholes[i] = whole_of(half_read(v), false));
        case RT_ELEMENT_TYPE_BF16: EACH(uint16_t, wholes[i] = whole_of(bfloat16_read(v), false));
        default: EACH(uint8_t, wholes[i] = v);
    }
}

/* The loop that writes elements of one C type. */
#define WRITE(ctype, value)                                                                                   \
    for (int64_t i = 0; i < count; i++) ((ctype *)(void *)tensor->base)[at + i * step] = (ctype)(value); \
    break

void rt_strided_put_reals(const rt_strided *tensor, int64_t at, int64_t step, int64_t count, const double *reals) {
    switch (tensor->type) {
        case RT_ELEMENT_TYPE_F32: WRITE(float, reals[i]);
        case RT_ELEMENT_TYPE_F16: WRITE(uint16_t, half_write(reals[i]));
        case RT_ELEMENT_TYPE_F64: WRITE(double, reals[i]);
        case RT_ELEMENT_TYPE_BF16: WRITE(uint16_t, bfloat16_write((float)reals[i]));
        case RT_ELEMENT_TYPE_I8:
        case RT_ELEMENT_TYPE_U8: WRITE(uint8_t, whole_of(reals[i], false));
        case RT_ELEMENT_TYPE_I16:
        case RT_ELEMENT_TYPE_U16: WRITE(uint16_t, whole_of(reals[i], false));
        case RT_ELEMENT_TYPE_I32:
        case RT_ELEMENT_TYPE_U32: WRITE(uint32_t, whole_of(reals[i], false));
        case RT_ELEMENT_TYPE_I64: WRITE(int64_t, whole_of(reals[i], false));
        case RT_ELEMENT_TYPE_U64: WRITE(int64_t, whole_of(reals[i], true));
        default: WRITE(uint8_t, reals[i] != 0);
    }
}

/* The number that 64 bits stand for. */
static double real_of(int64_t whole, bool is_unsigned) {
    return is_unsigned ? (double)(uint64_t)whole : (double)whole;
}

void rt_strided_put_wholes(const rt_strided *tensor, int64_t at, int64_t step, int64_t count, const int64_t *wholes,
                           bool is_unsigned) {
    switch (tensor->type) {
        case RT_ELEMENT_TYPE_F32: WRITE(float, is_unsigned ? (float)(uint64_t)wholes[i] : (float)wholes[i]);
        case RT_ELEMENT_TYPE_F16: WRITE(uint16_t, half_write(real_of(wholes[i], is_unsigned)));
        case RT_ELEMENT_TYPE_F64: WRITE(double, real_of(wholes[i], is_unsigned));
        case RT_ELEMENT_TYPE_BF16: WRITE(uint16_t, bfloat16_write((float)real_of(wholes[i], is_unsigned)));
        case RT_ELEMENT_TYPE_I8:
        case RT_ELEMENT_TYPE_U8: WRITE(uint8_t, wholes[i]);
        case RT_ELEMENT_TYPE_I16:
        case RT_ELEMENT_TYPE_U16: WRITE(uint16_t, wholes[i]);
        case RT_ELEMENT_TYPE_I32:
        case RT_ELEMENT_TYPE_U32: WRITE(uint32_t, wholes[i]);
        case RT_ELEMENT_TYPE_I64:
        case RT_ELEMENT_TYPE_U64: WRITE(int64_t, wholes[i]);
        default: WRITE(uint8_t, wholes[i] != 0);
    }
}

/* --- loops --- */

typedef struct {
    const rt_cpu_call *call;
    rt_row *row;
    const int32_t *extents;
    int64_t piece;
    uint64_t rows, rows_per_turn;
    uint32_t loops;
} strided_loops;

/* A turn: some rows, each in pieces. */
static void rows_turn(const void *context, uint32_t turn, uint32_t worker) {
    const strided_loops *all = context;
    int64_t index[RT_LOOPS], length = all->extents[all->loops - 1];
    uint64_t first = turn * all->rows_per_turn;
    for (uint64_t row = first; row < first + all->rows_per_turn && row < all->rows; row++) {
        rt_strided_index(all->extents, all->loops - 1, row, index);
        for (int64_t start = 0; start < length; start += all->piece) {
            int64_t count = length - start < all->piece ? length - start : all->piece;
            index[all->loops - 1] = start;
            all->row(all->call, index, start, count, worker);
        }
    }
}

void rt_strided_run(const rt_cpu_call *call, rt_workers *workers, uint32_t loops, int64_t piece,
                    rt_row *row) {
    const int32_t *extents = rt_strided_extents(call);
    strided_loops all = {.call = call, .row = row, .extents = extents, .piece = piece, .loops = loops};
    uint64_t inner = rt_strided_turns(extents, loops - 1, RT_LOOPS);
    all.rows = rt_strided_turns(extents, 0, loops - 1);
    all.rows_per_turn = workers == NULL ? all.rows : inner < ELEMENTS_PER_TURN ? ELEMENTS_PER_TURN / inner : 1;
    if (workers == NULL) {
        rows_turn(&all, 0, 0);
    } else {
        rt_workers_run(workers, (uint32_t)rt_ceil_div(all.rows, all.rows_per_turn), rows_turn, &all);
    }
}
