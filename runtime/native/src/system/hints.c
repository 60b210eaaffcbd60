/* An object is tried with all hints first, then with ever fewer, without any in the end: a driver says only that it
 * refuses, not what.
 */
#include "hints.h"

#include <stdbool.h>
#include <string.h>

#include "allocation.h"
#include "arithmetic.h"
#include "errors.h"

/* Where a hint goes to. */
typedef enum { PLACE_NONE = 0, PLACE_CONTEXT, PLACE_QUEUE } place;

/* One way to give a hint: the extension, the property, and its values for low, normal and high. */
typedef struct {
    const char *extension;
    place place;
    cl_uint property;
    cl_uint values[3];
} way;

/* Numbers of the Khronos registry and of Qualcomm's cl_ext_qcom.h; the first way that the device lists is taken. */
static const way ways[RT_HINT_KINDS][2] = {
    {{"cl_qcom_perf_hint", PLACE_CONTEXT, 0x40C2, {0x40C5, 0x40C4, 0x40C3}},
     {"cl_khr_throttle_hints", PLACE_QUEUE, 0x1097, {4, 2, 1}}},
    {{"cl_qcom_priority_hint", PLACE_CONTEXT, 0x40C9, {0x40CC, 0x40CB, 0x40CA}},
     {"cl_khr_priority_hints", PLACE_QUEUE, 0x1096, {4, 2, 1}}},
};

/* A hint, and the way that it takes; NULL where the device lists none. */
typedef struct {
    rt_hint asked;
    const way *way;
    bool refused;
} hint;

struct rt_hints {
    hint table[RT_HINT_KINDS];
};

const char *rt_hint_name(rt_hint asked) {
    static const char *const names[] = {"default", "low", "normal", "high"};
    return names[asked];
}

/* Whether a word is in a list of words separated by blanks. */
static bool has_word(const char *list, const char *word) {
    size_t length = strlen(word);
    for (const char *at = list; (at = strstr(at, word)) != NULL; at += length) {
        if ((at == list || at[-1] == ' ') && (at[length] == ' ' || at[length] == '\0')) return true;
    }
    return false;
}

/* The first way that a device lists and this library can go; NULL where there is none. */
static const way *way_choose(const rt_opencl *opencl, const char *extensions, rt_hint_kind kind) {
    for (size_t i = 0; i < RT_COUNT(ways[kind]); i++) {
        const way *found = &ways[kind][i];
        if (found->place == PLACE_QUEUE && opencl->queue_with_properties == NULL) continue;
        if (has_word(extensions, found->extension)) return found;
    }
    return NULL;
}

rt_status rt_hints_create(rt_hints **hints, const rt_opencl *opencl, rt_hint perf, rt_hint priority, rt_error *error) {
    enum { EXTENSIONS_BYTES = 1 << 14 };
    char *extensions = rt_memory_allocate(EXTENSIONS_BYTES, 1);
    rt_hints *made = *hints = extensions ? rt_memory_allocate(1, sizeof *made) : NULL;
    if (made != NULL) {
        opencl->cl.GetDeviceInfo(opencl->device, CL_DEVICE_EXTENSIONS, EXTENSIONS_BYTES - 1, extensions, NULL);
        made->table[RT_HINT_KIND_PERF] = (hint){.asked = perf};
        made->table[RT_HINT_KIND_PRIORITY] = (hint){.asked = priority};
        for (int i = 0; i < RT_HINT_KINDS; i++) {
            made->table[i].way = way_choose(opencl, extensions, (rt_hint_kind)i);
        }
    }
    rt_memory_free(extensions);
    return made ? RT_OK : rt_error_no_memory(error, "the driver's hints");
}

void rt_hints_destroy(rt_hints *hints) { rt_memory_free(hints); }

/* --- attempts: bit i of a mask stands for hint i --- */

