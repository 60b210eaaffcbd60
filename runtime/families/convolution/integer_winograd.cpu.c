/* integer_winograd: quantized_conv2d of a 3x3 window of stride 1, whose weights are transformed, in 16 bits. A turn transforms
 * the inputs of its tiles, lets the weights of each point pass over them, and transforms the sums
 * (integer_winograd.lanes.cpu.c). */
#include <stddef.h>

#include "../../native/src/system/arithmetic.h"
#include "quantized_convolution.h"

#if defined(__SSE2__)
enum { X = RT_INTEGER_WINOGRAD_X, W = RT_INTEGER_WINOGRAD_W };

/* Sizes of Winograd's algorithm: outputs of a tile's side, its points; bytes of transformed inputs of a turn, its tiles, and
 * blocks of outputs that pass over them at once; and how many sixths of a block's products a tile's transform takes. */
enum { SIDE = RT_WINOGRAD_ALPHA - 2, POINTS = RT_WINOGRAD_ALPHA * RT_WINOGRAD_ALPHA };
enum { DOMAIN_BYTES = 768 << 10, MIN_TILES = 6, MAX_TILES = 48, PASS = 4, TRANSFORM_WORK = 3 };

/* Of a point, inputs of a tile. */
static uint64_t winograd_depth(const rt_conv_dims *d) {
    return rt_product(rt_ceil_div((uint64_t)d->in_c, RT_WINOGRAD_WIDE), RT_WINOGRAD_WIDE);
}

static uint64_t winograd_tiles(const rt_conv_dims *d) {
    uint64_t tiles = DOMAIN_BYTES / (POINTS * sizeof(int16_t)) / winograd_depth(d) / MIN_TILES * MIN_TILES;
    return tiles < MIN_TILES ? MIN_TILES : tiles < MAX_TILES ? tiles : MAX_TILES;
}

static const char *winograd_check(const rt_cpu_call *call, rt_cpu_needs *needs) {
    rt_conv_dims d = rt_blocked_conv2d_args_of(call);
    const rt_integer_winograd_args args = rt_integer_winograd_args_of(call);
    uint32_t block = call->codes.block;
    if (!rt_block_is_known(call)) return "its block is neither 8 nor 16";
    if (d.stride_h != 1 || d.stride_w != 1 || d.dil_h != 1 || d.dil_w != 1 || d.groups != 1)
        return "it has a stride, a dilation or groups";
    if (d.k_h != 3 || d.k_w != 3) return "its window is not 3x3";
    uint64_t images = (uint64_t)d.batch, depth = winograd_depth(&d);
    uint64_t x = rt_blocked_elements(images, (uint64_t)d.in_c, rt_product((uint64_t)d.in_h, (uint64_t)d.in_w), block);
    uint64_t y = rt_blocked_elements(images, (uint64_t)d.out_c, rt_product((uint64_t)d.out_h, (uint64_t)d.out_w), block);
    uint64_t channels = rt_blocked_elements(1, (uint64_t)d.out_c, 1, block);
    uint64_t inputs = rt_product(depth, sizeof(int16_t)), sums = PASS * block * sizeof(int32_t);
    needs->scratch_bytes = rt_product(POINTS * winograd_tiles(&d), rt_sum(inputs, sums));
    needs->work = rt_product(rt_product(y, depth), POINTS) / (SIDE * SIDE);
    uint64_t weights = rt_product(rt_product(channels, depth), POINTS * sizeof(int16_t));
    if (call->tensors[W].offset % sizeof(int16_t) != 0) return "the weights begin within a word";
    return rt_quantized_tensors_check(call, x, y, weights, channels, args.act_a, args.act_b);
}

/* A call with its division into turns. */
typedef struct {
    const rt_cpu_call *call;
    const rt_blocked_kernels *kernels;
    rt_workers *workers;
    rt_conv_dims d;
    int64_t block, wides, in_blocks, out_blocks, columns; /* columns: of tiles */
    rt_division turns;                                    /* of an image; its pixels are tiles */
    rt_quantized_end end;                                 /* at the tensors' begin */
} tiling;

/* What one turn computes: [point][wides][tile][WIDE] inputs, [point][block][tile][lane] sums. */
typedef struct {
    rt_turn_range range;
    int64_t tiles;
    int16_t *inputs;
    int32_t *sums;
} tiles_share;

static void tiles_transform(const tiling *all, const tiles_share *own) {
    const rt_conv_dims *d = &all->d;
    const int64_t plane = (int64_t)d->in_h * d->in_w * all->block, step = RT_WINOGRAD_WIDE * own->tiles;
    const uint8_t *x = (const uint8_t *)all->call->tensors[X].data + own->range.matrix * all->in_blocks * plane;
    rt_winograd_bytes tile = {.zero = (uint8_t)all->call->codes.zero, .height = d->in_h, .width = d->in_w};
    tile.pad_t = d->pad_t, tile.pad_l = d->pad_l;
    tile.columns = all->columns, tile.first = own->range.first_pixel, tile.end = own->range.end_pixel;
    tile.step = all->wides * step;
    tile.domain = own->inputs;
    for (int64_t wide = 0; wide < all->wides; wide++) {
        const int64_t block = wide * RT_WINOGRAD_WIDE / all->block, last = all->in_blocks - 1;
        tile.x[0] = x + block * plane;
        /* behind the last block anything, which is multiplied by zeros */
        tile.x[1] = all->block == RT_WINOGRAD_WIDE ? tile.x[0] + RT_WINOGRAD_WIDE / 2 : block < last ? tile.x[0] + plane : tile.x[0];
        all->kernels->integer_winograd_input(&tile);
        tile.domain += step;
    }
}

