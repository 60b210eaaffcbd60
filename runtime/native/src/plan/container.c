/* The checksum comes first: behind it damage is ruled out, and what is still wrong was written so, by another version
 * or by somebody with a purpose. The section table and strings are then checked as if it were the latter.
 */
#include "container.h"

#include <stddef.h>
#include <string.h>

#include "../system/arithmetic.h"
#include "crc32.h"
#include "../system/errors.h"

/* By section; 0: no such section. */
static const size_t record_sizes[RT_SECTION_ID_COUNT] = {
    [RT_SECTION_ID_STRINGS] = 1,
    [RT_SECTION_ID_META] = sizeof(rt_meta_record),
    [RT_SECTION_ID_POOL] = sizeof(rt_pool_record),
    [RT_SECTION_ID_IMAGE] = sizeof(rt_image_record),
    [RT_SECTION_ID_PROGRAM] = sizeof(rt_program_record),
    [RT_SECTION_ID_STEP] = sizeof(rt_step_record),
    [RT_SECTION_ID_ARG] = sizeof(rt_arg_record),
    [RT_SECTION_ID_TENSOR] = sizeof(rt_tensor_record),
    [RT_SECTION_ID_PACK] = sizeof(rt_pack_record),
    [RT_SECTION_ID_EXPECT] = sizeof(rt_expect_record),
    [RT_SECTION_ID_SET] = sizeof(rt_set_record),
    [RT_SECTION_ID_TUNED] = sizeof(rt_tuned_record),
    [RT_SECTION_ID_BINARY] = sizeof(rt_binary_record),
    [RT_SECTION_ID_BLOB] = 1,
    [RT_SECTION_ID_QUANTIZATION] = sizeof(rt_quantization_record),
};

/* Whether the bytes are a file of this kind and version, as long as it says and undamaged. After it the section table
 * lies within the file. */
static rt_status header_check(const rt_bytes *bytes, const char *magic, rt_error *error) {
    const char *name = bytes->name;
    rt_header_record header;
    if (bytes->size < sizeof header) {
        return rt_error_set(error, RT_BAD_FILE, "%s: truncated: %zu bytes are no %s file", name, bytes->size, magic);
    }
    memcpy(&header, bytes->data, sizeof header);
    if (memcmp(header.magic, magic, sizeof header.magic) != 0) {
        return rt_error_set(error, RT_BAD_FILE, "%s: not a %s file", name, magic);
    }
    if (header.version != RT_FORMAT_VERSION) {
        return rt_error_set(error, RT_BAD_FILE, "%s: format version %u, this farmrt reads %u", name, header.version,
                            RT_FORMAT_VERSION);
    }
    uint32_t crc = rt_crc32_update(0, bytes->data, offsetof(rt_header_record, crc32));
    crc = rt_crc32_update(crc, bytes->data + sizeof header, bytes->size - sizeof header);
    if (header.file_size != bytes->size || header.crc32 != crc) {
        return rt_error_set(error, RT_BAD_FILE, "%s: damaged or truncated (size or checksum differs)", name);
    }
    if (header.section_count > (bytes->size - sizeof header) / sizeof(rt_section_record)) {
        return rt_error_set(error, RT_BAD_FILE, "%s: the section table exceeds the file", name);
    }
    return RT_OK;
}

/* Takes one entry of the section table; a section may be there once. */
static rt_status section_open(rt_container *container, const rt_bytes *bytes, const rt_section_record *entry,
                              rt_error *error) {
    if (entry->id >= RT_SECTION_ID_COUNT || record_sizes[entry->id] == 0) {
        return rt_error_set(error, RT_BAD_FILE, "%s: unknown section %u", container->name, entry->id);
    }
    rt_section *section = &container->sections[entry->id];
    uint64_t size = rt_product(entry->count, entry->record_size);
    if (entry->record_size != record_sizes[entry->id] || entry->offset % RT_ALIGNMENT_BYTES != 0 ||
        entry->count >= UINT32_MAX || entry->offset > bytes->size || size > bytes->size - entry->offset) {
        return rt_error_set(error, RT_BAD_FILE, "%s: section %u has a wrong size or offset", container->name,
                            entry->id);
    }
    if (section->records != NULL) {
        return rt_error_set(error, RT_BAD_FILE, "%s: section %u is there twice", container->name, entry->id);
    }
    section->records = bytes->data + entry->offset;
    section->count = (uint32_t)entry->count;
    return RT_OK;
}

/* The strings begin and end with a NUL, so that each offset among them is a terminated string, and 0 the empty one. */
static rt_status strings_check(rt_container *container, rt_error *error) {
    const rt_section *section = &container->sections[RT_SECTION_ID_STRINGS];
    container->strings = section->records;
    container->strings_size = section->count;
    if (section->count == 0 || container->strings[0] != '\0' || container->strings[section->count - 1] != '\0') {
        return rt_error_set(error, RT_BAD_FILE, "%s: the strings are not terminated", container->name);
    }
    return RT_OK;
}

rt_status rt_container_open(rt_container *container, const rt_bytes *bytes, const char *magic, rt_error *error) {
    memset(container, 0, sizeof *container);
    container->name = bytes->name;
    rt_status status = header_check(bytes, magic, error);
    if (status != RT_OK) return status;
    const rt_header_record *header = (const void *)bytes->data;
    const rt_section_record *entries = (const void *)(bytes->data + sizeof *header);
    for (uint32_t i = 0; i < header->section_count; i++) {
        status = section_open(container, bytes, &entries[i], error);
        if (status != RT_OK) return status;
    }
    return strings_check(container, error);
}

bool rt_container_has_string(const rt_container *container, uint32_t offset) {
    return offset < container->strings_size;
}

const char *rt_container_string(const rt_container *container, uint32_t offset) { return container->strings + offset; }
