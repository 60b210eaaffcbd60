/* In place of all files that speak to OpenCL where a build leaves it out. rt_opencl_open refuses, so that no plan with
 * OpenCL steps is ever loaded and every rt_device is NULL; the functions that would be given one are here for the
 * linker alone.
 */
#include "../opencl/opencl.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "../opencl/device.h"
#include "../opencl/event_clock.h"
#include "../opencl/examine.h"
#include "../opencl/kernels.h"
#include "../opencl/recording.h"
#include "../opencl/kernels_save.h"
#include "../opencl/launch.h"
#include "../opencl/programs.h"
#include "../opencl/steps.h"
#include "../opencl/trial.h"
#include "../opencl/tuned.h"
#include "../system/errors.h"

static const char reason[] = "this farmrt was built without OpenCL: it runs plans of the runtime cpu alone";
static const rt_fit no_fit = {.match = RT_MATCH_NONE, .reason = "this farmrt was built without OpenCL"};

/* --- library and device --- */

rt_status rt_opencl_open(rt_opencl *opencl, const char *library, rt_error *error) {
    (void)library;
    memset(opencl, 0, sizeof *opencl);
    return rt_error_set(error, RT_UNSUPPORTED, "%s", reason);
}

const char *rt_opencl_code_name(cl_int code) { return (void)code, "unknown"; }

rt_status rt_opencl_check(rt_error *error, const char *call, cl_int code, int32_t step) {
    (void)error, (void)call, (void)step;
    return code == CL_SUCCESS ? RT_OK : RT_OPENCL;
}

rt_status rt_device_open(const rt_device **device, const rt_opencl *opencl, const rt_device_use *use, rt_error *error) {
    (void)opencl, (void)use;
    *device = NULL;
    return rt_error_set(error, RT_UNSUPPORTED, "%s", reason);
}

void rt_device_close(const rt_device *device) { (void)device; }

rt_status rt_device_constant(const rt_device *device, const void *content, uint64_t size, bool keep_in_place,
                             cl_mem *object, rt_error *error) {
    (void)device, (void)content, (void)size, (void)keep_in_place;
    *object = NULL;
    return rt_error_set(error, RT_UNSUPPORTED, "%s", reason);
}

rt_status rt_event_clock_read(rt_event_clock *clock, const rt_opencl_functions *cl, cl_context context,
                              cl_command_queue queue, rt_error *error) {
    (void)cl, (void)context, (void)queue, (void)error;
    *clock = RT_EVENT_CLOCK_UNKNOWN;
    return RT_OK;
}

rt_status rt_device_check_memory(const rt_device *device, const char *call, cl_int code, const char *what,
                                 uint32_t index, uint64_t size, rt_error *error) {
    (void)device, (void)what, (void)index, (void)size;
    return rt_opencl_check(error, call, code, RT_NO_STEP);
}

void rt_device_text(const rt_opencl *opencl, cl_uint property, char *text, size_t size) {
    (void)opencl, (void)property, (void)size;
    text[0] = '\0';
}

void rt_platform_text(const rt_opencl *opencl, cl_uint property, char *text, size_t size) {
    rt_device_text(opencl, property, text, size);
}

uint64_t rt_device_number(const rt_opencl *opencl, cl_uint property) { return (void)opencl, (void)property, 0; }

/* --- tuned parameters and compiled kernels: a CPU plan has a use for neither, with OpenCL or without --- */

const char *rt_match_name(rt_match match) { return (void)match, "none"; }

rt_status rt_tuned_open(rt_tuned **tuned, const rt_source *source, const rt_plan *plan, const rt_device *device,
                        const char *soc, rt_error *error) {
    (void)source, (void)plan, (void)device, (void)soc, (void)error;
    return *tuned = NULL, RT_OK;
}

void rt_tuned_close(rt_tuned *tuned) { (void)tuned; }

const rt_fit *rt_tuned_fit(const rt_tuned *tuned) { return (void)tuned, &no_fit; }

