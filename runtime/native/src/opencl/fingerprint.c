/* An exact match is a set made on this very kind of device with this driver. A family match is a guess that tuned
 * parameters may make, since they cannot be wrong, only slow; a binary of another driver may be anything, so it is
 * never one.
 */
#include "fingerprint.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "../system/arithmetic.h"
#include "../system/errors.h"

const char *rt_match_name(rt_match match) {
    static const char *const names[] = {"none", "family", "exact"};
    return names[match];
}

rt_status rt_fingerprint_check(const rt_container *file, uint32_t entry_count, rt_error *error) {
    const rt_set_record *sets = file->sections[RT_SECTION_ID_SET].records;
    for (uint32_t i = 0; i < file->sections[RT_SECTION_ID_SET].count; i++) {
        const rt_set_record *set = &sets[i];
        const uint32_t strings[] = {set->soc,        set->gpu,         set->driver,          set->opencl,
                                    set->gpu_family, set->source_hash, set->runtime_version, set->device_model};
        bool valid = set->first_entry <= entry_count && set->entry_count <= entry_count - set->first_entry;
        for (size_t k = 0; k < RT_COUNT(strings); k++) valid = valid && rt_container_has_string(file, strings[k]);
        if (!valid)
            return rt_error_set(error, RT_BAD_FILE, "%s: set %u: a string or entry is out of range", file->name, i);
    }
    return RT_OK;
}

/* What is asked for, and where the answer goes. */
typedef struct {
    const rt_container *file;
    const rt_plan *plan;
    const rt_device *device;
    const char *soc;
    rt_fit *fit;
} choice;

/* Whether a set's string is the wanted one; if not, the reason says so. */
static bool agrees(const choice *ask, uint32_t offset, const char *wanted, const char *what) {
    const char *found = rt_container_string(ask->file, offset);
    if (strcmp(found, wanted) == 0) return true;
    snprintf(ask->fit->reason, sizeof ask->fit->reason, "%s differs: the file is for '%.100s', this is '%.100s'", what,
             found, wanted);
    return false;
}

/* How well one set fits. Kernel sources and runtime version are never waived: other sources mean other kernels. */
static rt_match set_match(const choice *ask, const rt_set_record *set, bool allow_family) {
    const char *family = rt_plan_string(ask->plan, ask->plan->meta->gpu_family);
    const char *hash = rt_plan_string(ask->plan, ask->plan->meta->source_hash);
    if (!agrees(ask, set->source_hash, hash, "kernel sources")) return RT_MATCH_NONE;
    if (!agrees(ask, set->runtime_version, RT_VERSION, "runtime version")) return RT_MATCH_NONE;
    bool any_soc = ask->soc[0] == '\0'; /* an application that does not know it */
    if ((any_soc || agrees(ask, set->soc, ask->soc, "SoC")) && agrees(ask, set->gpu, ask->device->name, "GPU") &&
        agrees(ask, set->driver, ask->device->driver, "driver") &&
        agrees(ask, set->opencl, ask->device->version, "OpenCL version")) {
        return RT_MATCH_EXACT;
    }
    bool same_family = family[0] != '\0' && strcmp(rt_container_string(ask->file, set->gpu_family), family) == 0;
    return allow_family && same_family ? RT_MATCH_FAMILY : RT_MATCH_NONE;
}

const rt_set_record *rt_fingerprint_choose(const rt_container *file, const rt_plan *plan, const rt_device *device,
                                           const char *soc, bool allow_family, rt_fit *fit) {
    choice ask = {file, plan, device, soc, fit};
    const rt_set_record *sets = file->sections[RT_SECTION_ID_SET].records;
    const rt_set_record *best = NULL;
    fit->match = RT_MATCH_NONE;
    snprintf(fit->reason, sizeof fit->reason, device ? "the file is empty" : "the plan does not use OpenCL");
    if (device == NULL) return NULL;
    for (uint32_t i = 0; i < file->sections[RT_SECTION_ID_SET].count; i++) {
        rt_match found = set_match(&ask, &sets[i], allow_family);
        if (found <= fit->match) continue;
        fit->match = found;
        best = &sets[i];
    }
    if (fit->match == RT_MATCH_EXACT) fit->reason[0] = '\0';
    return best;
}
