#include "mutate.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "../src/system/arithmetic.h"
#include "../src/plan/crc32.h"
#include "format.h"

enum { MAX_EXTENSION = 256 };

/* splitmix64 (Steele, Lea and Flood, 2014) */
static uint64_t next(fuzz_random *random) {
    uint64_t z = random->state += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

uint64_t fuzz_below(fuzz_random *random, uint64_t limit) { return limit ? next(random) % limit : 0; }

static void reserve(fuzz_file *file, size_t size) {
    if (size <= file->capacity) return;
    file->data = realloc(file->data, size);
    file->capacity = size;
    if (file->data == NULL) abort();
}

void fuzz_copy(fuzz_file *file, const fuzz_file *source) {
    reserve(file, source->size + MAX_EXTENSION + 1);
    file->size = source->size;
    if (source->size > 0) memcpy(file->data, source->data, source->size);
}

void fuzz_bytes(fuzz_file *file, fuzz_random *random) {
    uint64_t at = fuzz_below(random, file->size);
    switch (fuzz_below(random, 5)) {
        case 0: file->size = (size_t)at; break;
        case 1: {
            size_t extra = (size_t)fuzz_below(random, MAX_EXTENSION);
            reserve(file, file->size + extra + 1);
            memset(file->data + file->size, (int)fuzz_below(random, 256), extra);
            file->size += extra;
            break;
        }
        case 2:
            for (uint64_t i = at; i < file->size && i < at + 16; i++) file->data[i] = (uint8_t)next(random);
            break;
        default:
            if (file->size > 0) file->data[at] ^= (uint8_t)(1u << fuzz_below(random, 8));
    }
}

/* Another value, of a kind that finds bugs: limits, neighbours, a flipped bit. */
static uint32_t changed(uint32_t value, fuzz_random *random) {
    static const uint32_t special[] = {0, 1, 2, 3, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0xFFFFFFFE, 0x10000, 0x3F800000};
    switch (fuzz_below(random, 7)) {
        case 0: return special[fuzz_below(random, RT_COUNT(special))];
        case 1: return value + 1;
        case 2: return value - 1;
        case 3: return value * 2;
        case 4: return value ^ (1u << fuzz_below(random, 32));
        case 5: return (uint32_t)fuzz_below(random, 64);
        default: return (uint32_t)next(random);
    }
}

static void word_change(uint8_t *place, fuzz_random *random) {
    uint32_t value;
    memcpy(&value, place, sizeof value);
    value = changed(value, random);
    memcpy(place, &value, sizeof value);
}

/* The section table, cut to what lies within the file. */
static rt_section_record *section_table(const fuzz_file *file, uint32_t *count) {
    rt_header_record *header = (void *)file->data;
    *count = 0;
    if (file->size < sizeof *header) return NULL;
    uint64_t room = (file->size - sizeof *header) / sizeof(rt_section_record);
    *count = header->section_count < room ? header->section_count : (uint32_t)room;
    return (void *)(file->data + sizeof *header);
}

/* Whether a section lies within the file and has at least a word. */
static bool section_inside(const fuzz_file *file, const rt_section_record *entry) {
    uint64_t size = rt_product(entry->count, entry->record_size);
    return size >= sizeof(uint32_t) && entry->offset <= file->size && size <= file->size - entry->offset;
}

void *fuzz_section(const fuzz_file *file, uint32_t id) {
    uint32_t count;
    const rt_section_record *table = section_table(file, &count);
    for (uint32_t i = 0; i < count; i++) {
        if (table[i].id == id && section_inside(file, &table[i])) return file->data + table[i].offset;
    }
    return NULL;
}

void fuzz_repair(fuzz_file *file) {
    rt_header_record *header = (void *)file->data;
    if (file->size < sizeof *header) return;
    header->file_size = file->size;
    uint32_t crc = rt_crc32_update(0, file->data, offsetof(rt_header_record, crc32));
    header->crc32 = rt_crc32_update(crc, file->data + sizeof *header, file->size - sizeof *header);
}

void fuzz_field(fuzz_file *file, fuzz_random *random) {
    uint32_t count;
    rt_section_record *table = section_table(file, &count);
    if (count == 0) return;
    rt_section_record *entry = &table[fuzz_below(random, count)];
    if (fuzz_below(random, 12) == 0) {
        word_change((uint8_t *)entry + 4 * fuzz_below(random, sizeof *entry / 4), random);
    } else if (section_inside(file, entry)) {
        uint64_t words = entry->count * entry->record_size / 4;
        word_change(file->data + entry->offset + 4 * fuzz_below(random, words), random);
    }
    fuzz_repair(file);
}
