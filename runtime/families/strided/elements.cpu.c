/* elements0 to elements3: a function (RT_ELEMENT_FUNCTION_...) of up to three tensors, element by element.
 *
 * Tensors: the operands, then the result.
 * Integers are computed in 64 bits and wrap round when they are stored; where one operand is real, all are.
 */
#include <math.h>
#include <stddef.h>

#include "../../native/src/cpu/cpu_strided.h"

enum { LAST = RT_LOOPS - 1 };

static uint32_t operand_count(const rt_cpu_call *call) { return (uint32_t)(call->operator->name[8] - '0'); }

static const uint8_t needed_operands[RT_ELEMENT_FUNCTION_COUNT] = RT_ELEMENT_OPERANDS;

/* Functions that have a meaning for reals alone: what they are given is then converted. */
static const bool needs_reals[RT_ELEMENT_FUNCTION_COUNT] = RT_ELEMENT_OF_REALS;

static const char *elements_check(const rt_cpu_call *call, rt_cpu_needs *needs) {
    if (needed_operands[rt_elements0_args_of(call).function] != operand_count(call)) {
        return "there is no such function of so many tensors";
    }
    for (uint32_t i = 0; i <= operand_count(call); i++) {
        const char *problem = rt_strided_check(call, i, RT_LOOPS);
        if (problem != NULL) return problem;
    }
    needs->work = rt_strided_turns(rt_strided_extents(call), 0, RT_LOOPS);
    return NULL;
}

/* --- of reals --- */

#define OF(expression)                                            \
    for (int64_t i = 0; i < count; i++) {                         \
        const double v = a->reals[i], w = b->reals[i];            \
        (void)v, (void)w;                                         \
        y->reals[i] = (expression);                               \
    }                                                             \
    return true
#define TRUTH(expression)                                         \
    for (int64_t i = 0; i < count; i++) {                         \
        const double v = a->reals[i], w = b->reals[i];            \
        (void)v, (void)w;                                         \
        y->wholes[i] = (expression);                              \
    }                                                             \
    return false

static double sign_of(double v) { return v > 0 ? 1 : v < 0 ? -1 : v; }

/* As Python's %: the sign of the divisor. */
static double modulo(double v, double w) {
    double rest = fmod(v, w);
    return rest != 0 && (rest < 0) != (w < 0) ? rest + w : rest;
}

static double sigmoid(double v) { return 1 / (1 + exp(-v)); }

