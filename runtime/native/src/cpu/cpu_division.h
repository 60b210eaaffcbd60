/* How a product is divided into turns: ranges of pixels x ranges of blocks of channels. Without state; on any thread. */
#ifndef RT_CPU_DIVISION_H
#define RT_CPU_DIVISION_H

#include <stdbool.h>
#include <stdint.h>

/* What is to be divided. A value. */
typedef struct {
    uint64_t matrices;                          /* of this size: images, groups */
    uint64_t pixels, most_pixels, least_pixels; /* of a matrix, and of a turn: a cache holds its inputs; a tile */
    uint64_t blocks, pass;                      /* of channels, and those that are computed at once */
    uint64_t start; /* what a turn does for a pixel before its first block, in sixths of what it does for a block */
    uint64_t weight; /* so many channels are as much as a pixel, where it is chosen which of them workers share */
} rt_divisible;

/* With the ranges of each matrix, of which all are as large, or larger by one. A value. */
typedef struct {
    rt_divisible work;
    uint64_t pixel_turns, block_turns;
    bool by_pixels; /* the slowest index of turns is the matrix, then the range of pixels, else of blocks */
} rt_division;

/* What one turn computes. A value. */
typedef struct {
    int64_t matrix, first_pixel, end_pixel, first_block, end_block;
} rt_turn_range;

/* The division with which the last worker is done first. */
rt_division rt_divide(const rt_divisible *work, uint64_t workers);

/* How many turns there are. */
uint32_t rt_division_turns(const rt_division *all);

/* What one of them computes. */
rt_turn_range rt_division_range(const rt_division *all, uint32_t turn);

#endif
