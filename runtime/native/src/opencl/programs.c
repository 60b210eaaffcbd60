/* Steps share programs: a network has many steps and few pairs of source and options, so a list that is searched is
 * fast enough. What trials add is never taken out: the tuner comes back to the same options with other sizes.
 */
#include "programs.h"

#include <stddef.h>
#include <string.h>

#include "../system/allocation.h"
#include "../system/clock.h"
#include "../system/errors.h"
#include "../system/log.h"
#include "program_ahead.h"
#include "program_build.h"

struct rt_programs {
    const rt_plan *plan;
    const rt_device *device;
    rt_kernels *kernels;
    rt_program *table; /* owns the options' strings and the objects */
    uint32_t count;
    rt_program_counts counts;
    rt_program_ahead *ahead; /* NULL: none is built ahead */
    rt_program_build failed; /* a build ahead that nobody has asked for yet; without a call there is none */
};

/* A program that was built before; NULL where none was. */
static rt_program *program_find(const rt_programs *programs, const char *source_hash, const char *options) {
    for (uint32_t i = 0; i < programs->count; i++) {
        rt_program *program = &programs->table[i];
        if (strcmp(program->source_hash, source_hash) == 0 && strcmp(program->options, options) == 0) return program;
    }
    return NULL;
}

/* The options are a copy of our own, const only for those who are shown them. */
static void options_free(const char *options) { rt_memory_free((char *)(uintptr_t)options); }

/* What a source of the plan needs to be built. */
static rt_program_build build_of(const rt_programs *programs, uint32_t source, const char *options) {
    return (rt_program_build){.plan = programs->plan,
                              .device = programs->device,
                              .kernels = programs->kernels,
                              .source = source,
                              .options = options};
}

/* Adds a built program to the table, which takes the text of its options. RT_NO_MEMORY: nothing has changed. */
static rt_status program_append(rt_programs *programs, const rt_program_build *build, uint64_t unclaimed_ns,
                                rt_error *error) {
    rt_program *grown = rt_memory_grow(programs->table, programs->count + 1u, sizeof *grown);
    if (grown == NULL) return rt_error_no_memory(error, "a program");
    const char *source_hash = rt_plan_string(programs->plan, programs->plan->programs[build->source].source_hash);
    programs->table = grown;
    grown[programs->count++] = (rt_program){source_hash, build->options, build->object, unclaimed_ns};
    return RT_OK;
}

/* Counts a program that was built. */
static void build_count(rt_programs *programs, const rt_program_build *build) {
    *(build->loaded ? &programs->counts.loaded : &programs->counts.built) += 1;
    programs->counts.build_ns += build->build_ns;
    rt_log(RT_LOG_INFO, "program %s %s in %.1f ms: %s",
           rt_plan_string(programs->plan, programs->plan->programs[build->source].name),
           build->loaded ? "loaded" : "built", (double)build->build_ns / 1e6, build->options);
}

/* Keeps a build that has ended, or releases what there is of it: where it failed, and where there is no memory. */
static rt_status build_keep(rt_programs *programs, rt_program_build *build, uint64_t unclaimed_ns, rt_error *error) {
    if (build->refused != NULL) rt_kernels_refused(programs->kernels, build->refused);
    rt_status status = rt_program_build_end(build, error);
    if (status == RT_OK) {
        status = program_append(programs, build, unclaimed_ns, error);
        if (status == RT_OK) return build_count(programs, build), RT_OK;
        rt_device_cl(programs->device)->ReleaseProgram(build->object);
    }
    options_free(build->options);
    return status;
}

/* --- built ahead --- */

/* Forgets the build ahead that failed. */
static void failed_release(rt_programs *programs) {
    if (programs->failed.object != NULL) rt_device_cl(programs->device)->ReleaseProgram(programs->failed.object);
    options_free(programs->failed.options);
    programs->failed = (rt_program_build){0};
}

/* Waits for the build ahead: what was built goes into the table, and a failure waits until the program is asked for,
 * or until another one fails. */