uint32_t rt_tuned_entry_count(const rt_tuned *tuned) { return (void)tuned, 0; }

uint32_t rt_tuned_used(const rt_tuned *tuned) { return (void)tuned, 0; }

rt_status rt_kernels_open(rt_kernels **kernels, const rt_source *source, const rt_plan *plan, const rt_device *device,
                          const char *soc, rt_error *error) {
    (void)source, (void)plan, (void)device, (void)soc, (void)error;
    return *kernels = NULL, RT_OK;
}

void rt_kernels_close(rt_kernels *kernels) { (void)kernels; }

const rt_fit *rt_kernels_fit(const rt_kernels *kernels) { return (void)kernels, &no_fit; }

rt_status rt_kernels_save(const rt_parts *parts, const char *path, bool trials, rt_saved_kernels *saved,
                          rt_error *error) {
    (void)parts, (void)path, (void)trials;
    *saved = (rt_saved_kernels){0};
    return rt_error_set(error, RT_UNSUPPORTED, "%s", reason);
}

/* --- programs, steps and trials --- */

rt_status rt_programs_create(rt_programs **programs, const rt_plan *plan, const rt_device *device, rt_kernels *kernels,
                             rt_error *error) {
    (void)plan, (void)device, (void)kernels, (void)error;
    return *programs = NULL, RT_OK;
}

void rt_programs_destroy(rt_programs *programs) { (void)programs; }

rt_program_counts rt_programs_counts(const rt_programs *programs) { return (void)programs, (rt_program_counts){0}; }

rt_status rt_steps_create(rt_steps **steps, const rt_step_parts *parts, rt_error *error) {
    (void)parts, (void)error;
    return *steps = NULL, RT_OK;
}

void rt_steps_destroy(rt_steps *steps) { (void)steps; }

rt_status rt_steps_prepare(rt_steps *steps, uint32_t step, rt_error *error) {
    return (void)steps, (void)step, (void)error, RT_OK;
}

rt_status rt_recordings_create(rt_recordings **recordings, const rt_device *device, uint32_t step_count,
                               rt_error *error) {
    (void)device, (void)step_count, (void)error;
    *recordings = NULL;
    return RT_OK;
}

void rt_recordings_destroy(rt_recordings *recordings) { (void)recordings; }

bool rt_recordings_enqueue(rt_recordings *recordings, const rt_steps *steps, uint32_t first, uint32_t last) {
    return (void)recordings, (void)steps, (void)first, (void)last, false;
}

uint32_t rt_steps_smaller_groups(const rt_steps *steps) { return (void)steps, 0; }

const rt_launch *rt_steps_launch(const rt_steps *steps, uint32_t step) { return (void)steps, (void)step, NULL; }

cl_kernel rt_steps_kernel(const rt_steps *steps, uint32_t step) { return (void)steps, (void)step, NULL; }

uint32_t rt_launch_part_count(const rt_launch *launch, uint32_t parts) { return (void)launch, parts; }

rt_status rt_launch_enqueue(const rt_queue *queue, uint32_t step, cl_kernel kernel, const rt_launch *launch,
                            uint32_t parts, rt_error *error) {
    (void)queue, (void)step, (void)kernel, (void)launch, (void)parts;
    return rt_error_set(error, RT_UNSUPPORTED, "%s", reason);
}

void rt_trial_take(rt_trial *trial, rt_command *command) {
    (void)command;
    *trial = (rt_trial){0};
}

rt_status rt_trial_run(const rt_parts *parts, const rt_trial *trial, rt_json *json, rt_error *error) {
    (void)parts, (void)trial, (void)json;
    return rt_error_set(error, RT_UNSUPPORTED, "%s", reason);
}

void rt_examine_take(rt_examination *wanted, rt_command *command) {
    (void)command;
    *wanted = (rt_examination){0};
}

rt_status rt_examine_run(const rt_examination *wanted, rt_json *json, rt_error *error) {
    (void)wanted, (void)json;
    return rt_error_set(error, RT_UNSUPPORTED, "%s", reason);
}
