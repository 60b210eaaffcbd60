#include "kernels_cache.h"

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

rt_status rt_kernels_open(rt_kernels_cache *cache, const rt_bytes *bytes, const char *name, const rt_plan *plan,
                          const rt_device *device, const char *soc, rt_error *error) {
    memset(cache, 0, sizeof *cache);
    rt_status status = rt_container_open(&cache->file, bytes, RT_KERNELS_MAGIC, name, error);
    if (status == RT_OK) status = entries_check(&cache->file, error);
    const rt_section *section = &cache->file.sections[RT_SECTION_ID_BINARY];
    if (status == RT_OK) status = rt_fingerprint_check(&cache->file, section->count, error);
    if (status != RT_OK) return status;
    const rt_set_record *set = rt_fingerprint_choose(&cache->file, plan, device, soc, false, &cache->match,
                                                     cache->reason, sizeof cache->reason);
    if (set == NULL) return RT_OK;
    cache->entries = (const rt_binary_record *)section->records + set->first_entry;
    cache->entry_count = set->entry_count;
    return RT_OK;
}

static bool key_is(const char *key, const char *source_hash, const char *options) {
    size_t length = strlen(source_hash);
    return strncmp(key, source_hash, length) == 0 && key[length] == '|' && strcmp(key + length + 1, options) == 0;
}

const uint8_t *rt_kernels_find(const rt_kernels_cache *cache, const char *source_hash, const char *options,
                               size_t *size) {
    const uint8_t *blob = cache->file.sections[RT_SECTION_ID_BLOB].records;
    for (uint32_t i = 0; i < cache->entry_count; i++) {
        const rt_binary_record *entry = &cache->entries[i];
        if (!key_is(rt_container_string(&cache->file, entry->key), source_hash, options)) continue;
        *size = entry->size;
        return entry->size > 0 ? blob + entry->offset : NULL;
    }
    return NULL;
}
