/* A turn is a range of pixels, a range of blocks of channels, and a group. It collects the row pointers of its pixels
 * once, then lets every block of weights pass over all its tiles, so that inputs stay in the cache and weights are read
 * once a turn. */
#include "cpu_product.h"

#include <stddef.h>
#include <string.h>

#include "../system/arithmetic.h"
#include "cpu_division.h"

/* Inputs of the tiles of one turn should stay in a core's cache while the weights pass by. */
enum { INPUT_BYTES = 256 << 10, MIN_TILES = 2, MAX_TILES = 18 };

/* Rows go on to normalizations and attention, which are divided by rows: so these are shared only where they are few. */
enum { ROW_WEIGHT = 8 };

/* From so many pixels on, narrow weights become floats before they are multiplied: more than a tile has, but where fewer bits
 * are read. */
enum { DIRECT_PIXELS = 7, DIRECT_PIXELS_OF_4 = 5 };

/* A job with its division into turns: ranges of pixels x ranges of blocks x groups. */
typedef struct {
    const rt_product_job *job;
    rt_workers *workers;
    rt_division turns;
} division;

/* What one turn computes. */
typedef struct {
    uint64_t group, first_pixel, tiles, first_block, end_block;
    uint64_t width, wider; /* pixels of a tile; how many of the first tiles have one more */
    const float **rows;
    float *completed; /* the last block of weights that are not packed, or the floats of narrow ones */
} share;

/* Tiles whose inputs fill the cache, within bounds. */
static uint64_t most_tiles(uint64_t taps, uint64_t depth) {
    uint64_t tile_bytes = rt_product(rt_product(taps, depth), RT_TILE_PIXELS * sizeof(float));
    uint64_t tiles = INPUT_BYTES / tile_bytes;
    return tiles < MIN_TILES ? MIN_TILES : tiles > MAX_TILES ? MAX_TILES : tiles;
}

/* Bytes of a turn's row pointers, rounded up so that what follows them is aligned. */
static uint64_t rows_bytes(uint64_t taps, uint64_t depth) {
    uint64_t pointers = rt_product(taps, most_tiles(taps, depth) * RT_TILE_PIXELS);
    return rt_product(rt_ceil_div(pointers, RT_CPU_BLOCK), RT_CPU_BLOCK * sizeof(float *));
}

rt_epilogue rt_product_epilogue(const rt_cpu_call *call, float a, float b, const float *bias,
                                const rt_cpu_tensor *residual, const rt_cpu_tensor *y) {
    bool has_residual = residual != NULL && call->codes.residual;
    return (rt_epilogue){.bias = bias,
                         .residual = has_residual ? rt_floats(residual) : NULL,
                         .residual_stride = has_residual ? residual->stride : 0,
                         .multiplies = call->codes.residual == RT_RESIDUAL_MULTIPLY,
                         .y = rt_floats(y),
                         .y_stride = y->stride,
                         .activation = call->codes.activation,
                         .a = a,
                         .b = b};
}

void rt_product_pack(rt_product_job *job, const rt_cpu_call *call) {
    const rt_cpu_tensor *weights = &call->tensors[RT_CPU_WEIGHTS];
    uint64_t columns = job->taps * job->depth;
    job->weights_stride = RT_CPU_BLOCK;
    job->block_stride = (int64_t)(columns * RT_CPU_BLOCK);
    job->packed = true;
    if (!call->codes.weight_bits) {
        job->weights = rt_floats(weights);
        return;
    }
    job->narrow = (rt_narrow_weights){.data = weights->data,
                                         .columns = columns,
                                         .group = call->codes.weight_group ? call->codes.weight_group : columns,
                                         .scales = rt_weight_scales(&call->codes, columns),
                                         .block_bytes = rt_weight_block_bytes(&call->codes, columns),
                                         .bits = call->codes.weight_bits};
    job->block_stride = (int64_t)job->narrow.block_bytes;
    if (call->codes.half_sums && call->codes.weight_bits == RT_HALF_BITS)
        job->half = rt_half_kernels_of(call->tiles, RT_CPU_BLOCK);
}

