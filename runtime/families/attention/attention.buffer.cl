// Scaled dot-product attention: y[b][h][l] = sum over s of p[s] * v[b][h][s], where p is the softmax over s of
// scale * (q[b][h][l] . k[b][h][s]) + mask[b][h][l][s]; masked 0: there is no mask, 2: a query of which it hides all
// keys has 0, not NaN; causal 1: only keys s <= l count. So many members of a group of heads share keys and values.
// Every loop has its stride in each tensor, in the order batch, head, place, element. DEPTH and VALUES are the elements
// of a query and of a value, as the arguments depth and values.
// The keys are passed over once: the greatest score so far divides the weights, and what was summed is scaled anew.
// LANES 1: a work item computes a query. Else the work items of a work group share its keys, and join their sums in
// local memory: ids (lane, l, b*heads + h). Any number of lanes gives the same.
// KEYS: a work item computes QUERIES queries, whose weights of KEYS keys at a time lie in private memory: ids (0,
// l / QUERIES, b*heads + h). Only where the elements of a place are neighbours.
#define MOST_ITEMS 256
#define QUERY_VECTORS ((DEPTH + VECTOR - 1) / VECTOR)
#define VALUE_VECTORS ((VALUES + VECTOR - 1) / VECTOR)

#if LANES > 1
INLINED float sum_of_items(float value, local float *shared) JOIN_LANES(float, SUM)
INLINED float greatest_of_items(float value, local float *shared) JOIN_LANES(float, GREATER)
#endif

INLINED float sum_of_lanes(floats v)
{
    lanes u;
    u.vector = v;
    UNROLLED for (int half_size = VECTOR / 2; half_size > 0; half_size /= 2)
        UNROLLED for (int i = 0; i < half_size; i++)
            u.element[i] += u.element[i + half_size];
    return u.element[0];
}

#ifdef KEYS
#define WEIGHT_VECTORS (KEYS / VECTOR)
// A register tile of scores is ROWS queries x COLUMNS keys; of few queries all, so that each key is loaded once.
#ifdef AHEAD
#define ROWS QUERIES
#else
#define ROWS (QUERIES / 2)
#endif
#define COLUMNS 4

typedef union {
    floats vector[WEIGHT_VECTORS];
    float4 four[KEYS / 4];
    float element[KEYS];
} weights;

// The sums of the lanes of four vectors: neighbours are added until each vector has one left, for all four at a time.
#define ADD_NEIGHBOURS(a, b) ((float8)(a.s02, b.s02, a.s46, b.s46) + (float8)(a.s13, b.s13, a.s57, b.s57))
INLINED float4 sums_of_four(const floats v[COLUMNS])
{
#if VECTOR == 4
    const float4 a = (float4)(v[0].s02, v[1].s02) + (float4)(v[0].s13, v[1].s13);
    const float4 b = (float4)(v[2].s02, v[3].s02) + (float4)(v[2].s13, v[3].s13);
    return (float4)(a.s02, b.s02) + (float4)(a.s13, b.s13);
#else
#if VECTOR == 16
    const float8 half_sum[COLUMNS] = {v[0].lo + v[0].hi, v[1].lo + v[1].hi, v[2].lo + v[2].hi, v[3].lo + v[3].hi};
#else
    const float8 half_sum[COLUMNS] = {v[0], v[1], v[2], v[3]};
#endif
    const float8 a = ADD_NEIGHBOURS(half_sum[0], half_sum[1]), b = ADD_NEIGHBOURS(half_sum[2], half_sum[3]);
    const float8 sums = ADD_NEIGHBOURS(a, b);
    return sums.lo + sums.hi;
#endif
}

// Vector j of a row of so many elements, zeros behind them.
INLINED floats load_part(global const storage *row, int j, const int elements)
{
    return elements % VECTOR == 0 ? LOAD_VECTOR(row + j * VECTOR) : load_some(row + j * VECTOR, elements - j * VECTOR);
}

