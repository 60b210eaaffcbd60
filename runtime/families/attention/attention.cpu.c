/* attention: y[b][h][l] = sum over s of p[s] * v[b][h][s], where p is the softmax over s of
 * scale * (q[b][h][l] . k[b][h][s]) + mask[b][h][l][s].
 *
 * Queries are divided among the workers, each of which holds the scores of one. The _check and _run functions keep the
 * contract of rt_cpu_operator.
 */
#include <math.h>
#include <stddef.h>

#include "../../native/src/system/arithmetic.h"
#include "../../native/src/cpu/cpu_arguments.h"
#include "../../native/src/cpu/cpu_math.h"

enum { PARTS = 16 };
enum {
    Q = RT_ATTENTION_Q,
    K = RT_ATTENTION_K,
    V = RT_ATTENTION_V,
    MASK = RT_ATTENTION_MASK,
    Y = RT_ATTENTION_Y
};
typedef rt_attention_args dims;

/* What all turns share. */
typedef struct {
    const rt_cpu_call *call;
    rt_workers *workers;
    dims d;
} job;

static const char *attention_check(const rt_cpu_call *call, rt_cpu_needs *needs) {
    dims d = rt_attention_args_of(call);
    const rt_cpu_tensor *tensors = call->tensors;
    const int32_t q_extents[] = {d.batch, d.heads, d.queries, d.depth}, k_extents[] = {d.batch, d.heads, d.keys, d.depth};
    const int32_t v_extents[] = {d.batch, d.heads, d.keys, d.values}, m_extents[] = {d.batch, d.heads, d.queries, d.keys};
    const int32_t y_extents[] = {d.batch, d.heads, d.queries, d.values};
    uint64_t turns = rt_product3(d.batch, d.heads, d.queries);
    if (turns > UINT32_MAX) return "too many queries";
    if (!rt_nest_fits(&tensors[Q], q_extents, d.qs, 4)) return "q exceeds its pool";
    if (!rt_nest_fits(&tensors[K], k_extents, d.ks, 4)) return "k exceeds its pool";
    if (!rt_nest_fits(&tensors[V], v_extents, d.vs, 4)) return "v exceeds its pool";
    if (d.masked && !rt_nest_fits(&tensors[MASK], m_extents, d.ms, 4)) return "the mask exceeds its pool";
    if (!rt_nest_fits(&tensors[Y], y_extents, d.ys, 4)) return "the output exceeds its pool";
    needs->work = rt_product(turns, rt_product((uint64_t)d.keys, (uint64_t)d.depth + (uint64_t)d.values));
    needs->scratch_bytes = rt_product((uint64_t)d.keys, sizeof(float));
    return NULL;
}

/* Sum of products, PARTS at a time, which the compiler keeps in registers. */
static float dot(const float *a, int64_t a_stride, const float *b, int64_t b_stride, int64_t count) {
    float part[PARTS] = {0}, sum = 0.0f;
    int64_t whole = a_stride == 1 && b_stride == 1 ? count / PARTS * PARTS : 0;
    for (int64_t i = 0; i < whole; i += PARTS) {
        for (int k = 0; k < PARTS; k++) part[k] += a[i + k] * b[i + k];
    }
    for (int k = 0; k < PARTS; k++) sum += part[k];
    for (int64_t i = whole; i < count; i++) sum += a[i * a_stride] * b[i * b_stride];
    return sum;
}

/* Turns scores into weights that are to be divided by the sum, which is returned. */
static float scores_to_weights(float *scores, int64_t count) {
    float greatest = -INFINITY, sum = 0.0f;
    for (int64_t s = 0; s < count; s++) greatest = rt_greater(scores[s], greatest);
    for (int64_t s = 0; s < count; s++) sum += scores[s] = expf(scores[s] - greatest);
    return sum;
}

/* The weighted values of one query. */
static void values_add(const dims *d, const float *v, const float *weights, int64_t keys, float sum, float *y) {
    for (int64_t e = 0; e < d->values; e++) y[e * d->ys[3]] = 0.0f;
    for (int64_t s = 0; s < keys; s++) {
        const float *row = v + s * d->vs[2];
        float weight = weights[s] / sum;
        if (d->vs[3] == 1 && d->ys[3] == 1) {
            for (int64_t e = 0; e < d->values; e++) y[e] += weight * row[e];
        } else {
            for (int64_t e = 0; e < d->values; e++) y[e * d->ys[3]] += weight * row[e * d->vs[3]];
        }
    }
}

/* A turn: one query. */
static void turn_run(const void *context, uint32_t turn, uint32_t worker) {
    const job *all = context;
    const dims *d = &all->d;
    const rt_cpu_tensor *tensors = all->call->tensors;
    int64_t l = turn % (uint32_t)d->queries, pair = turn / (uint32_t)d->queries;
    int64_t b = pair / d->heads, h = pair % d->heads;
    const float *q = tensors[Q].data + b * d->qs[0] + h * d->qs[1] + l * d->qs[2];
    const float *k = tensors[K].data + b * d->ks[0] + h * d->ks[1];
    const float *mask = tensors[MASK].data + (d->masked ? b * d->ms[0] + h * d->ms[1] + l * d->ms[2] : 0);
    float *scores = (float *)rt_workers_scratch(all->workers, worker);
    int64_t keys = d->causal && l + 1 < d->keys ? l + 1 : d->keys;
    for (int64_t s = 0; s < keys; s++) {
        scores[s] = d->scale * dot(q, d->qs[3], k + s * d->ks[2], d->ks[3], d->depth);
        if (d->masked) scores[s] += mask[s * d->ms[3]];
    }
    float sum = scores_to_weights(scores, keys);
    values_add(d, tensors[V].data + b * d->vs[0] + h * d->vs[1], scores, keys, sum,
               tensors[Y].data + b * d->ys[0] + h * d->ys[1] + l * d->ys[2]);
}

static void attention_run(const rt_cpu_call *call, rt_workers *workers) {
    job all = {call, workers, rt_attention_args_of(call)};
    rt_workers_run(workers, (uint32_t)rt_product3(all.d.batch, all.d.heads, all.d.queries), turn_run, &all);
}

const rt_cpu_operator rt_cpu_attention = {RT_ATTENTION_ROW, .check = attention_check, .run = attention_run};