bool rt_product_is_countable(uint64_t groups, uint64_t pixels, uint64_t channels, uint64_t taps) {
    uint64_t turns = rt_product(rt_product(groups, pixels), rt_ceil_div(channels, RT_CPU_BLOCK));
    return turns <= UINT32_MAX && taps <= UINT32_MAX;
}

uint64_t rt_product_scratch_bytes(const rt_cpu_call *packed, uint64_t taps, uint64_t depth) {
    uint64_t block = RT_CPU_BLOCK * sizeof(float);
    uint64_t floats = rt_product(rt_product(taps, depth), RT_TILE_BLOCKS * block);
    uint64_t completed = packed == NULL ? rt_product(depth, block) : packed->codes.weight_bits ? floats : 0;
    return rt_sum(rows_bytes(taps, depth), completed);
}

static division divide(const rt_product_job *job, rt_workers *workers) {
    rt_divisible work = {.matrices = job->groups,
                         .pixels = job->pixels,
                         .most_pixels = most_tiles(job->taps, job->depth) * job->tiles->pixels,
                         .least_pixels = job->tiles->pixels,
                         .blocks = rt_ceil_div(job->channels, RT_CPU_BLOCK),
                         .pass = job->tiles->blocks,
                         .weight = ROW_WEIGHT};
    return (division){job, workers, rt_divide(&work, rt_workers_count(workers))};
}

static uint64_t smaller(uint64_t a, uint64_t b) { return a < b ? a : b; }

static share turn_share(const division *all, uint32_t turn, uint32_t worker) {
    const rt_product_job *job = all->job;
    rt_turn_range range = rt_division_range(&all->turns, turn);
    share own = {.group = (uint64_t)range.matrix,
                 .first_pixel = (uint64_t)range.first_pixel,
                 .first_block = (uint64_t)range.first_block,
                 .end_block = (uint64_t)range.end_block};
    uint64_t pixels = (uint64_t)(range.end_pixel - range.first_pixel);
    own.tiles = rt_ceil_div(pixels, job->tiles->pixels);
    own.width = pixels / own.tiles;
    own.wider = pixels % own.tiles;
    uint8_t *scratch = rt_workers_scratch(all->workers, worker);
    own.rows = (const float **)(void *)scratch;
    own.completed = (float *)(void *)(scratch + rows_bytes(job->taps, job->depth));
    return own;
}

/* A tile's pixels, and where its row pointers lie. */
static void tile_place(const division *all, const share *own, uint64_t index, rt_tile *tile) {
    tile->first_pixel = own->first_pixel + index * own->width + smaller(index, own->wider);
    tile->pixels = (uint32_t)(own->width + (index < own->wider));
    tile->rows = own->rows + index * all->job->taps * RT_TILE_PIXELS;
}

/* The row pointers of all tiles of a share. */
static void share_rows_fill(const division *all, const share *own) {
    rt_window window = all->job->window;
    rt_tile tile;
    window.x += (int64_t)own->group * all->job->group_inputs;
    for (uint64_t i = 0; i < own->tiles; i++) {
        tile_place(all, own, i, &tile);
        rt_rows_fill(&window, tile.first_pixel, tile.pixels, RT_TILE_PIXELS, (const float **)tile.rows);
    }
}

/* The job's epilogue, moved to the share's group. */
static rt_epilogue share_epilogue(const rt_product_job *job, const share *own) {
    rt_epilogue epilogue = job->epilogue;
    int64_t offset = (int64_t)own->group * job->group_outputs;
    epilogue.y += offset;
    if (epilogue.residual != NULL) epilogue.residual += offset;
    if (epilogue.bias != NULL) epilogue.bias += offset;
    return epilogue;
}

/* Copies a block of weights that is incomplete, or whose channels are no neighbours; zeros take the place of what is
 * not there. */
static void block_complete(const rt_product_job *job, const float *weights, uint64_t count, float *target) {
    for (uint64_t c = 0; c < job->depth; c++, target += RT_CPU_BLOCK, weights += job->weights_stride) {
        memset(target, 0, RT_CPU_BLOCK * sizeof *target);
        for (uint64_t i = 0; i < count; i++) target[i] = weights[(int64_t)i * job->column_stride];
    }
}

