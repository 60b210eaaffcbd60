/* blocked_normalization: y = activation((x - mean) / sqrt(variance + epsilon) * s[c] + t[c]), mean and variance over all
 * pixels of a group of channels.
 *
 * The turns are ranges of the pixels of a plane, twice: each takes the mean and the squares around it of its own values,
 * lane by lane; these are joined by groups; then each is normalised. Joined are means, not sums of squares, which would
 * cancel (Chan, Golub, LeVeque: Updating Formulae and a Pairwise Algorithm for Computing Sample Variances, 1979).
 */
#include <math.h>
#include <stddef.h>

#include "../../native/src/system/arithmetic.h"
#include "../../native/src/cpu/cpu_blocked.h"

enum {
    X = RT_BLOCKED_NORMALIZATION_X,
    S = RT_BLOCKED_NORMALIZATION_S,
    T = RT_BLOCKED_NORMALIZATION_T,
    Y = RT_BLOCKED_NORMALIZATION_Y
};
enum { RANGE = 512, MOST_LANES = 16 }; /* pixels that the first cache holds from the first look to the second */
typedef rt_blocked_normalization_args dims;

/* Of some values: how many, their mean, and the sum of squares around it. A value. */
typedef struct {
    double count, mean, squares;
} moments;

/* A lane's moments of a range; or what its channel is normalised with. */
typedef struct {
    float mean[MOST_LANES], squares[MOST_LANES];
} range_moments;
typedef struct {
    float mean[MOST_LANES], factor[MOST_LANES], shift[MOST_LANES];
} plane_factors;

/* What all turns share; both arrays lie in the first worker's memory. */
typedef struct {
    const rt_cpu_call *call;
    const rt_blocked_kernels *kernels;
    dims d;
    int64_t lanes, blocks, ranges;
    range_moments *found;   /* [plane][range] */
    plane_factors *factors; /* [plane] */
} job;

static uint64_t planes_of(const rt_cpu_call *call, const dims *d) {
    return rt_product((uint64_t)d->batch, rt_ceil_div((uint64_t)d->channels, call->codes.block));
}

static const char *normalization_check(const rt_cpu_call *call, rt_cpu_needs *needs) {
    dims d = rt_blocked_normalization_args_of(call);
    if (!rt_block_is_known(call)) return "its block is neither 8 nor 16";
    if (d.groups < 1 || d.channels % d.groups != 0) return "its channels make no groups";
    uint64_t channels = (uint64_t)d.channels, pixels = (uint64_t)d.pixels;
    uint64_t elements = rt_blocked_elements((uint64_t)d.batch, channels, pixels, call->codes.block);
    if (elements > INT32_MAX) return "too many elements";
    if (!rt_flat_fits(&call->tensors[X], elements)) return "the input exceeds its pool";
    if (!rt_flat_fits(&call->tensors[S], channels)) return "the scale exceeds its pool";
    if (!rt_flat_fits(&call->tensors[T], channels)) return "the shift exceeds its pool";
    if (!rt_flat_fits(&call->tensors[Y], elements)) return "the output exceeds its pool";
    uint64_t of_a_plane = rt_ceil_div(pixels, RANGE) * sizeof(range_moments) + sizeof(plane_factors);
    needs->scratch_bytes = rt_product(planes_of(call, &d), of_a_plane);
    needs->work = rt_product(elements, 2);
    return NULL;
}

/* The pixels of a turn, from `*first` element of the tensor on. */
static uint64_t turn_pixels(const job *all, uint32_t turn, int64_t *first) {
    int64_t pixel = turn % all->ranges * RANGE, rest = all->d.pixels - pixel;
    *first = (turn / all->ranges * all->d.pixels + pixel) * all->lanes;
    return (uint64_t)(rest < RANGE ? rest : RANGE);
}

static void moments_turn(const void *context, uint32_t turn, uint32_t worker) {
    const job *all = context;
    int64_t first;
    uint64_t pixels = turn_pixels(all, turn, &first);
    const float *x = rt_floats(&all->call->tensors[X]) + first;
    range_moments *found = &all->found[turn];
    (void)worker;
    all->kernels->sum(x, pixels, found->mean);
    for (int64_t i = 0; i < all->lanes; i++) found->mean[i] /= (float)pixels;
    all->kernels->squares(x, pixels, found->mean, found->squares);
}

