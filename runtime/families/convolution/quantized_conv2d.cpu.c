/* quantized_conv2d: blocked_conv2d of eight bits. */
#include <stddef.h>
#include <string.h>
#if defined(__aarch64__)
#include <arm_neon.h>
#elif defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "../../native/src/system/arithmetic.h"
#include "quantized_convolution.h"

enum { X = RT_QUANTIZED_CONV2D_X, W = RT_QUANTIZED_CONV2D_W };

enum { WEIGHT_BYTES = 384 << 10, GROUP = 4, LEAST_TILES = 4 /* that pay for widened weights */ };

/* Products of an output whose sum fits 31 bits. */
enum { MOST_PRODUCTS = INT32_MAX / (255 * 128) };

/* A call with its division into turns. */
typedef struct {
    rt_conv_turns turns;
    const rt_quantized_kernels *kernels;
    rt_quantized_end end; /* at the tensors' begin */
    int64_t lanes;        /* output lanes of all groups */
    uint8_t zero;         /* of the input */
    uint64_t rows_bytes;  /* of a worker's scratch, before widened weights */
} division;

/* Output blocks whose weights stay in a core's second cache while all pixels of a turn pass, in whole groups. */
static uint32_t blocks_per_pass(const rt_conv_dims *d, uint32_t block, uint32_t most) {
    uint64_t blocks = WEIGHT_BYTES / ((uint64_t)d->k_h * (uint64_t)d->k_w * (uint64_t)d->in_c * block) / GROUP * GROUP;
    return blocks > most ? most : blocks < GROUP ? GROUP : (uint32_t)blocks;
}

static const char *conv_check(const rt_cpu_call *call, rt_cpu_needs *needs) {
    rt_conv_dims d = rt_blocked_conv2d_args_of(call);
    const char *problem = rt_conv_sizes_check(call, &d);
    if (problem != NULL) return problem;
    uint32_t block = call->codes.block;
    uint64_t groups = (uint64_t)d.groups, images = rt_product((uint64_t)d.batch, groups);
    uint64_t quads = rt_ceil_div((uint64_t)d.in_c, RT_QUAD), taps = rt_product((uint64_t)d.k_h, (uint64_t)d.k_w);
    uint64_t depth = rt_product(taps, quads * RT_QUAD);
    if (depth > MOST_PRODUCTS) return "too many products of an output";
    uint64_t x = rt_blocked_elements(images, (uint64_t)d.in_c, rt_product((uint64_t)d.in_h, (uint64_t)d.in_w), block);
    uint64_t y = rt_blocked_elements(images, (uint64_t)d.out_c, rt_product((uint64_t)d.out_h, (uint64_t)d.out_w), block);
    uint64_t channels = rt_blocked_elements(groups, (uint64_t)d.out_c, 1, block);
    const rt_quantized_kernels *kernels = rt_quantized_kernels_of(call->tiles, block, call->codes.bytes);
    uint64_t widened = rt_product(blocks_per_pass(&d, block, kernels->blocks) * block * sizeof(int16_t), depth);
    needs->scratch_bytes = rt_sum(rt_conv_turn_bytes(&d), kernels->widen != NULL ? widened : 0);
    needs->work = rt_product(y, depth);
    if (call->codes.first && (problem = rt_quantized_first_check(call, &d, needs)) != NULL) return problem;
    const uint64_t read = call->codes.first ? 0 : x;
    return rt_quantized_tensors_check(call, read, y, rt_product(channels, depth), channels, d.act_a, d.act_b);
}

/* The sum of 8 bytes. */
static inline int32_t eight_total(const uint8_t *x) {
#if defined(__aarch64__)
    return vaddlv_u8(vld1_u8(x));
#elif defined(__SSE2__)
    return _mm_cvtsi128_si32(_mm_sad_epu8(_mm_loadl_epi64((const __m128i *)(const void *)x), _mm_setzero_si128()));
#else
    int32_t total = 0;
    for (int i = 0; i < 8; i++) total += x[i];
    return total;
#endif
}