// The scores of ROWS queries and COLUMNS keys, from `first` and `s` on; behind the last key there is the last one again.
INLINED void score_tile(weights score[QUERIES], global const storage *const q[QUERIES], global const storage *k,
                        int stride, const int first, int s, int count, float scale)
{
    floats product[ROWS][COLUMNS];
    UNROLLED for (int p = 0; p < ROWS; p++)
        UNROLLED for (int i = 0; i < COLUMNS; i++)
            product[p][i] = 0.0f;
    for (int j = 0; j < QUERY_VECTORS; j++) {
        floats query[ROWS];
        UNROLLED for (int p = 0; p < ROWS; p++)
            query[p] = load_part(q[first + p], j, DEPTH);
        UNROLLED for (int i = 0; i < COLUMNS; i++) {
            const floats key = load_part(k + min(s + i, count - 1) * stride, j, DEPTH);
            UNROLLED for (int p = 0; p < ROWS; p++)
                product[p][i] = MULTIPLY_ADD(query[p], key, product[p][i]);
        }
    }
    UNROLLED for (int p = 0; p < ROWS; p++)
        score[first + p].four[s / COLUMNS] = sums_of_four(product[p]) * scale;
}

// AHEAD: keys are asked for so many before their use, and values while their keys are scored, as few queries wait for memory.
#ifdef AHEAD
#define LINE 16
#if defined(POCL_DEVICE_ADDRESS_BITS) || defined(cl_intel_vec_len_hint)
// On a CPU, into the second cache (2): more lines can be on their way there than to the first one. PoCL's prefetch does
// nothing, and Intel's goes to the first.
#define ASK_FOR(p) __builtin_prefetch((const void *)(size_t)(p), 0, 2)
#else
#define ASK_FOR(p) prefetch(p, LINE)
#endif
INLINED void ask_for_columns(global const storage *row, int stride, const int elements)
{
    UNROLLED for (int i = 0; i < COLUMNS; i++)
        UNROLLED for (int j = 0; j < elements; j += LINE)
            ASK_FOR(row + i * stride + j);
}
#endif

// Turns so many vectors of scores of a query into weights that are to be divided by their total; returns what the sums
// so far are to be multiplied with.
INLINED float weigh(weights *score, int vectors, float *greatest, float *total)
{
    lanes most;
    most.vector = score->vector[0];
    for (int i = 1; i < vectors; i++)
        most.vector = GREATER(score->vector[i], most.vector);
    const float before = *greatest;
    UNROLLED for (int i = 0; i < VECTOR; i++)
        *greatest = GREATER(most.element[i], *greatest);
    const float base = *greatest == -INFINITY ? 0.0f : *greatest, factor = exp(before - base);
    floats sum = 0.0f;
    for (int i = 0; i < vectors; i++)
        sum += score->vector[i] = exp(score->vector[i] - base);
    *total = *total * factor + sum_of_lanes(sum);
    return factor;
}

// sum[p] = sum[p] * factor[p] + the weighted values, for `width` vectors of a value from j on.
INLINED void add_values(floats sum[QUERIES][VALUE_VECTORS], const weights weight[QUERIES], const float factor[QUERIES],
                        global const storage *v, int stride, int j, int count, const int width)
{
    floats part[QUERIES][2];
    UNROLLED for (int p = 0; p < QUERIES; p++)
        UNROLLED for (int i = 0; i < width; i++)
            part[p][i] = sum[p][j + i] * factor[p];
    for (int s = 0; s < count; s++) {
        floats value[2];
        UNROLLED for (int i = 0; i < width; i++)
            value[i] = load_part(v + s * stride, j + i, VALUES);
        UNROLLED for (int p = 0; p < QUERIES; p++)
            UNROLLED for (int i = 0; i < width; i++)
                part[p][i] = MULTIPLY_ADD((floats)(weight[p].element[s]), value[i], part[p][i]);
    }
    UNROLLED for (int p = 0; p < QUERIES; p++)
        UNROLLED for (int i = 0; i < width; i++)
            sum[p][j + i] = part[p][i];
}
#endif