/* Whether the result is real; else it is whole. `b` is `a` for a function of one tensor. */
static bool reals_compute(const rt_cpu_call *call, const rt_piece *a, const rt_piece *b, rt_piece *y, int64_t count) {
    const rt_elements0_args args = rt_elements0_args_of(call);
    switch (args.function) {
        case RT_ELEMENT_FUNCTION_NEG: OF(-v);
        case RT_ELEMENT_FUNCTION_ABS: OF(fabs(v));
        case RT_ELEMENT_FUNCTION_SIGN: OF(sign_of(v));
        case RT_ELEMENT_FUNCTION_CEIL: OF(ceil(v));
        case RT_ELEMENT_FUNCTION_FLOOR: OF(floor(v));
        case RT_ELEMENT_FUNCTION_ROUND: OF(rint(v));
        case RT_ELEMENT_FUNCTION_EXP: OF(exp(v));
        case RT_ELEMENT_FUNCTION_LOG: OF(log(v));
        case RT_ELEMENT_FUNCTION_SQRT: OF(sqrt(v));
        case RT_ELEMENT_FUNCTION_RECIPROCAL: OF(1 / v);
        case RT_ELEMENT_FUNCTION_SIN: OF(sin(v));
        case RT_ELEMENT_FUNCTION_COS: OF(cos(v));
        case RT_ELEMENT_FUNCTION_TAN: OF(tan(v));
        case RT_ELEMENT_FUNCTION_ASIN: OF(asin(v));
        case RT_ELEMENT_FUNCTION_ACOS: OF(acos(v));
        case RT_ELEMENT_FUNCTION_ATAN: OF(atan(v));
        case RT_ELEMENT_FUNCTION_SINH: OF(sinh(v));
        case RT_ELEMENT_FUNCTION_COSH: OF(cosh(v));
        case RT_ELEMENT_FUNCTION_TANH: OF(tanh(v));
        case RT_ELEMENT_FUNCTION_ASINH: OF(asinh(v));
        case RT_ELEMENT_FUNCTION_ACOSH: OF(acosh(v));
        case RT_ELEMENT_FUNCTION_ATANH: OF(atanh(v));
        case RT_ELEMENT_FUNCTION_ERF: OF(erf(v));
        case RT_ELEMENT_FUNCTION_SIGMOID: OF(sigmoid(v));
        case RT_ELEMENT_FUNCTION_ADD: OF(v + w);
        case RT_ELEMENT_FUNCTION_SUB: OF(v - w);
        case RT_ELEMENT_FUNCTION_MUL: OF(v * w);
        case RT_ELEMENT_FUNCTION_DIV: OF(v / w);
        case RT_ELEMENT_FUNCTION_MOD: OF(modulo(v, w));
        case RT_ELEMENT_FUNCTION_FMOD: OF(fmod(v, w));
        case RT_ELEMENT_FUNCTION_POW: OF(pow(v, w));
        case RT_ELEMENT_FUNCTION_MAX: OF(v > w || v != v ? v : w);
        case RT_ELEMENT_FUNCTION_MIN: OF(v < w || v != v ? v : w);
        case RT_ELEMENT_FUNCTION_IS_NAN: TRUTH(v != v);
        case RT_ELEMENT_FUNCTION_IS_INF:
            TRUTH((args.alpha != 0 && v == -(double)INFINITY) || (args.beta != 0 && v == (double)INFINITY));
        case RT_ELEMENT_FUNCTION_NOT: TRUTH(v == 0);
        case RT_ELEMENT_FUNCTION_AND: TRUTH(v != 0 && w != 0);
        case RT_ELEMENT_FUNCTION_OR: TRUTH(v != 0 || w != 0);
        case RT_ELEMENT_FUNCTION_XOR: TRUTH((v != 0) != (w != 0));
        case RT_ELEMENT_FUNCTION_EQUAL: TRUTH(v == w);
        case RT_ELEMENT_FUNCTION_LESS: TRUTH(v < w);
        case RT_ELEMENT_FUNCTION_LESS_OR_EQUAL: TRUTH(v <= w);
        case RT_ELEMENT_FUNCTION_GREATER: TRUTH(v > w);
        case RT_ELEMENT_FUNCTION_GREATER_OR_EQUAL: TRUTH(v >= w);
        default: OF(v);
    }
}

/* --- of wholes, which may be unsigned --- */

#undef OF
#define OF(expression)                                                                           \
    for (int64_t i = 0; i < count; i++) {                                                        \
        const int64_t v = a->wholes[i], w = b->wholes[i];                                        \
        const uint64_t p = (uint64_t)v, q = (uint64_t)w;                                         \
        (void)p, (void)q, (void)w;                                                               \
        y->wholes[i] = (int64_t)(expression);                                                    \
    }                                                                                            \
    return

static bool is_less(int64_t v, int64_t w, bool is_unsigned) {
    return is_unsigned ? (uint64_t)v < (uint64_t)w : v < w;
}

/* A division by zero gives 0; the least number by -1 wraps round. */
static int64_t quotient(int64_t v, int64_t w, bool is_unsigned) {
    if (w == 0) return 0;
    if (is_unsigned) return (int64_t)((uint64_t)v / (uint64_t)w);
    return w == -1 ? (int64_t)(0 - (uint64_t)v) : v / w;
}

static int64_t rest_of(int64_t v, int64_t w, bool is_unsigned) {
    if (w == 0) return 0;
    if (is_unsigned) return (int64_t)((uint64_t)v % (uint64_t)w);
    return w == -1 ? 0 : v % w;
}

static int64_t whole_modulo(int64_t v, int64_t w, bool is_unsigned) {
    int64_t rest = rest_of(v, w, is_unsigned);
    return !is_unsigned && rest != 0 && (rest < 0) != (w < 0) ? rest + w : rest;
}

