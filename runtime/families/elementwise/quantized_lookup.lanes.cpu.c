/* Bytes by a table of 256. */
#include "../../native/src/cpu/cpu_lanes.h"

/* What a table of 256 bytes has of some bytes at once: AT_ONCE of them, or one by one. */
#if LANES == 16
enum { AT_ONCE = 64 };

/* The pairs of bytes of a table that hold those of each even byte, less the last bit; the next bit but six chooses a half. */
INLINE __m512i pairs_look_up(__m512i words, const __m512i table[4]) {
    const __m512i first = _mm512_permutex2var_epi16(table[0], words, table[1]);
    const __m512i second = _mm512_permutex2var_epi16(table[2], words, table[3]);
    return _mm512_mask_blend_epi16(_mm512_test_epi16_mask(words, _mm512_set1_epi16(64)), first, second);
}

INLINE void bytes_look_up(const uint8_t *x, const uint8_t *table, uint8_t *y) {
    const __m512i bytes = _mm512_loadu_si512(x), eight = _mm512_set1_epi16(8);
    __m512i held[4];
    UNROLLED for (int i = 0; i < 4; i++) held[i] = _mm512_loadu_si512(table + 64 * i);
    const __m512i even = pairs_look_up(_mm512_srli_epi16(bytes, 1), held), odd = pairs_look_up(_mm512_srli_epi16(bytes, 9), held);
    /* of a pair the byte that the last bit says, in the lower half, and in the upper one */
    const __m512i down = _mm512_and_si512(_mm512_slli_epi16(bytes, 3), eight);
    const __m512i up = _mm512_andnot_si512(_mm512_srli_epi16(bytes, 5), eight);
    const __m512i low = _mm512_srlv_epi16(even, down), high = _mm512_sllv_epi16(odd, up);
    _mm512_storeu_si512(y, _mm512_mask_mov_epi8(low, 0xAAAAAAAAAAAAAAAA, high));
}
#elif defined(__AVX2__)
enum { AT_ONCE = 32 };

/* The lower half of a byte chooses from 16 rows of the table, the upper one among these. */
INLINE void bytes_look_up(const uint8_t *x, const uint8_t *table, uint8_t *y) {
    const __m256i bytes = _mm256_loadu_si256((const __m256i *)(const void *)x);
    const __m256i low = _mm256_and_si256(bytes, _mm256_set1_epi8(15));
    __m256i held[8];
    UNROLLED for (int i = 0; i < 8; i++) {
        const __m128i *rows = (const __m128i *)(const void *)table + 2 * i;
        __m256i even = _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(_mm_loadu_si128(rows)), low);
        __m256i odd = _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(_mm_loadu_si128(rows + 1)), low);
        held[i] = _mm256_blendv_epi8(even, odd, _mm256_slli_epi16(bytes, 3));
    }
    UNROLLED for (int i = 0; i < 4; i++) held[i] = _mm256_blendv_epi8(held[2 * i], held[2 * i + 1], _mm256_slli_epi16(bytes, 2));
    UNROLLED for (int i = 0; i < 2; i++) held[i] = _mm256_blendv_epi8(held[2 * i], held[2 * i + 1], _mm256_slli_epi16(bytes, 1));
    _mm256_storeu_si256((__m256i *)(void *)y, _mm256_blendv_epi8(held[0], held[1], bytes));
}
#elif defined(__aarch64__)
enum { AT_ONCE = 16 };

INLINE void bytes_look_up(const uint8_t *x, const uint8_t *table, uint8_t *y) {
    const uint8x16_t bytes = vld1q_u8(x);
    uint8x16_t found = vqtbl4q_u8(vld1q_u8_x4(table), bytes);
    UNROLLED for (int i = 1; i < 4; i++) {
        found = vqtbx4q_u8(found, vld1q_u8_x4(table + 64 * i), vsubq_u8(bytes, vdupq_n_u8((uint8_t)(64 * i))));
    }
    vst1q_u8(y, found);
}
#else
enum { AT_ONCE = 1 };

INLINE void bytes_look_up(const uint8_t *x, const uint8_t *table, uint8_t *y) { *y = table[*x]; }
#endif

void NAME(rt_lanes_lookup_)(const uint8_t *x, const uint8_t *table, int64_t count, uint8_t *y) {
    int64_t i = 0;
    for (; i + AT_ONCE <= count; i += AT_ONCE) bytes_look_up(x + i, table, y + i);
    for (; i < count; i++) y[i] = table[x[i]];
}
