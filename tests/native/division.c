/* Prints the turns of a division: matrices, pixels, the most and the least of a turn, blocks, pass, start, weight, workers ->
 * a line for each turn, as rt_turn_range has its members. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "cpu/cpu_division.h"

int main(int count, char **given) {
    uint64_t value[9];
    if (count != 10) return 2;
    for (int i = 0; i < 9; i++) value[i] = strtoull(given[i + 1], NULL, 10);
    const rt_divisible work = {value[0], value[1], value[2], value[3], value[4], value[5], value[6], value[7]};
    rt_division all = rt_divide(&work, value[8]);
    for (uint32_t turn = 0; turn < rt_division_turns(&all); turn++) {
        rt_turn_range own = rt_division_range(&all, turn);
        printf("%" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 "\n", own.matrix, own.first_pixel,
               own.end_pixel, own.first_block, own.end_block);
    }
    return 0;
}