/* The narrow weights of the group from a block on. */
static rt_narrow_weights narrow_block(const rt_product_job *job, const share *own, uint64_t block) {
    rt_narrow_weights weights = job->narrow;
    weights.data += (int64_t)own->group * job->group_weights + (int64_t)block * job->block_stride;
    return weights;
}

/* Makes floats of the narrow weights of a tile. */
static void narrow_complete(const rt_product_job *job, const share *own, uint64_t block, rt_tile *tile) {
    tile->weights = own->completed;
    tile->block_stride = (int64_t)(job->narrow.columns * RT_CPU_BLOCK);
    for (uint32_t i = 0; i < tile->blocks; i++) {
        rt_narrow_weights weights = narrow_block(job, own, block + i);
        job->tiles->narrow_to_floats(&weights, own->completed + i * tile->block_stride);
    }
}

/* Whether a job's narrow weights are read as they are: the floats that they become are shared by a tile then, else by
 * all pixels of a turn, which pays for fewer of them where there are few bits to take apart. */
static bool is_direct(const rt_product_job *job) {
    uint64_t most = job->narrow.bits == 4 ? DIRECT_PIXELS_OF_4 : DIRECT_PIXELS;
    return job->weights == NULL && (job->half != NULL || job->pixels < most);
}

/* A tile of narrow weights that are read as they are. */
static void direct_product(const rt_product_job *job, const rt_tile *tile, const rt_narrow_weights *weights) {
    float sums[RT_TILE_PIXELS * RT_CPU_BLOCK];
    if (job->half == NULL || tile->pixels < RT_HALF_PIXELS) {
        job->tiles->narrow_product(tile, weights);
        return;
    }
    job->half->rows(tile, (const uint16_t *)(const void *)weights->data, sums);
    job->tiles->complete(tile, sums);
}

/* The tile at a block, for any pixels: several blocks where all are there, one after the other. */
static rt_tile block_tile(const division *all, const share *own, uint64_t block) {
    const rt_product_job *job = all->job;
    uint64_t channel = block * RT_CPU_BLOCK;
    uint64_t rest = job->channels - channel;
    bool in_rows = job->packed || job->column_stride == 1;
    uint64_t there = job->packed ? own->end_block - block : smaller(own->end_block - block, rest / RT_CPU_BLOCK);
    rt_tile tile = {.taps = (uint32_t)job->taps, .depth = (uint32_t)job->depth, .first_channel = channel};
    tile.blocks = in_rows && there > 0 && !is_direct(job) ? rt_tile_blocks(job->tiles, there) : 1;
    tile.channels = smaller(rest, (uint64_t)tile.blocks * RT_CPU_BLOCK);
    tile.weights_stride = job->weights_stride;
    if (job->weights == NULL) {
        if (!is_direct(job)) narrow_complete(job, own, block, &tile);
        return tile;
    }
    tile.weights = job->weights + (int64_t)own->group * job->group_weights + (int64_t)block * job->block_stride;
    tile.block_stride = job->block_stride;
    if (!in_rows || (!job->packed && rest < RT_CPU_BLOCK)) {
        block_complete(job, tile.weights, smaller(rest, RT_CPU_BLOCK), own->completed);
        tile.weights = own->completed;
        tile.weights_stride = RT_CPU_BLOCK;
    }
    return tile;
}

/* Every block of the share over all its tiles. */
static void turn_run(const void *context, uint32_t turn, uint32_t worker) {
    const division *all = context;
    const rt_product_job *job = all->job;
    share own = turn_share(all, turn, worker);
    rt_epilogue epilogue = share_epilogue(job, &own);
    share_rows_fill(all, &own);
    for (uint64_t block = own.first_block; block < own.end_block;) {
        rt_tile tile = block_tile(all, &own, block);
        rt_narrow_weights narrow = narrow_block(job, &own, block);
        tile.epilogue = &epilogue;
        for (uint64_t i = 0; i < own.tiles; i++) {
            tile_place(all, &own, i, &tile);
            is_direct(job) ? direct_product(job, &tile, &narrow) : job->tiles->product(&tile);
        }
        block += tile.blocks;
    }
}

void rt_product_run(const rt_product_job *job, rt_workers *workers) {
    division all = divide(job, workers);
    rt_workers_run(workers, rt_division_turns(&all.turns), turn_run, &all);
}