/* The products of all points: `blocks` output blocks from `block` on. */
static void tiles_multiply(const tiling *all, const tiles_share *own, int64_t block, int64_t blocks) {
    const int64_t depth = all->wides * RT_WINOGRAD_WIDE;
    rt_winograd_product tile = {.plane = RT_WINOGRAD_WIDE * own->tiles, .wides = (uint32_t)all->wides};
    tile.weights_stride = depth * all->block;
    tile.sums_plane = own->tiles * all->block;
    tile.blocks = (uint32_t)blocks;
    for (int64_t point = 0; point < POINTS; point++) {
        tile.weights = (const int16_t *)all->call->tensors[W].data + (point * all->out_blocks + block) * tile.weights_stride;
        for (int64_t first = 0; first < own->tiles; first += tile.pixels) {
            const int64_t left = own->tiles - first;
            tile.pixels = left < RT_BLOCKED_PIXELS ? (uint32_t)left : RT_BLOCKED_PIXELS;
            tile.inputs = own->inputs + point * depth * own->tiles + first * RT_WINOGRAD_WIDE;
            tile.sums = own->sums + point * blocks * tile.sums_plane + first * all->block;
            all->kernels->integer_winograd_product(&tile);
        }
    }
}

static void tiles_complete(const tiling *all, const tiles_share *own, int64_t block, int64_t blocks) {
    const rt_conv_dims *d = &all->d;
    rt_winograd_sums tile = {.sums = own->sums, .height = d->out_h, .width = d->out_w};
    tile.columns = all->columns, tile.first = own->range.first_pixel, tile.end_tile = own->range.end_pixel;
    tile.step = blocks * own->tiles * all->block;
    for (int64_t b = block; b < block + blocks; b++, tile.sums += own->tiles * all->block) {
        const int64_t plane = own->range.matrix * all->out_blocks + b;
        tile.end = rt_quantized_end_move(all->end, b * all->block, plane * d->out_h * d->out_w * all->block);
        all->kernels->integer_winograd_output(&tile);
    }
}

static void winograd_turn(const void *context, uint32_t turn, uint32_t worker) {
    const tiling *all = context;
    tiles_share own = {.range = rt_division_range(&all->turns, turn)};
    own.tiles = own.range.end_pixel - own.range.first_pixel;
    own.inputs = rt_workers_scratch(all->workers, worker);
    own.sums = (int32_t *)(void *)(own.inputs + POINTS * all->wides * RT_WINOGRAD_WIDE * own.tiles);
    tiles_transform(all, &own);
    for (int64_t block = own.range.first_block; block < own.range.end_block; block += PASS) {
        const int64_t left = own.range.end_block - block, blocks = left < PASS ? left : PASS;
        tiles_multiply(all, &own, block, blocks);
        tiles_complete(all, &own, block, blocks);
    }
}

static void winograd_run(const rt_cpu_call *call, rt_workers *workers) {
    const rt_integer_winograd_args args = rt_integer_winograd_args_of(call);
    tiling all = {.call = call, .workers = workers, .d = rt_blocked_conv2d_args_of(call), .block = call->codes.block};
    all.kernels = rt_blocked_kernels_of(call->tiles, call->codes.block);
    all.wides = (int64_t)winograd_depth(&all.d) / RT_WINOGRAD_WIDE;
    all.in_blocks = (int64_t)rt_ceil_div((uint64_t)all.d.in_c, (uint64_t)all.block);
    all.out_blocks = (int64_t)rt_ceil_div((uint64_t)all.d.out_c, (uint64_t)all.block);
    all.columns = (int64_t)rt_ceil_div((uint64_t)all.d.out_w, SIDE);
    all.end = rt_quantized_end_of(call, all.out_blocks * all.block, 0, args.act_a, args.act_b, args.residual_scale);
    rt_divisible work = {.matrices = (uint64_t)all.d.batch,
                         .pixels = (uint64_t)all.columns * rt_ceil_div((uint64_t)all.d.out_h, SIDE),
                         .most_pixels = winograd_tiles(&all.d),
                         .least_pixels = RT_BLOCKED_PIXELS,
                         .blocks = (uint64_t)all.out_blocks,
                         .pass = PASS,
                         .start = TRANSFORM_WORK,
                         .weight = 1};
    all.turns = rt_divide(&work, rt_workers_count(workers));
    rt_workers_run(workers, rt_division_turns(&all.turns), winograd_turn, &all);
}
#else
static const char *winograd_check(const rt_cpu_call *call, rt_cpu_needs *needs) {
    (void)call, (void)needs;
    return "only x86 has Winograd's algorithm in integers";
}

#define winograd_run NULL
#endif

const rt_cpu_operator rt_cpu_integer_winograd = {
    RT_INTEGER_WINOGRAD_ROW, .check = winograd_check, .run = winograd_run};