/* What is shifted in is the sign; as many bits as there are, or more, leave nothing but it. */
static int64_t shifted_right(int64_t v, uint64_t count, bool is_unsigned) {
    if (is_unsigned) return count < 64 ? (int64_t)((uint64_t)v >> count) : 0;
    return v >> (count < 63 ? count : 63);
}

/* Wraps round; a negative exponent leaves 1 and -1 alone. */
static int64_t whole_power(int64_t v, int64_t w) {
    uint64_t base = (uint64_t)v, result = 1;
    if (w < 0 && v != 1 && v != -1) return 0;
    for (uint64_t left = w < 0 ? (uint64_t)w & 1 : (uint64_t)w; left > 0; left >>= 1, base *= base) {
        if (left & 1) result *= base;
    }
    return (int64_t)result;
}

static void wholes_compute(const rt_cpu_call *call, const rt_piece *a, const rt_piece *b, rt_piece *y, int64_t count,
                           bool is_unsigned) {
    switch (rt_elements0_args_of(call).function) {
        case RT_ELEMENT_FUNCTION_NEG: OF(0 - p);
        case RT_ELEMENT_FUNCTION_ABS: OF(is_unsigned || v >= 0 ? p : 0 - p);
        case RT_ELEMENT_FUNCTION_SIGN: OF(v == 0 ? 0 : is_unsigned || v > 0 ? 1 : -1);
        case RT_ELEMENT_FUNCTION_NOT: OF(v == 0);
        case RT_ELEMENT_FUNCTION_BIT_NOT: OF(~p);
        case RT_ELEMENT_FUNCTION_ADD: OF(p + q);
        case RT_ELEMENT_FUNCTION_SUB: OF(p - q);
        case RT_ELEMENT_FUNCTION_MUL: OF(p * q);
        case RT_ELEMENT_FUNCTION_DIV: OF(quotient(v, w, is_unsigned));
        case RT_ELEMENT_FUNCTION_MOD: OF(whole_modulo(v, w, is_unsigned));
        case RT_ELEMENT_FUNCTION_FMOD: OF(rest_of(v, w, is_unsigned));
        case RT_ELEMENT_FUNCTION_POW: OF(whole_power(v, w));
        case RT_ELEMENT_FUNCTION_MAX: OF(is_less(v, w, is_unsigned) ? w : v);
        case RT_ELEMENT_FUNCTION_MIN: OF(is_less(v, w, is_unsigned) ? v : w);
        case RT_ELEMENT_FUNCTION_AND: OF(v != 0 && w != 0);
        case RT_ELEMENT_FUNCTION_OR: OF(v != 0 || w != 0);
        case RT_ELEMENT_FUNCTION_XOR: OF((v != 0) != (w != 0));
        case RT_ELEMENT_FUNCTION_BIT_AND: OF(p & q);
        case RT_ELEMENT_FUNCTION_BIT_OR: OF(p | q);
        case RT_ELEMENT_FUNCTION_BIT_XOR: OF(p ^ q);
        case RT_ELEMENT_FUNCTION_SHIFT_LEFT: OF(q < 64 ? p << q : 0);
        case RT_ELEMENT_FUNCTION_SHIFT_RIGHT: OF(shifted_right(v, q, is_unsigned));
        case RT_ELEMENT_FUNCTION_EQUAL: OF(v == w);
        case RT_ELEMENT_FUNCTION_LESS: OF(is_less(v, w, is_unsigned));
        case RT_ELEMENT_FUNCTION_LESS_OR_EQUAL: OF(!is_less(w, v, is_unsigned));
        case RT_ELEMENT_FUNCTION_GREATER: OF(is_less(w, v, is_unsigned));
        case RT_ELEMENT_FUNCTION_GREATER_OR_EQUAL: OF(!is_less(v, w, is_unsigned));
        default: OF(v);
    }
}

/* --- pieces --- */

