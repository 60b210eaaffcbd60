/* Entries are found by a search through the chosen set, once a step at load. All entries are checked, also those of
 * sets for other devices: a damaged file is told on every device.
 */
#include "tuned.h"

#include <stdio.h>
#include <string.h>

#include "../system/allocation.h"
#include "../plan/container.h"
#include "../system/errors.h"

enum { MAX_BLOCK = 1024 };

struct rt_tuned {
    const rt_bytes *content; /* NULL: no file */
    rt_container file;
    rt_fit fit;
    const rt_tuned_record *entries; /* of the chosen set */
    uint32_t entry_count;
    uint32_t used; /* launches taken and not given back */
};

/* Whether a launch of these sizes can be asked of OpenCL: local sizes all 0 (the driver chooses) or all dividing. */
static bool sizes_valid(const rt_tuned_record *entry) {
    if (entry->work_dim < 1 || entry->work_dim > 3 || entry->block > MAX_BLOCK) return false;
    for (uint32_t i = 0; i < entry->work_dim; i++) {
        uint32_t local = entry->local_size[i];
        if (entry->global_size[i] == 0 || (local == 0) != (entry->local_size[0] == 0)) return false;
        if (local != 0 && entry->global_size[i] % local != 0) return false;
    }
    return true;
}

/* Strings and sizes of every entry, also of sets that will not be chosen. */
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

/* Opens the content, checks it and chooses; what it has opened when it fails is left for rt_tuned_close. */
static rt_status set_choose(rt_tuned *tuned, const rt_source *source, const rt_plan *plan, const rt_device *device,
                            const char *soc, rt_error *error) {
    rt_status status = rt_bytes_open(&tuned->content, source, RT_READING_COPY, error);
    if (status == RT_OK) status = rt_container_open(&tuned->file, tuned->content, RT_TUNED_MAGIC, error);
    if (status == RT_OK) status = entries_check(&tuned->file, error);
    const rt_section *section = &tuned->file.sections[RT_SECTION_ID_TUNED];
    if (status == RT_OK) status = rt_fingerprint_check(&tuned->file, section->count, error);
    if (status != RT_OK) return status;
    const rt_set_record *set = rt_fingerprint_choose(&tuned->file, plan, device, soc, true, &tuned->fit);
    if (set == NULL) return RT_OK;
    tuned->entries = (const rt_tuned_record *)section->records + set->first_entry;
    tuned->entry_count = set->entry_count;
    return RT_OK;
}

rt_status rt_tuned_open(rt_tuned **tuned, const rt_source *source, const rt_plan *plan, const rt_device *device,
                        const char *soc, rt_error *error) {
    rt_status status = RT_OK;
    rt_tuned *made = *tuned = rt_memory_allocate(1, sizeof *made);
    if (made == NULL) return rt_error_no_memory(error, "tuned parameters");
    if (rt_source_is_given(source)) status = set_choose(made, source, plan, device, soc, error);
    if (status != RT_OK) {
        rt_tuned_close(made);
        *tuned = NULL;
    }
    return status;
}

void rt_tuned_close(rt_tuned *tuned) {
    if (tuned == NULL) return;
    rt_bytes_close(tuned->content);
    rt_memory_free(tuned);
}

/* The entry of a tuning key in the chosen set; NULL where there is none. */
static const rt_tuned_record *entry_find(const rt_tuned *tuned, const char *key) {
    for (uint32_t i = 0; i < tuned->entry_count; i++) {
        if (strcmp(rt_container_string(&tuned->file, tuned->entries[i].key), key) == 0) return &tuned->entries[i];
    }
    return NULL;
}

bool rt_tuned_take(rt_tuned *tuned, const char *key, rt_launch *launch) {
    const rt_tuned_record *entry = entry_find(tuned, key);
    if (entry == NULL) return false;
    *launch = (rt_launch){
        .kernel = rt_container_string(&tuned->file, entry->kernel),
        .options = rt_container_string(&tuned->file, entry->options),
        .work_dim = entry->work_dim,
        .block = entry->block,
    };
    memcpy(launch->global_size, entry->global_size, sizeof launch->global_size);
    memcpy(launch->local_size, entry->local_size, sizeof launch->local_size);
    tuned->used++;
    return true;
}

void rt_tuned_give_back(rt_tuned *tuned, uint32_t step, const char *why) {
    tuned->used--;
    snprintf(tuned->fit.reason, sizeof tuned->fit.reason, "step %u refused its launch: %.180s", step, why);
}

const rt_fit *rt_tuned_fit(const rt_tuned *tuned) { return &tuned->fit; }

uint32_t rt_tuned_entry_count(const rt_tuned *tuned) { return tuned->entry_count; }

uint32_t rt_tuned_used(const rt_tuned *tuned) { return tuned->used; }