/* What the inputs of each pixel of a tile sum to, each less the zero point. */
static void inputs_total(const rt_quantized_tile *tile, int64_t block, int32_t zero, int32_t *totals) {
    const int64_t channels = tile->channels, whole = channels / block * block;
    for (uint32_t p = 0; p < tile->pixels; p++) {
        totals[p] = 0;
        for (uint32_t t = 0; t < tile->taps; t++) {
            const uint8_t *x = tile->rows[t * RT_BLOCKED_PIXELS + p];
            int32_t total = 0;
            if (x == tile->zeros) continue;
            for (int64_t c = 0; c < whole; c += block, x += tile->plane) {
                for (int64_t i = 0; i < block; i += 8) total += eight_total(x + i);
            }
            for (int64_t c = whole; c < channels; c++) total += x[c - whole];
            totals[p] += total - (int32_t)channels * zero;
        }
    }
}

static void conv_turn(const void *context, uint32_t turn, uint32_t worker) {
    const division *all = context;
    const rt_conv_turns *turns = &all->turns;
    rt_conv_share own = rt_conv_turn_share(turns, turn, worker);
    int64_t block = turns->block, quads = (turns->d.in_c + RT_QUAD - 1) / RT_QUAD;
    int64_t y_pixel = turns->y_pixel, blocks_of_image = turns->d.groups * turns->out_blocks;
    rt_quantized_tile tile = {.zeros = turns->input.zeros, .taps = (uint32_t)turns->taps};
    tile.y_plane = turns->y_plane;
    tile.y_pixel = y_pixel;
    tile.channels = (uint32_t)turns->d.in_c;
    tile.plane = turns->x_plane;
    tile.weights_stride = turns->taps * quads * block * RT_QUAD;
    tile.signed_bias = all->lanes;
    int32_t starts[RT_BLOCKED_PIXELS];
    if (all->end.bytes & RT_BYTES_OFFSETS) tile.starts = starts;
    int16_t *words = (int16_t *)(void *)((char *)own.rows + all->rows_bytes);
    const bool widens = all->kernels->widen != NULL && own.tiles >= LEAST_TILES;
    for (int64_t at = own.first_block; at < own.end_block; at += tile.blocks) {
        int64_t out = own.group * turns->out_blocks + at, rest = own.end_block - at;
        int64_t place = (own.image * blocks_of_image + out) * tile.y_plane + own.first_pixel * y_pixel;
        tile.blocks = rest < turns->tile_blocks ? (uint32_t)rest : turns->tile_blocks;
        tile.weights = (const int8_t *)turns->call->tensors[W].data + out * tile.weights_stride;
        if (widens) all->kernels->widen(tile.weights, tile.blocks * tile.weights_stride, words);
        tile.words = widens ? words : NULL;
        tile.end = rt_quantized_end_move(all->end, out * block, place);
        tile.rows = own.rows;
        for (int64_t i = 0; i < own.tiles; i++, tile.rows += turns->taps * RT_BLOCKED_PIXELS) {
            tile.pixels = (uint32_t)(own.width + (i < own.wider));
            if (tile.starts != NULL) inputs_total(&tile, block, all->zero, starts);
            all->kernels->product(&tile);
            tile.end = rt_quantized_end_move(tile.end, 0, tile.pixels * y_pixel);
        }
    }
}

static void conv_run(const rt_cpu_call *call, rt_workers *workers) {
    if (call->codes.first) {
        rt_quantized_first_run(call, workers);
        return;
    }
    rt_quantized_conv2d_args d = rt_quantized_conv2d_args_of(call);
    division all = {.kernels = rt_quantized_kernels_of(call->tiles, call->codes.block, call->codes.bytes)};
    uint8_t zeros[16];
    const rt_conv_input x = {call->tensors[X].data, zeros, 1, true};
    const rt_conv_dims sizes = rt_blocked_conv2d_args_of(call);
    uint32_t blocks = blocks_per_pass(&sizes, call->codes.block, all.kernels->blocks);
    all.turns = rt_conv_turns_divide(call, workers, x, all.kernels->pixels, blocks);
    all.rows_bytes = rt_conv_turn_bytes(&all.turns.d);
    all.lanes = all.turns.d.groups * all.turns.out_blocks * all.turns.block;
    const uint64_t elements = (uint64_t)(all.turns.in_blocks * all.turns.x_plane * d.groups * d.batch);
    all.end = rt_quantized_end_of(call, all.lanes, elements, d.act_a, d.act_b, d.residual_scale);
    all.zero = (uint8_t)all.end.zero;
    memset(zeros, all.zero, sizeof zeros);
    rt_workers_run(workers, rt_division_turns(&all.turns.turns), conv_turn, &all);
}

const rt_cpu_operator rt_cpu_quantized_conv2d = {RT_QUANTIZED_CONV2D_ROW, .check = conv_check, .run = conv_run};
