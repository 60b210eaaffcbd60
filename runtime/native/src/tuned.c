#include "tuned.h"

enum { MAX_BLOCK = 1024 };

static bool sizes_valid(const rt_tuned_record *entry) {
    if (entry->work_dim < 1 || entry->work_dim > 3 || entry->block > MAX_BLOCK) return false;
    for (uint32_t i = 0; i < entry->work_dim; i++) {
        uint32_t local = entry->local_size[i];
        if (entry->global_size[i] == 0 || (local == 0) != (entry->local_size[0] == 0)) return false;
        if (local != 0 && entry->global_size[i] % local != 0) return false;
    }
    return true;
}

static rt_status entries_check(const rt_container *file, rt_error *error) {
    const rt_section *section = &file->sections[RT_SECTION_ID_TUNED];
    const rt_tuned_record *entries = section->records;
    for (uint32_t i = 0; i < section->count; i++) {
        const rt_tuned_record *entry = &entries[i];
        bool strings = rt_container_has_string(file, entry->key) && rt_container_has_string(file, entry->kernel) &&
                       rt_container_has_string(file, entry->options);
        if (strings && sizes_valid(entry)) continue;
        return rt_error_set(error, RT_BAD_FILE, "%s: entry %u: a string or size is out of range", file->name, i);
    }
    return RT_OK;
}

rt_status rt_tuned_open(rt_tuned *tuned, const rt_bytes *bytes, const char *name, const rt_plan *plan,
                        const rt_device *device, const char *soc, rt_error *error) {
    memset(tuned, 0, sizeof *tuned);
    rt_status status = rt_container_open(&tuned->file, bytes, RT_TUNED_MAGIC, name, error);
    if (status == RT_OK) status = entries_check(&tuned->file, error);
    const rt_section *section = &tuned->file.sections[RT_SECTION_ID_TUNED];
    if (status == RT_OK) status = rt_fingerprint_check(&tuned->file, section->count, error);
    if (status != RT_OK) return status;
    const rt_set_record *set = rt_fingerprint_choose(&tuned->file, plan, device, soc, true, &tuned->match,
                                                     tuned->reason, sizeof tuned->reason);
    if (set == NULL) return RT_OK;
    tuned->entries = (const rt_tuned_record *)section->records + set->first_entry;
    tuned->entry_count = set->entry_count;
    return RT_OK;
}

const rt_tuned_record *rt_tuned_find(const rt_tuned *tuned, const char *key) {
    for (uint32_t i = 0; i < tuned->entry_count; i++) {
        if (strcmp(rt_container_string(&tuned->file, tuned->entries[i].key), key) == 0) return &tuned->entries[i];
    }
    return NULL;
}
