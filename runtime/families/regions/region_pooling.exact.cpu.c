/* region_pooling: the part of an image within each region, in a grid of bins.
 *
 * By function (RT_REGION_FUNCTION_...), with `samples` of a bin along each axis (0: one a pixel, as many as a region
 * needs). The last four loops are regions, channels, rows of bins, and bins of a row; along them the image has strides of
 * its own, so that each bin may have its own channels. `scale`: pixels of the image for one of the regions' coordinates;
 * `shift` is taken off these then; `smallest`: the least size of a region. Tensors x, regions (x low, y low, x high,
 * y high), where (the image of each region), y. A region with
 * a coordinate that is no number, or beyond FARTHEST, is empty; one of an image that there is not sets the call's fault.
 */
#include <math.h>
#include <stddef.h>

#include "../../native/src/system/arithmetic.h"
#include "../../native/src/cpu/cpu_strided.h"

enum { BINS = RT_LOOPS - 2, MANY_SAMPLES = 64 };
enum {
    X = RT_REGION_POOLING_X,
    REGIONS = RT_REGION_POOLING_REGIONS,
    IMAGES = RT_REGION_POOLING_WHERE,
    Y = RT_REGION_POOLING_Y
};
#define FARTHEST 1e9
#define MAX_NUMBER 1e6f

/* The bin along one axis of the image: pixels `first` to `last` - 1, or so many samples from `start` on. */
typedef struct {
    int64_t first, last, size, step;
    double start, distance, samples;
} span;

/* The two pixels that a sample lies between, and their weights. */
typedef struct {
    int64_t at[2];
    double weight[2];
} tap;

typedef rt_region_pooling_args pooling;

static bool is_sampled(const pooling *args) { return args->function >= RT_REGION_FUNCTION_MAX_SAMPLES; }

static bool is_greatest(const pooling *args) {
    return args->function == RT_REGION_FUNCTION_MAX_PIXELS || args->function == RT_REGION_FUNCTION_MAX_SAMPLES;
}

static const char *pooling_check(const rt_cpu_call *call, rt_cpu_needs *needs) {
    const pooling args = rt_region_pooling_args_of(call);
    const int32_t corners = 4, one = 1, pixels_of[] = {args.images, args.rows, args.columns};
    const int32_t steps[] = {args.image_stride, args.row_stride, args.column_stride};
    const float numbers[] = {args.scale, args.shift, args.smallest};
    for (int i = 0; i < 3; i++) {
        if (!(fabsf(numbers[i]) <= MAX_NUMBER)) return "its scale, shift or least size is out of range";
    }
    for (uint32_t i = 0; i <= Y; i++) {
        const char *problem = rt_strided_check(call, i, RT_LOOPS);
        if (problem != NULL) return problem;
        if (rt_element_is_real(rt_strided_type(call, i)) == (i == IMAGES)) return "a tensor is of the wrong kind";
    }
    uint64_t pixels = rt_product3(1, args.rows, args.columns), least = (uint64_t)(args.samples * args.samples);
    needs->work = rt_product(rt_strided_turns(rt_strided_extents(call), 0, RT_LOOPS), rt_sum(pixels, least));
    needs->work = rt_product(needs->work, 4);
    const char *problem = rt_strided_check_more(call, REGIONS, &corners, &one, 1);
    return problem ? problem : rt_strided_check_more(call, X, pixels_of, steps, 3);
}

/* A whole number within the pixels of an axis. */
static int64_t pixel_of(double place, int64_t size) {
    return place > 0 ? (place < (double)size ? (int64_t)place : size) : 0;
}

/* A region's low or high (`beyond` 1) coordinate in pixels. */
static double edge_of(const pooling *args, double coordinate, int beyond) {
    double scale = (double)args->scale;
    if (args->function == RT_REGION_FUNCTION_MAX_PIXELS) return round(coordinate * scale) + beyond;
    if (args->function == RT_REGION_FUNCTION_MEAN_PIXELS) return (round(coordinate) + beyond) * scale;
    return coordinate * scale - (double)args->shift;
}

/* The bin number `bin` of a region along an axis: 0 columns, 1 rows. */
static span span_of(const pooling *args, const double *region, int axis, int64_t bin, int64_t bins) {
    span s = axis == 0 ? (span){.size = args->columns, .step = args->column_stride}
                       : (span){.size = args->rows, .step = args->row_stride};
    double start = edge_of(args, region[axis], 0), end = edge_of(args, region[axis + 2], 1);
    double extent = fmax(end - start, (double)args->smallest) / (double)bins;
    double whole = args->function == RT_REGION_FUNCTION_MAX_PIXELS ? start : 0, rest = start - whole;
    s.start = start + (double)bin * extent;
    s.first = pixel_of(whole + floor(rest + (double)bin * extent), s.size);
    s.last = pixel_of(whole + ceil(rest + (double)(bin + 1) * extent), s.size);
    s.samples = args->samples > 0 ? (double)args->samples : fmax(ceil(extent), 0);
    s.distance = s.samples > 0 ? extent / s.samples : 0;
    return s;
}

static double pixel_load(const rt_strided *x, int64_t at) {
    if (x->type == RT_ELEMENT_TYPE_F32) return (double)((const float *)x->base)[at];
    double value;
    rt_strided_reals(x, at, 1, 1, &value);
    return value;
}

