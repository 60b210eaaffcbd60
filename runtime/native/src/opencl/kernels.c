/* Binaries are the driver's own format and say nothing that farmrt could check: the fingerprint must match exactly, and
 * the driver has the last word. What it refuses is built from source.
 */
#include "kernels.h"

#include <stdio.h>
#include <string.h>

#include "../system/allocation.h"
#include "../plan/container.h"
#include "../system/errors.h"

struct rt_kernels {
    const rt_bytes *content; /* NULL: no file */
    rt_container file;
    rt_fit fit;
    const rt_binary_record *entries; /* of the chosen set */
    uint32_t entry_count;
};

/* Keys and bytes of every entry, also of sets that will not be chosen. */
static rt_status entries_check(const rt_container *file, rt_error *error) {
    const rt_section *section = &file->sections[RT_SECTION_ID_BINARY];
    const rt_binary_record *entries = section->records;
    uint64_t blob_size = file->sections[RT_SECTION_ID_BLOB].count;
    for (uint32_t i = 0; i < section->count; i++) {
        bool inside = entries[i].offset <= blob_size && entries[i].size <= blob_size - entries[i].offset;
        if (inside && rt_container_has_string(file, entries[i].key)) continue;
        return rt_error_set(error, RT_BAD_FILE, "%s: program %u: its string or bytes are out of range", file->name, i);
    }
    return RT_OK;
}

/* Opens the content, checks it and chooses; what it has opened when it fails is left for rt_kernels_close. */
static rt_status set_choose(rt_kernels *kernels, const rt_source *source, const rt_plan *plan, const rt_device *device,
                            const char *soc, rt_error *error) {
    rt_status status = rt_bytes_open(&kernels->content, source, RT_READING_COPY, error);
    if (status == RT_OK) status = rt_container_open(&kernels->file, kernels->content, RT_KERNELS_MAGIC, error);
    if (status == RT_OK) status = entries_check(&kernels->file, error);
    const rt_section *section = &kernels->file.sections[RT_SECTION_ID_BINARY];
    if (status == RT_OK) status = rt_fingerprint_check(&kernels->file, section->count, error);
    if (status != RT_OK) return status;
    const rt_set_record *set = rt_fingerprint_choose(&kernels->file, plan, device, soc, false, &kernels->fit);
    if (set == NULL) return RT_OK;
    kernels->entries = (const rt_binary_record *)section->records + set->first_entry;
    kernels->entry_count = set->entry_count;
    return RT_OK;
}

rt_status rt_kernels_open(rt_kernels **kernels, const rt_source *source, const rt_plan *plan, const rt_device *device,
                          const char *soc, rt_error *error) {
    rt_status status = RT_OK;
    rt_kernels *made = *kernels = rt_memory_allocate(1, sizeof *made);
    if (made == NULL) return rt_error_no_memory(error, "compiled kernels");
    if (rt_source_is_given(source)) status = set_choose(made, source, plan, device, soc, error);
    if (status != RT_OK) {
        rt_kernels_close(made);
        *kernels = NULL;
    }
    return status;
}

void rt_kernels_close(rt_kernels *kernels) {
    if (kernels == NULL) return;
    rt_bytes_close(kernels->content);
    rt_memory_free(kernels);
}

/* Whether a key is `<source_hash>|<options>`. */
static bool key_is(const char *key, const char *source_hash, const char *options) {
    size_t length = strlen(source_hash);
    return strncmp(key, source_hash, length) == 0 && key[length] == '|' && strcmp(key + length + 1, options) == 0;
}

const uint8_t *rt_kernels_find(const rt_kernels *kernels, const char *source_hash, const char *options, size_t *size) {
    const uint8_t *blob = kernels->file.sections[RT_SECTION_ID_BLOB].records;
    for (uint32_t i = 0; i < kernels->entry_count; i++) {
        const rt_binary_record *entry = &kernels->entries[i];
        if (!key_is(rt_container_string(&kernels->file, entry->key), source_hash, options)) continue;
        *size = entry->size;
        return entry->size > 0 ? blob + entry->offset : NULL;
    }
    return NULL;
}

void rt_kernels_refused(rt_kernels *kernels, const char *code_name) {
    snprintf(kernels->fit.reason, sizeof kernels->fit.reason, "the driver refused a binary (%s)", code_name);
}

const rt_fit *rt_kernels_fit(const rt_kernels *kernels) { return &kernels->fit; }