static void ahead_end(rt_programs *programs) {
    if (programs->ahead == NULL) return;
    rt_program_build build = rt_program_ahead_end(programs->ahead);
    programs->ahead = NULL;
    if (build.call == NULL) {
        build_keep(programs, &build, build.build_ns, NULL);
    } else {
        if (build.refused != NULL) rt_kernels_refused(programs->kernels, build.refused);
        failed_release(programs);
        programs->failed = build;
    }
}

/* Whether a build ahead of the program has failed. */
static bool has_failed(const rt_programs *programs, const char *source_hash, const char *options) {
    return programs->failed.call != NULL && rt_program_build_is_of(&programs->failed, source_hash, options);
}

void rt_programs_build_ahead(rt_programs *programs, uint32_t source, const char *options) {
    const char *source_hash = rt_plan_string(programs->plan, programs->plan->programs[source].source_hash);
    if (rt_programs_is_building(programs)) return;
    ahead_end(programs);
    if (program_find(programs, source_hash, options) != NULL || has_failed(programs, source_hash, options)) return;
    rt_program_build build = build_of(programs, source, options);
    programs->ahead = rt_program_ahead_start(&build);
}

bool rt_programs_is_building(const rt_programs *programs) {
    return programs->ahead != NULL && rt_program_ahead_is_running(programs->ahead);
}

/* --- built when asked for --- */

/* Builds now. */
static rt_status program_make(rt_programs *programs, uint32_t source, const char *options, rt_build_times *times,
                              rt_error *error) {
    const char *copy = rt_memory_copy_string(options);
    if (copy == NULL) return rt_error_no_memory(error, "a program");
    rt_program_build build = build_of(programs, source, copy);
    rt_program_build_run(&build);
    times->build_ns = build.build_ns;
    return build_keep(programs, &build, 0, error);
}

/* The times of a program's build, where nobody was told them yet; `waited_ns` of them were waited for now. */
static void times_claim(rt_program *known, uint64_t waited_ns, rt_build_times *times) {
    times->build_ns = known->unclaimed_ns;
    times->hidden_ns = known->unclaimed_ns > waited_ns ? known->unclaimed_ns - waited_ns : 0;
    known->unclaimed_ns = 0;
}

rt_status rt_programs_get(rt_programs *programs, uint32_t source, const char *options, cl_program *program,
                          rt_build_times *times, rt_error *error) {
    const char *source_hash = rt_plan_string(programs->plan, programs->plan->programs[source].source_hash);
    rt_program *known = program_find(programs, source_hash, options);
    uint64_t start_ns = rt_clock_ns();
    *times = (rt_build_times){0};
    if (known == NULL) { /* one build at a time: drivers build no faster in two threads, and may not be ready for them */
        ahead_end(programs);
        known = program_find(programs, source_hash, options);
    }
    if (known != NULL) {
        times_claim(known, rt_clock_ns() - start_ns, times);
        return *program = known->object, RT_OK;
    }
    rt_status status;
    if (has_failed(programs, source_hash, options)) {
        status = rt_program_build_end(&programs->failed, error);
        failed_release(programs);
    } else {
        status = program_make(programs, source, options, times, error);
    }
    if (status == RT_OK) *program = programs->table[programs->count - 1].object;
    return status;
}

uint32_t rt_programs_count(const rt_programs *programs) { return programs->count; }

const rt_program *rt_programs_at(const rt_programs *programs, uint32_t index) { return &programs->table[index]; }

rt_program_counts rt_programs_counts(const rt_programs *programs) { return programs->counts; }

rt_status rt_programs_create(rt_programs **programs, const rt_plan *plan, const rt_device *device, rt_kernels *kernels,
                             rt_error *error) {
    rt_programs *made = *programs = rt_memory_allocate(1, sizeof *made);
    if (made == NULL) return rt_error_no_memory(error, "the programs");
    *made = (rt_programs){.plan = plan, .device = device, .kernels = kernels};
    return RT_OK;
}

void rt_programs_destroy(rt_programs *programs) {
    if (programs == NULL) return;
    ahead_end(programs);
    failed_release(programs);
    for (uint32_t i = 0; i < programs->count; i++) {
        rt_device_cl(programs->device)->ReleaseProgram(programs->table[i].object);
        options_free(programs->table[i].options);
    }
    rt_memory_free(programs->table);
    rt_memory_free(programs);
}
