/* Steps share programs: a network has many steps and few pairs of source and options, so a list that is searched is
 * fast enough. What trials add is never taken out: the tuner comes back to the same options with other sizes.
 */
#include "programs.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "allocation.h"
#include "clock.h"
#include "errors.h"
#include "log.h"

struct rt_programs {
    const rt_plan *plan;
    const rt_device *device;
    rt_kernels *kernels;
    rt_program *table; /* owns the options' strings and the objects */
    uint32_t count;
    rt_program_counts counts;
};

/* A program that was built before; NULL where none was. */
static const rt_program *program_find(const rt_programs *programs, const char *source_hash, const char *options) {
    for (uint32_t i = 0; i < programs->count; i++) {
        const rt_program *program = &programs->table[i];
        if (strcmp(program->source_hash, source_hash) == 0 && strcmp(program->options, options) == 0) return program;
    }
    return NULL;
}

/* Fills the error with a line that names the program and its options, then as much of the compiler's log as there is
 * room for. Returns RT_BUILD_FAILED. */
static rt_status build_error(const rt_programs *programs, cl_program object, const char *name, const char *options,
                             cl_int code, rt_error *error) {
    if (error == NULL) return RT_BUILD_FAILED;
    rt_opencl_check(error, "clBuildProgram", code, RT_NO_STEP);
    error->status = RT_BUILD_FAILED;
    int used = snprintf(error->message, sizeof error->message, "clBuildProgram: %s (%d): %s with '%s'\n",
                        rt_opencl_code_name(code), code, name, options);
    if (used < 0 || (size_t)used >= sizeof error->message) return RT_BUILD_FAILED;
    size_t size = 0;
    const rt_opencl_functions *cl = rt_device_cl(programs->device);
    cl_device_id device = programs->device->opencl.device;
    cl->GetProgramBuildInfo(object, device, CL_PROGRAM_BUILD_LOG, 0, NULL, &size);
    char *log = rt_memory_allocate(size + 1, 1); /* with a NUL, should the driver leave it out */
    if (log == NULL) return RT_BUILD_FAILED;
    cl->GetProgramBuildInfo(object, device, CL_PROGRAM_BUILD_LOG, size, log, NULL);
    snprintf(error->message + used, sizeof error->message - (size_t)used, "%s", log);
    rt_memory_free(log);
    return RT_BUILD_FAILED;
}

/* Builds an object, from source or binary, and waits; OpenCL wants that for a binary too. */
static cl_int program_compile(const rt_device *device, cl_program object, const char *options) {
    return rt_device_cl(device)->BuildProgram(object, 1, &device->opencl.device, options, NULL, NULL);
}

/* A program from the compiled-kernels file; NULL when it is not there, or the driver refuses it. */
static cl_program program_from_binary(const rt_programs *programs, const char *source_hash, const char *options) {
    const rt_device *device = programs->device;
    const rt_opencl_functions *cl = rt_device_cl(device);
    size_t size;
    cl_int status, code;
    const unsigned char *binary = rt_kernels_find(programs->kernels, source_hash, options, &size);
    if (binary == NULL) return NULL;
    cl_program object =
        cl->CreateProgramWithBinary(device->context, 1, &device->opencl.device, &size, &binary, &status, &code);
    if (code == CL_SUCCESS && status == CL_SUCCESS && program_compile(device, object, options) == CL_SUCCESS)
        return object;
    if (code == CL_SUCCESS && object != NULL) cl->ReleaseProgram(object);
    rt_kernels_refused(programs->kernels, rt_opencl_code_name(code != CL_SUCCESS ? code : status));
    return NULL;
}

/* Builds from the plan's source; on failure there is no object to release. */
static rt_status program_from_source(const rt_programs *programs, uint32_t source, const char *options,
                                     cl_program *object, rt_error *error) {
    const rt_plan *plan = programs->plan;
    const rt_opencl_functions *cl = rt_device_cl(programs->device);
    const char *text = rt_plan_string(plan, plan->programs[source].source);
    cl_int code;
    *object = cl->CreateProgramWithSource(programs->device->context, 1, &text, NULL, &code);
    rt_status status = rt_opencl_check(error, "clCreateProgramWithSource", code, RT_NO_STEP);
    if (status != RT_OK) return status;
    code = program_compile(programs->device, *object, options);
    if (code == CL_SUCCESS) return RT_OK;
    const char *name = rt_plan_string(plan, plan->programs[source].name);
    status = build_error(programs, *object, name, options, code, error);
    cl->ReleaseProgram(*object);
    return status;
}

/* Grows the table by one, not yet counted, with a copy of the options; NULL when there is no memory. */
static rt_program *program_append(rt_programs *programs, const char *source_hash, const char *options) {
    rt_program *grown = rt_memory_grow(programs->table, programs->count + 1u, sizeof *grown);
    if (grown == NULL) return NULL;
    programs->table = grown;
    rt_program *program = &grown[programs->count];
    *program = (rt_program){.source_hash = source_hash, .options = rt_memory_copy_string(options)};
    return program->options ? program : NULL;
}

/* The options are a copy of our own, const only for those who are shown the program. */
static void options_free(const rt_program *program) { rt_memory_free((char *)(uintptr_t)program->options); }

rt_status rt_programs_get(rt_programs *programs, uint32_t source, const char *options, cl_program *program,
                          uint64_t *build_ns, rt_error *error) {
    const char *source_hash = rt_plan_string(programs->plan, programs->plan->programs[source].source_hash);
    const rt_program *known = program_find(programs, source_hash, options);
    uint64_t start_ns = rt_clock_ns();
    *build_ns = 0;
    if (known != NULL) return *program = known->object, RT_OK;
    /* Not counted until it is built, so that a failure leaves the list as it was. */
    rt_program *added = program_append(programs, source_hash, options);
    if (added == NULL) return rt_error_no_memory(error, "a program");
    rt_status status = RT_OK;
    added->object = program_from_binary(programs, source_hash, options);
    bool loaded = added->object != NULL;
    if (!loaded) status = program_from_source(programs, source, options, &added->object, error);
    if (status != RT_OK) {
        options_free(added);
        return status;
    }
    *(loaded ? &programs->counts.loaded : &programs->counts.built) += 1;
    *build_ns = rt_clock_ns() - start_ns;
    programs->counts.build_ns += *build_ns;
    programs->count++;
    rt_log(RT_LOG_INFO, "program %s %s in %.1f ms: %s",
           rt_plan_string(programs->plan, programs->plan->programs[source].name), loaded ? "loaded" : "built",
           (double)*build_ns / 1e6, options);
    *program = added->object;
    return RT_OK;
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
    for (uint32_t i = 0; i < programs->count; i++) {
        rt_device_cl(programs->device)->ReleaseProgram(programs->table[i].object);
        options_free(&programs->table[i]);
    }
    rt_memory_free(programs->table);
    rt_memory_free(programs);
}
