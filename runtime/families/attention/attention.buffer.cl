// Scaled dot-product attention: y[b][h][l] = sum over s of p[s] * v[b][h][s], where p is the softmax over s of
// scale * (q[b][h][l] . k[b][h][s]) + mask[b][h][l][s]; masked 0: there is no mask; causal 1: only keys s <= l count.
// Every loop has its stride in each tensor, in the order batch, head, place, element. DEPTH and VALUES are the elements
// of a query and of a value, as the arguments depth and values.
// The keys are passed over once: the greatest score so far divides the weights, and what was summed is scaled anew.
// LANES 1: a work item computes a query. Else the work items of a work group share its keys, and join their sums in
// local memory: ids (lane, l, b*heads + h). Any number of lanes gives the same.
#define MOST_ITEMS 256
#define QUERY_VECTORS ((DEPTH + VECTOR - 1) / VECTOR)
#define VALUE_VECTORS ((VALUES + VECTOR - 1) / VECTOR)

#if LANES > 1
// Sum (or the greatest) over the work items that share a query. Every work item of the work group must come here.
INLINED float join_lanes(float value, bool greatest, local float *shared)
{
    local float *own = shared + (get_local_id(2) * get_local_size(1) + get_local_id(1)) * get_local_size(0);
    barrier(CLK_LOCAL_MEM_FENCE);
    own[get_local_id(0)] = value;
    barrier(CLK_LOCAL_MEM_FENCE);
    float result = own[0];
    for (int i = 1; i < get_local_size(0); i++)
        result = greatest ? GREATER(result, own[i]) : result + own[i];
    return result;
}
#endif

INLINED float sum_of_lanes(floats v)
{
    lanes u;
    u.vector = v;
    float sum = 0.0f;
    UNROLLED for (int i = 0; i < VECTOR; i++)
        sum += u.element[i];
    return sum;
}

kernel void attention(global const storage *q, int q_offset, global const storage *k, int k_offset,
                      global const storage *v, int v_offset, global const storage *mask, int mask_offset,
                      global storage *y, int y_offset, int batch, int heads, int queries, int keys, int depth,
                      int values, int qs0, int qs1, int qs2, int qs3, int ks0, int ks1, int ks2, int ks3, int vs0,
                      int vs1, int vs2, int vs3, int ms0, int ms1, int ms2, int ms3, int ys0, int ys1, int ys2,
                      int ys3, int masked, int causal, float scale)
{
    const int l = min((int)get_global_id(1), queries - 1), pair = min((int)get_global_id(2), batch * heads - 1);
    const int b = pair / heads, h = pair % heads;
    q += q_offset + b * qs0 + h * qs1 + l * qs2;
    k += k_offset + b * ks0 + h * ks1;
    v += v_offset + b * vs0 + h * vs1;
    mask += mask_offset + b * ms0 + h * ms1 + l * ms2;
    y += y_offset + b * ys0 + h * ys1 + l * ys2;
    floats query[QUERY_VECTORS], sum[VALUE_VECTORS];
    UNROLLED for (int j = 0; j < QUERY_VECTORS; j++)
        query[j] = load_strided(q + j * VECTOR * qs3, qs3, DEPTH - j * VECTOR) * scale;
    UNROLLED for (int j = 0; j < VALUE_VECTORS; j++)
        sum[j] = 0.0f;
#if LANES > 1
    local float shared[MOST_ITEMS];
    const bool alone = get_local_size(0) * get_local_size(1) * get_local_size(2) > MOST_ITEMS;
    const int first = alone ? 0 : get_local_id(0), step = alone ? 1 : get_local_size(0);
#else
    const int first = 0, step = 1;
#endif
    const int end = causal ? min(keys, l + 1) : keys;
    float greatest = -INFINITY, total = 0.0f;
    for (int s = first; s < end; s += step) {
        floats products = 0.0f;
        UNROLLED for (int j = 0; j < QUERY_VECTORS; j++)
            products += query[j] * load_strided(k + s * ks2 + j * VECTOR * ks3, ks3, DEPTH - j * VECTOR);
        float score = sum_of_lanes(products);
        if (masked)
            score += LOAD(mask + s * ms3);
        if (score > greatest) {
            const float factor = exp(greatest - score);
            greatest = score;
            total *= factor;
            UNROLLED for (int j = 0; j < VALUE_VECTORS; j++)
                sum[j] *= factor;
        }
        const float weight = score == -INFINITY ? 0.0f : exp(score - greatest);
        total += weight;
        UNROLLED for (int j = 0; j < VALUE_VECTORS; j++)
            sum[j] += weight * load_strided(v + s * vs2 + j * VECTOR * vs3, vs3, VALUES - j * VECTOR);
    }
#if LANES > 1
    if (!alone) {
        const float most = join_lanes(greatest, true, shared);
        const float factor = greatest == -INFINITY ? 0.0f : exp(greatest - most);
        total = join_lanes(total * factor, false, shared);
        UNROLLED for (int j = 0; j < VALUE_VECTORS; j++) {
            lanes part;
            part.vector = sum[j] * factor;
            for (int i = 0; i < VECTOR; i++)
                part.element[i] = join_lanes(part.element[i], false, shared);
            sum[j] = part.vector;
        }
    }
#endif
    if (get_global_id(1) >= queries || get_global_id(2) >= batch * heads)
        return;
    UNROLLED for (int j = 0; j < VALUE_VECTORS; j++)
        if (j % step == first)
            store_strided(sum[j] / total, y + j * VECTOR * ys3, ys3, VALUES - j * VECTOR);
}
