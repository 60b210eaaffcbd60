/* Registers of LANES floats, which whoever includes this has defined. Without state. */
#ifndef RT_CPU_VECTOR_H
#define RT_CPU_VECTOR_H

#include <stdint.h>
#include <string.h>

#ifndef LANES /* the header alone */
#define LANES 4
#endif

/* A register of floats, and of the all-or-nothing bits that comparing two makes. */
typedef float lanes __attribute__((vector_size(LANES * 4)));
typedef int32_t mask __attribute__((vector_size(LANES * 4)));

/* Into callers with constant sizes, whose loops then unroll. */
#define INLINE static inline __attribute__((always_inline))

/* From and to any address: no more alignment than a float has. */
INLINE lanes load(const float *source) {
    lanes value;
    memcpy(&value, source, sizeof value);
    return value;
}

INLINE void store(float *target, lanes value) { memcpy(target, &value, sizeof value); }

/* Lane by lane: `yes` where the mask is set, else `no`. */
INLINE lanes choose(mask where, lanes yes, lanes no) { return (lanes)((where & (mask)yes) | (~where & (mask)no)); }

#endif