/* The mean or the greatest of the pixels; 0 of none. */
static double pixels_join(const rt_strided *x, int64_t at, const span *rows, const span *columns, bool greatest) {
    double joined = greatest ? -INFINITY : 0;
    if (rows->last <= rows->first || columns->last <= columns->first) return 0;
    for (int64_t i = rows->first; i < rows->last; i++) {
        for (int64_t j = columns->first; j < columns->last; j++) {
            double value = pixel_load(x, at + i * rows->step + j * columns->step);
            joined = !greatest ? joined + value : joined > value || joined != joined ? joined : value;
        }
    }
    return greatest ? joined : joined / (double)((rows->last - rows->first) * (columns->last - columns->first));
}

/* Of the samples, those that may lie within a pixel of the image; no more than a few for each of its pixels. */
static void samples_find(const span *s, double *first, double *last) {
    *first = 0, *last = s->samples;
    if (s->distance > 0) {
        *first = fmax(0, floor((-1 - s->start) / s->distance - 1));
        *last = fmin(s->samples, ceil(((double)s->size - s->start) / s->distance + 1));
    } else if (s->samples > MANY_SAMPLES) {
        *last = MANY_SAMPLES;
    }
}

/* Where the sample lies; false where that is beyond a pixel of the image. */
static bool tap_find(const span *s, double number, tap *t) {
    double place = s->start + (number + 0.5) * s->distance, last = (double)(s->size - 1);
    if (!(place >= -1 && place <= (double)s->size)) return false;
    place = place < 0 ? 0 : place > last ? last : place;
    t->at[0] = (int64_t)place;
    t->at[1] = t->at[0] < s->size - 1 ? t->at[0] + 1 : t->at[0];
    t->weight[1] = place - (double)t->at[0];
    t->weight[0] = 1 - t->weight[1];
    return true;
}

/* Joins one sample: the sum of its weighted pixels, or the greatest of them as ONNX defines it. */
static double sample_join(const rt_strided *x, int64_t at, const span *rows, const span *columns, const tap *row,
                          const tap *column, double joined, bool greatest) {
    for (int i = 0; i < 4; i++) {
        double value = pixel_load(x, at + row->at[i / 2] * rows->step + column->at[i % 2] * columns->step);
        value *= row->weight[i / 2] * column->weight[i % 2];
        joined = !greatest ? joined + value : joined > value || joined != joined ? joined : value;
    }
    return joined;
}

/* The mean or the greatest of the samples; one beyond the image counts as 0. */
static double samples_join(const rt_strided *x, int64_t at, const span *rows, const span *columns, bool greatest) {
    double first[2], last[2], joined = greatest ? -INFINITY : 0, inside = 0, count = rows->samples * columns->samples;
    tap row, column;
    samples_find(rows, &first[0], &last[0]);
    samples_find(columns, &first[1], &last[1]);
    for (double i = first[0]; i < last[0]; i++) {
        if (!tap_find(rows, i, &row)) continue;
        for (double j = first[1]; j < last[1]; j++) {
            if (!tap_find(columns, j, &column)) continue;
            joined = sample_join(x, at, rows, columns, &row, &column, joined, greatest);
            inside++;
        }
    }
    if (!greatest) return joined / fmax(count, 1);
    return inside < count || inside == 0 ? fmax(joined, 0) : joined;
}

static bool is_usable(const double *region, double scale) {
    for (int i = 0; i < 4; i++) {
        if (!(fabs(region[i]) <= FARTHEST && fabs(region[i] * scale) <= FARTHEST)) return false;
    }
    return true;
}

static void pooling_row(const rt_cpu_call *call, const int64_t *index, int64_t start, int64_t count, uint32_t worker) {
    const int32_t *extents = rt_strided_extents(call);
    rt_strided x = rt_strided_tensor(call, X), regions = rt_strided_tensor(call, REGIONS),
               images = rt_strided_tensor(call, IMAGES), y = rt_strided_tensor(call, Y);
    const pooling args = rt_region_pooling_args_of(call);
    int64_t image, at[RT_LOOPS];
    double region[4];
    for (uint32_t i = 0; i < RT_LOOPS; i++) at[i] = index[i];
    (void)worker;
    rt_strided_wholes(&images, rt_strided_at(&images, index, RT_LOOPS), 1, 1, &image);
    rt_strided_reals(&regions, rt_strided_at(&regions, index, RT_LOOPS), 1, 4, region);
    if (image < 0 || image >= args.images) {
        *call->fault = "a region is of an image that there is not";
        return;
    }
    bool usable = is_usable(region, (double)args.scale);
    span rows = usable ? span_of(&args, region, 1, at[BINS], extents[BINS]) : (span){0};
    for (at[BINS + 1] = start; at[BINS + 1] < start + count; at[BINS + 1]++) {
        double value = 0;
        if (usable) {
            span columns = span_of(&args, region, 0, at[BINS + 1], extents[BINS + 1]);
            int64_t from = rt_strided_at(&x, at, RT_LOOPS) + image * args.image_stride;
            value = is_sampled(&args) ? samples_join(&x, from, &rows, &columns, is_greatest(&args))
                                     : pixels_join(&x, from, &rows, &columns, is_greatest(&args));
        }
        rt_strided_put_reals(&y, rt_strided_at(&y, at, RT_LOOPS), 1, 1, &value);
    }
}

static void pooling_run(const rt_cpu_call *call, rt_workers *workers) {
    rt_strided_run(call, workers, RT_LOOPS, RT_PIECE, pooling_row);
}

const rt_cpu_operator rt_cpu_region_pooling = {RT_REGION_POOLING_ROW, .check = pooling_check, .run = pooling_run};
