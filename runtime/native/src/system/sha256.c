/* Padding and the portable compression function, in the specification's names (FIPS 180-4, 5.1.1 and 6.2.2). */
#include "sha256.h"

#include <stdbool.h>
#include <string.h>

#include "sha256_blocks.h"

enum { BLOCK = 64, LENGTH_BYTES = 8 };

const uint32_t rt_sha256_constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t rotated(uint32_t word, int by) { return word >> by | word << (32 - by); }

static uint32_t big_endian_load(const uint8_t *bytes) {
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

static void big_endian_store(uint8_t *bytes, uint32_t word) {
    for (int i = 0; i < 4; i++) bytes[i] = (uint8_t)(word >> (24 - 8 * i));
}

/* The message schedule of one block. */
static void schedule_make(uint32_t w[64], const uint8_t *block) {
    for (int t = 0; t < 16; t++) w[t] = big_endian_load(block + 4 * t);
    for (int t = 16; t < 64; t++) {
        uint32_t sigma_0 = rotated(w[t - 15], 7) ^ rotated(w[t - 15], 18) ^ w[t - 15] >> 3;
        uint32_t sigma_1 = rotated(w[t - 2], 17) ^ rotated(w[t - 2], 19) ^ w[t - 2] >> 10;
        w[t] = sigma_1 + w[t - 7] + sigma_0 + w[t - 16];
    }
}

/* One round on the variables a to h. */
static void round_run(uint32_t v[8], uint32_t addend) {
    uint32_t sum_1 = rotated(v[4], 6) ^ rotated(v[4], 11) ^ rotated(v[4], 25);
    uint32_t sum_0 = rotated(v[0], 2) ^ rotated(v[0], 13) ^ rotated(v[0], 22);
    uint32_t choice = (v[4] & v[5]) ^ (~v[4] & v[6]);
    uint32_t majority = (v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]);
    uint32_t t1 = v[7] + sum_1 + choice + addend;
    memmove(v + 1, v, 7 * sizeof *v);
    v[4] += t1;
    v[0] = t1 + sum_0 + majority;
}

static void portable_blocks(uint32_t state[8], const uint8_t *blocks, size_t count) {
    for (; count > 0; count--, blocks += BLOCK) {
        uint32_t w[64], v[8];
        schedule_make(w, blocks);
        memcpy(v, state, sizeof v);
        for (int t = 0; t < 64; t++) round_run(v, rt_sha256_constants[t] + w[t]);
        for (int i = 0; i < 8; i++) state[i] += v[i];
    }
}

static void blocks_run(uint32_t state[8], const uint8_t *blocks, size_t count) {
    rt_sha256_blocks *native = rt_sha256_blocks_native();
    (native ? native : portable_blocks)(state, blocks, count);
}

rt_sha256 rt_sha256_begin(void) {
    return (rt_sha256){.state = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab,
                                 0x5be0cd19}};
}

void rt_sha256_update(rt_sha256 *hash, const void *data, size_t size) {
    const uint8_t *bytes = data;
    size_t held = hash->size % BLOCK;
    hash->size += size;
    if (held + size < BLOCK) {
        if (size > 0) memcpy(hash->rest + held, bytes, size);
        return;
    }
    if (held > 0) {
        memcpy(hash->rest + held, bytes, BLOCK - held);
        blocks_run(hash->state, hash->rest, 1);
        bytes += BLOCK - held;
        size -= BLOCK - held;
    }
    blocks_run(hash->state, bytes, size / BLOCK);
    if (size % BLOCK > 0) memcpy(hash->rest, bytes + size / BLOCK * BLOCK, size % BLOCK);
}

void rt_sha256_end(rt_sha256 *hash, uint8_t digest[RT_SHA256_BYTES]) {
    static const uint8_t padding[BLOCK] = {0x80};
    uint64_t bits = 8 * hash->size;
    size_t held = hash->size % BLOCK;
    uint8_t length[LENGTH_BYTES];
    big_endian_store(length, (uint32_t)(bits >> 32));
    big_endian_store(length + 4, (uint32_t)bits);
    rt_sha256_update(hash, padding, (held < BLOCK - LENGTH_BYTES ? BLOCK : 2 * BLOCK) - LENGTH_BYTES - held);
    rt_sha256_update(hash, length, sizeof length);
    for (int i = 0; i < 8; i++) big_endian_store(digest + 4 * i, hash->state[i]);
}
