/* attention: y[b][h][l] = sum over s of p[s] * v[b][h][s], where p is the softmax over s of
 * scale * (q[b][h][l] . k[b][h][s]) + mask[b][h][l][s].
 *
 * Queries are divided among the workers, each of which holds the scores of one. The _check and _run functions keep the
 * contract of rt_cpu_operator.
 */
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "../system/arithmetic.h"
#include "cpu_math.h"
#include "cpu_operator.h"

enum { Q, K, V, MASK, Y, PARTS = 16 };

/* The ints in the order of the arguments; strides are those of batch, head, place and element. */
typedef struct {
    int32_t batch, heads, queries, keys, depth, values, q[4], k[4], v[4], m[4], y[4], masked, causal;
} dims;

/* What all turns share. */
typedef struct {
    const rt_cpu_call *call;
    rt_workers *workers;
    dims d;
} job;

static dims dims_read(const rt_cpu_call *call) {
    dims d;
    memcpy(&d, call->ints, sizeof d);
    return d;
}

static const char *attention_check(const rt_cpu_call *call, rt_cpu_needs *needs) {
    dims d = dims_read(call);
    const rt_cpu_tensor *tensors = call->tensors;
    const int32_t q_extents[] = {d.batch, d.heads, d.queries, d.depth}, k_extents[] = {d.batch, d.heads, d.keys, d.depth};
    const int32_t v_extents[] = {d.batch, d.heads, d.keys, d.values}, m_extents[] = {d.batch, d.heads, d.queries, d.keys};
    const int32_t y_extents[] = {d.batch, d.heads, d.queries, d.values};
    if (!rt_all_at_least(call->ints, 6, 1)) return "a size is out of range";
    uint64_t turns = rt_product3(d.batch, d.heads, d.queries);
    if (turns > UINT32_MAX) return "too many queries";
    if (!rt_nest_fits(&tensors[Q], q_extents, d.q, 4)) return "q exceeds its pool";
    if (!rt_nest_fits(&tensors[K], k_extents, d.k, 4)) return "k exceeds its pool";
    if (!rt_nest_fits(&tensors[V], v_extents, d.v, 4)) return "v exceeds its pool";
    if (d.masked && !rt_nest_fits(&tensors[MASK], m_extents, d.m, 4)) return "the mask exceeds its pool";
    if (!rt_nest_fits(&tensors[Y], y_extents, d.y, 4)) return "the output exceeds its pool";
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
    for (int64_t e = 0; e < d->values; e++) y[e * d->y[3]] = 0.0f;
    for (int64_t s = 0; s < keys; s++) {
        const float *row = v + s * d->v[2];
        float weight = weights[s] / sum;
        if (d->v[3] == 1 && d->y[3] == 1) {
            for (int64_t e = 0; e < d->values; e++) y[e] += weight * row[e];
        } else {
            for (int64_t e = 0; e < d->values; e++) y[e * d->y[3]] += weight * row[e * d->v[3]];
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
    const float *q = tensors[Q].data + b * d->q[0] + h * d->q[1] + l * d->q[2];
    const float *k = tensors[K].data + b * d->k[0] + h * d->k[1];
    const float *mask = tensors[MASK].data + (d->masked ? b * d->m[0] + h * d->m[1] + l * d->m[2] : 0);
    float *scores = (float *)rt_workers_scratch(all->workers, worker);
    int64_t keys = d->causal && l + 1 < d->keys ? l + 1 : d->keys;
    for (int64_t s = 0; s < keys; s++) {
        scores[s] = all->call->floats[0] * dot(q, d->q[3], k + s * d->k[2], d->k[3], d->depth);
        if (d->masked) scores[s] += mask[s * d->m[3]];
    }
    float sum = scores_to_weights(scores, keys);
    values_add(d, tensors[V].data + b * d->v[0] + h * d->v[1], scores, keys, sum,
               tensors[Y].data + b * d->y[0] + h * d->y[1] + l * d->y[2]);
}

static void attention_run(const rt_cpu_call *call, rt_workers *workers) {
    job all = {call, workers, dims_read(call)};
    rt_workers_run(workers, (uint32_t)rt_product3(all.d.batch, all.d.heads, all.d.queries), turn_run, &all);
}

const rt_cpu_operator rt_cpu_attention = {
    "attention", "fffff", sizeof(dims) / sizeof(int32_t), 1, attention_check, attention_run, NULL};