kernel void attention(global const storage *q, int q_offset, global const storage *k, int k_offset,
                      global const storage *v, int v_offset, global const storage *mask, int mask_offset,
                      global storage *y, int y_offset, int batch, int heads, int queries, int keys, int depth,
                      int values, int qs0, int qs1, int qs2, int qs3, int ks0, int ks1, int ks2, int ks3, int vs0,
                      int vs1, int vs2, int vs3, int ms0, int ms1, int ms2, int ms3, int ys0, int ys1, int ys2,
                      int ys3, int masked, int causal, int members, float scale)
{
#ifdef KEYS
    const int first = get_global_id(1) * QUERIES, pair = get_global_id(2), b = pair / heads, h = pair % heads;
    if (get_global_id(0) > 0 || first >= queries || pair >= batch * heads)
        return;
    k += k_offset + b * ks0 + h / members * ks1;
    v += v_offset + b * vs0 + h / members * vs1;
    global const storage *query[QUERIES];
    floats sum[QUERIES][VALUE_VECTORS];
    float greatest[QUERIES], total[QUERIES], factor[QUERIES];
    UNROLLED for (int p = 0; p < QUERIES; p++) {
        query[p] = q + q_offset + b * qs0 + h * qs1 + min(first + p, queries - 1) * qs2;
        greatest[p] = -INFINITY;
        total[p] = 0.0f;
        for (int j = 0; j < VALUE_VECTORS; j++)
            sum[p][j] = 0.0f;
    }
    const int end = causal ? min(keys, first + QUERIES) : keys;
    for (int from = 0; from < end; from += KEYS) {
        const int count = min(KEYS, end - from), vectors = (count + VECTOR - 1) / VECTOR;
        weights weight[QUERIES];
        for (int s = 0; s < count; s += COLUMNS) {
#ifdef AHEAD
            ask_for_columns(k + (from + s + AHEAD) * ks2, ks2, DEPTH);
            ask_for_columns(v + (from + s) * vs2, vs2, VALUES);
#endif
            UNROLLED for (int p = 0; p < QUERIES; p += ROWS)
                score_tile(weight, query, k + from * ks2, ks2, p, s, count, scale);
        }
        for (int p = 0; p < QUERIES; p++) {
            const int l = min(first + p, queries - 1), seen = causal ? min(count, l + 1 - from) : count;
            global const storage *row = mask + mask_offset + b * ms0 + h * ms1 + l * ms2 + from * ms3;
            for (int s = 0; masked && s < seen; s++)
                weight[p].element[s] += LOAD(row + s * ms3);
            for (int s = max(seen, 0); s < vectors * VECTOR; s++)
                weight[p].element[s] = -INFINITY;
            factor[p] = weigh(&weight[p], vectors, &greatest[p], &total[p]);
        }
        for (int j = 0; j + 2 <= VALUE_VECTORS; j += 2)
            add_values(sum, weight, factor, v + from * vs2, vs2, j, count, 2);
        if (VALUE_VECTORS % 2)
            add_values(sum, weight, factor, v + from * vs2, vs2, VALUE_VECTORS - 1, count, 1);
    }
    y += y_offset + b * ys0 + h * ys1 + first * ys2;
    for (int p = 0; p < min(QUERIES, queries - first); p++)
        for (int j = 0; j < VALUE_VECTORS; j++)
            store_strided(masked < 2 || total[p] > 0.0f ? sum[p][j] / total[p] : 0.0f, y + p * ys2 + j * VECTOR * ys3, ys3, VALUES - j * VECTOR);
#else
    const int l = min((int)get_global_id(1), queries - 1), pair = min((int)get_global_id(2), batch * heads - 1);
    const int b = pair / heads, h = pair % heads;
    q += q_offset + b * qs0 + h * qs1 + l * qs2;
    k += k_offset + b * ks0 + h / members * ks1;
    v += v_offset + b * vs0 + h / members * vs1;
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
        const float most = greatest_of_items(greatest, shared);
        const float factor = greatest == -INFINITY ? 0.0f : exp(greatest - most);
        total = sum_of_items(total * factor, shared);
        UNROLLED for (int j = 0; j < VALUE_VECTORS; j++) {
            lanes part;
            part.vector = sum[j] * factor;
            for (int i = 0; i < VECTOR; i++)
                part.element[i] = sum_of_items(part.element[i], shared);
            sum[j] = part.vector;
        }
    }
#endif
    if (get_global_id(1) >= queries || get_global_id(2) >= batch * heads)
        return;
    UNROLLED for (int j = 0; j < VALUE_VECTORS; j++)
        if (j % step == first)
            store_strided(masked < 2 || total > 0.0f ? sum[j] / total : 0.0f, y + j * VECTOR * ys3, ys3, VALUES - j * VECTOR);
#endif
}
