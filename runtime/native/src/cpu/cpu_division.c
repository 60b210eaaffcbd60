/* Divides by pixels into as few turns as the cache allows, or as few more as give each worker as many; then by blocks,
 * so that there are two or three turns for each worker and one that is slowed down holds up little. Of these divisions
 * it takes the one whose largest share is least.
 *
 * Workers share what is less, weights or inputs, and have a part of the other each. Where that is the same part of the
 * pixels in layer after layer, what one writes stays in its core's caches: cores of a virtual machine may be far apart.
 */
#include "cpu_division.h"

#include "../system/arithmetic.h"

enum { LEAST_TURNS_PER_WORKER = 2, TURNS_PER_WORKER = 3 };

/* Of a block, in those that a turn's start is counted in. */
enum { BLOCK_WORK = 6 };

/* Of a block, as a rule; and the part of the pixels by which shares of them may differ. */
enum { CHANNELS = 16, UNEVEN = 32 };

static uint64_t smaller(uint64_t a, uint64_t b) { return a < b ? a : b; }

/* Work on one pixel. A pass of a single block loads seven registers for six products, where larger ones wait for products
 * alone; passes are as large, or larger by one. */
static uint64_t pixel_work(const rt_divisible *work, uint64_t blocks) {
    uint64_t twice = 2 * rt_ceil_div(blocks, work->pass);
    uint64_t singles = work->pass > 1 && twice > blocks ? twice - blocks : 0;
    return work->start + BLOCK_WORK * blocks + singles;
}

/* Whether workers share the weights. */
static bool shares_weights(const rt_divisible *work) { return work->weight * work->pixels > CHANNELS * work->blocks; }

/* Whether each worker gets as many ranges of pixels, with all blocks of theirs: also where ranges of blocks differ. */
static bool is_by_pixels(const rt_divisible *work, uint64_t pixel_turns, uint64_t block_turns, uint64_t workers) {
    bool wanted = shares_weights(work) || work->blocks % block_turns != 0;
    return wanted && work->matrices * pixel_turns % workers == 0;
}

/* The work of the worker with the most, where all ranges are as large as the largest. */
static uint64_t largest_share(const rt_division *all, uint64_t workers) {
    const rt_divisible *work = &all->work;
    uint64_t ranges = work->matrices * all->pixel_turns, pixels = rt_ceil_div(work->pixels, all->pixel_turns);
    uint64_t blocks = work->blocks / all->block_turns, wider = work->blocks % all->block_turns;
    if (!all->by_pixels) {
        uint64_t turns = rt_ceil_div(ranges * all->block_turns, workers);
        return turns * pixels * pixel_work(work, blocks + (wider > 0));
    }
    uint64_t of_pixel = wider * pixel_work(work, blocks + 1) + (all->block_turns - wider) * pixel_work(work, blocks);
    return ranges / workers * pixels * of_pixel;
}

static rt_division better(rt_division a, rt_division b, uint64_t workers) {
    return largest_share(&b, workers) < largest_share(&a, workers) ? b : a;
}

/* The best division by blocks of so many ranges of pixels. */
static rt_division blocks_divide(const rt_divisible *work, uint64_t pixel_turns, uint64_t workers) {
    uint64_t ranges = work->matrices * pixel_turns;
    uint64_t first = smaller(rt_ceil_div(LEAST_TURNS_PER_WORKER * workers, ranges), work->blocks);
    uint64_t last = smaller(rt_ceil_div(TURNS_PER_WORKER * workers, ranges) + workers - 1, work->blocks);
    rt_division best = {*work, pixel_turns, first, is_by_pixels(work, pixel_turns, first, workers)};
    for (uint64_t turns = first + 1; turns <= last; turns++) {
        rt_division next = {*work, pixel_turns, turns, is_by_pixels(work, pixel_turns, turns, workers)};
        best = better(best, next, workers);
    }
    return best;
}

rt_division rt_divide(const rt_divisible *work, uint64_t workers) {
    uint64_t least = rt_ceil_div(work->pixels, work->most_pixels), most = rt_ceil_div(work->pixels, work->least_pixels);
    if (workers <= 1) return (rt_division){*work, least, 1, false};
    rt_division few = blocks_divide(work, least, workers);
    uint64_t even = smaller(rt_ceil_div(least, workers) * workers, most);
    if (even <= least) return few;
    rt_division more = blocks_divide(work, even, workers);
    uint64_t excess = rt_ceil_div(work->pixels, even) * even - work->pixels;
    bool parts = work->matrices % workers != 0 && even % workers == 0 && UNEVEN * excess <= work->pixels;
    return parts && shares_weights(work) ? more : better(few, more, workers);
}

uint32_t rt_division_turns(const rt_division *all) {
    return (uint32_t)(all->work.matrices * all->pixel_turns * all->block_turns);
}

/* Where range `index` of `count` begins, and the one before it ends. */
static int64_t range_start(uint64_t elements, uint64_t index, uint64_t count) {
    return (int64_t)(elements * index / count);
}

rt_turn_range rt_division_range(const rt_division *all, uint32_t turn) {
    uint64_t pixel_turns = all->pixel_turns, block_turns = all->block_turns;
    uint64_t part = turn % (pixel_turns * block_turns);
    uint64_t row = all->by_pixels ? part / block_turns : part % pixel_turns;
    uint64_t column = all->by_pixels ? part % block_turns : part / pixel_turns;
    return (rt_turn_range){
        .matrix = (int64_t)(turn / (pixel_turns * block_turns)),
        .first_pixel = range_start(all->work.pixels, row, pixel_turns),
        .end_pixel = range_start(all->work.pixels, row + 1, pixel_turns),
        .first_block = range_start(all->work.blocks, column, block_turns),
        .end_block = range_start(all->work.blocks, column + 1, block_turns),
    };
}