/* Hints that are asked for, go to this place, and were not refused yet. */
static unsigned wanted(const rt_hints *hints, place place) {
    unsigned mask = 0;
    for (int i = 0; i < RT_HINT_KINDS; i++) {
        const hint *own = &hints->table[i];
        if (own->asked != RT_HINT_DEFAULT && own->way && own->way->place == place && !own->refused) mask |= 1u << i;
    }
    return mask;
}

/* Writes property and value of each hint of the mask; returns how many words they are. */
static size_t properties_write(const rt_hints *hints, unsigned mask, intptr_t *words) {
    size_t count = 0;
    for (int i = 0; i < RT_HINT_KINDS; i++) {
        const hint *own = &hints->table[i];
        if (!(mask >> i & 1)) continue;
        words[count++] = (intptr_t)own->way->property;
        words[count++] = (intptr_t)own->way->values[own->asked - RT_HINT_LOW];
    }
    return count;
}

/* Notes which of the hints that were tried were left out in the end. */
static void refusals_note(rt_hints *hints, unsigned tried, unsigned taken) {
    for (int i = 0; i < RT_HINT_KINDS; i++) {
        if ((tried & ~taken) >> i & 1) hints->table[i].refused = true;
    }
}

rt_status rt_hints_context(rt_hints *hints, const rt_opencl *opencl, cl_context *context, rt_error *error) {
    cl_int code = CL_SUCCESS;
    unsigned tried = wanted(hints, PLACE_CONTEXT), mask = tried;
    for (;;) {
        intptr_t words[2 * RT_HINT_KINDS + 1] = {0};
        size_t count = properties_write(hints, mask, words);
        *context = opencl->cl.CreateContext(count > 0 ? words : NULL, 1, &opencl->device, NULL, NULL, &code);
        if (code == CL_SUCCESS || mask == 0) break;
        mask = (mask - 1) & tried; /* the next smaller choice out of those tried */
    }
    if (code == CL_SUCCESS) refusals_note(hints, tried, mask);
    return rt_opencl_check(error, "clCreateContext", code, RT_NO_STEP);
}

/* A queue with the hints of a mask; without any by the older call, which every driver has. */
static cl_command_queue queue_create(const rt_hints *hints, unsigned mask, const rt_opencl *opencl, cl_context context,
                                     cl_bitfield properties, cl_int *code) {
    intptr_t words[2 * RT_HINT_KINDS];
    cl_queue_properties list[2 * RT_HINT_KINDS + 3] = {CL_QUEUE_PROPERTIES, properties};
    if (mask == 0) return opencl->cl.CreateCommandQueue(context, opencl->device, properties, code);
    size_t count = properties_write(hints, mask, words);
    for (size_t i = 0; i < count; i++) list[2 + i] = (cl_queue_properties)words[i];
    return opencl->queue_with_properties(context, opencl->device, list, code);
}

rt_status rt_hints_queue(rt_hints *hints, const rt_opencl *opencl, cl_context context, cl_bitfield properties,
                         cl_command_queue *queue, rt_error *error) {
    cl_int code = CL_SUCCESS;
    unsigned tried = wanted(hints, PLACE_QUEUE), mask = tried;
    for (;;) {
        *queue = queue_create(hints, mask, opencl, context, properties, &code);
        if (code == CL_SUCCESS || mask == 0) break;
        mask = (mask - 1) & tried;
    }
    if (code == CL_SUCCESS) refusals_note(hints, tried, mask);
    return rt_opencl_check(error, "clCreateCommandQueue", code, RT_NO_STEP);
}

rt_hint_use rt_hints_use(const rt_hints *hints, rt_hint_kind kind) {
    const hint *own = &hints->table[kind];
    rt_hint_use use = {own->asked, "default", own->way ? own->way->extension : ""};
    if (own->asked == RT_HINT_DEFAULT) {
        use.extension = "";
    } else if (own->way == NULL) {
        use.outcome = "not supported";
    } else {
        use.outcome = own->refused ? "refused" : "applied";
    }
    return use;
}