static void moments_join(moments *all, moments other) {
    double count = all->count + other.count, apart = other.mean - all->mean;
    all->squares += other.squares + apart * apart * all->count * other.count / count;
    all->mean += apart * other.count / count;
    all->count = count;
}

/* The moments of a group of an image's channels, from `first` on. */
static moments group_moments(const job *all, int64_t image, int64_t first, int64_t channels) {
    moments total = {0};
    for (int64_t c = first; c < first + channels; c++) {
        const range_moments *found = all->found + (image * all->blocks + c / all->lanes) * all->ranges;
        int64_t lane = c % all->lanes, rest = all->d.pixels;
        for (; rest > 0; rest -= RANGE, found++) {
            moments one = {(double)(rest < RANGE ? rest : RANGE), found->mean[lane], found->squares[lane]};
            moments_join(&total, one);
        }
    }
    return total;
}

/* What each channel is normalised with; lanes behind the last one become zeros. */
static void factors_compute(const job *all) {
    const dims *d = &all->d;
    const float *s = rt_floats(&all->call->tensors[S]), *t = rt_floats(&all->call->tensors[T]);
    int64_t channels = d->channels / d->groups;
    for (int64_t i = 0; i < (int64_t)d->batch * all->blocks; i++) all->factors[i] = (plane_factors){0};
    for (int64_t group = 0; group < (int64_t)d->batch * d->groups; group++) {
        int64_t image = group / d->groups, first = group % d->groups * channels;
        moments found = group_moments(all, image, first, channels);
        double factor = 1.0 / sqrt(found.squares / found.count + (double)d->epsilon);
        for (int64_t c = first; c < first + channels; c++) {
            plane_factors *own = &all->factors[image * all->blocks + c / all->lanes];
            own->mean[c % all->lanes] = (float)found.mean;
            own->factor[c % all->lanes] = (float)(factor * (double)s[c]);
            own->shift[c % all->lanes] = t[c];
        }
    }
}

static void normalize_turn(const void *context, uint32_t turn, uint32_t worker) {
    const job *all = context;
    const rt_cpu_call *call = all->call;
    const plane_factors *own = &all->factors[turn / all->ranges];
    int64_t first;
    uint64_t pixels = turn_pixels(all, turn, &first);
    uint32_t activation = call->codes.activation;
    float *y = rt_floats(&call->tensors[Y]) + first;
    bool clamps = activation == RT_UNARY_CLAMP;
    rt_blocked_affine affine = {.x = rt_floats(&call->tensors[X]) + first,
                                .mean = own->mean,
                                .factor = own->factor,
                                .shift = own->shift,
                                .low = clamps ? all->d.act_a : -INFINITY,
                                .high = clamps ? all->d.act_b : INFINITY,
                                .pixels = pixels,
                                .y = y};
    (void)worker;
    all->kernels->affine(&affine);
    if (!clamps) call->tiles->apply(activation, all->d.act_a, all->d.act_b, y, pixels * (uint64_t)all->lanes);
}

static void normalization_run(const rt_cpu_call *call, rt_workers *workers) {
    job all = {.call = call, .d = rt_blocked_normalization_args_of(call), .lanes = call->codes.block};
    uint64_t planes = planes_of(call, &all.d);
    all.kernels = rt_blocked_kernels_of(call->tiles, call->codes.block);
    all.blocks = (int64_t)rt_ceil_div((uint64_t)all.d.channels, (uint64_t)all.lanes);
    all.ranges = (int64_t)rt_ceil_div((uint64_t)all.d.pixels, RANGE);
    uint32_t turns = (uint32_t)(planes * (uint64_t)all.ranges);
    all.found = rt_workers_scratch(workers, 0);
    all.factors = (plane_factors *)(void *)(all.found + turns);
    rt_workers_run(workers, turns, moments_turn, &all);
    factors_compute(&all);
    rt_workers_run(workers, turns, normalize_turn, &all);
}

const rt_cpu_operator rt_cpu_blocked_normalization = {RT_BLOCKED_NORMALIZATION_ROW, .check = normalization_check,
                                                      .run = normalization_run};