/* Where: the condition is whole, and the rest of one kind. */
static void where_piece(const rt_strided *t, const int64_t *index, int64_t count) {
    rt_piece condition, a, b;
    bool real = rt_element_is_real(t[1].type);
    int64_t at[4];
    for (uint32_t i = 0; i < 4; i++) at[i] = rt_strided_at(&t[i], index, RT_LOOPS);
    rt_strided_wholes(&t[0], at[0], t[0].strides[LAST], count, condition.wholes);
    if (real) {
        rt_strided_reals(&t[1], at[1], t[1].strides[LAST], count, a.reals);
        rt_strided_reals(&t[2], at[2], t[2].strides[LAST], count, b.reals);
        for (int64_t i = 0; i < count; i++) a.reals[i] = condition.wholes[i] ? a.reals[i] : b.reals[i];
        rt_strided_put_reals(&t[3], at[3], t[3].strides[LAST], count, a.reals);
        return;
    }
    rt_strided_wholes(&t[1], at[1], t[1].strides[LAST], count, a.wholes);
    rt_strided_wholes(&t[2], at[2], t[2].strides[LAST], count, b.wholes);
    for (int64_t i = 0; i < count; i++) a.wholes[i] = condition.wholes[i] ? a.wholes[i] : b.wholes[i];
    rt_strided_put_wholes(&t[3], at[3], t[3].strides[LAST], count, a.wholes, t[1].type == RT_ELEMENT_TYPE_U64);
}

/* All elements are alpha. */
static void fill_piece(const rt_cpu_call *call, const rt_strided *y, int64_t at, int64_t count) {
    rt_piece values;
    for (int64_t i = 0; i < count; i++) values.reals[i] = (double)rt_elements0_args_of(call).alpha;
    rt_strided_put_reals(y, at, y->strides[LAST], count, values.reals);
}

/* One or two operands, both of the same kind. */
static void operands_piece(const rt_cpu_call *call, const rt_strided *t, uint32_t operands, const int64_t *index,
                           int64_t count) {
    rt_piece in[2], out;
    bool real = needs_reals[rt_elements0_args_of(call).function], is_unsigned = false;
    for (uint32_t i = 0; i < operands; i++) {
        real = real || rt_element_is_real(t[i].type);
        is_unsigned = is_unsigned || t[i].type == RT_ELEMENT_TYPE_U64;
    }
    for (uint32_t i = 0; i < operands; i++) {
        int64_t at = rt_strided_at(&t[i], index, RT_LOOPS), step = t[i].strides[LAST];
        if (real) {
            rt_strided_reals(&t[i], at, step, count, in[i].reals);
        } else {
            rt_strided_wholes(&t[i], at, step, count, in[i].wholes);
        }
    }
    const rt_strided *y = &t[operands];
    int64_t at = rt_strided_at(y, index, RT_LOOPS);
    if (real && reals_compute(call, &in[0], &in[operands - 1], &out, count)) {
        rt_strided_put_reals(y, at, y->strides[LAST], count, out.reals);
        return;
    }
    if (!real) wholes_compute(call, &in[0], &in[operands - 1], &out, count, is_unsigned);
    rt_strided_put_wholes(y, at, y->strides[LAST], count, out.wholes, is_unsigned);
}

static void elements_piece(const rt_cpu_call *call, const int64_t *index, int64_t start, int64_t count,
                           uint32_t worker) {
    rt_strided tensors[4];
    uint32_t operands = operand_count(call);
    (void)start, (void)worker;
    for (uint32_t i = 0; i <= operands; i++) tensors[i] = rt_strided_tensor(call, i);
    if (operands == 0) {
        fill_piece(call, tensors, rt_strided_at(tensors, index, RT_LOOPS), count);
    } else if (operands == 3) {
        where_piece(tensors, index, count);
    } else {
        operands_piece(call, tensors, operands, index, count);
    }
}

static void elements_run(const rt_cpu_call *call, rt_workers *workers) {
    rt_strided_run(call, workers, RT_LOOPS, RT_PIECE, elements_piece);
}

const rt_cpu_operator rt_cpu_elements0 = {RT_ELEMENTS0_ROW, .check = elements_check, .run = elements_run};
const rt_cpu_operator rt_cpu_elements1 = {RT_ELEMENTS1_ROW, .check = elements_check, .run = elements_run};
const rt_cpu_operator rt_cpu_elements2 = {RT_ELEMENTS2_ROW, .check = elements_check, .run = elements_run};
const rt_cpu_operator rt_cpu_elements3 = {RT_ELEMENTS3_ROW, .check = elements_check, .run = elements_run};
