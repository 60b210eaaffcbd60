#include "program_build.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "../system/allocation.h"
#include "../system/clock.h"
#include "../system/errors.h"

static const char build_call[] = "clBuildProgram";

static const char *source_hash_of(const rt_program_build *build) {
    return rt_plan_string(build->plan, build->plan->programs[build->source].source_hash);
}

bool rt_program_build_is_of(const rt_program_build *build, const char *source_hash, const char *options) {
    return strcmp(source_hash_of(build), source_hash) == 0 && strcmp(build->options, options) == 0;
}

/* Builds an object, from source or binary, and waits; OpenCL wants that for a binary too. */
static cl_int object_compile(const rt_program_build *build, cl_program object) {
    const rt_device *device = build->device;
    return rt_device_cl(device)->BuildProgram(object, 1, &device->opencl.device, build->options, NULL, NULL);
}

/* Loads the object from the compiled-kernels file; false when it is not there, or the driver refuses it. */
static bool binary_load(rt_program_build *build) {
    const rt_device *device = build->device;
    const rt_opencl_functions *cl = rt_device_cl(device);
    size_t size;
    cl_int status = CL_SUCCESS, code;
    const unsigned char *binary = rt_kernels_find(build->kernels, source_hash_of(build), build->options, &size);
    if (binary == NULL) return false;
    build->object =
        cl->CreateProgramWithBinary(device->context, 1, &device->opencl.device, &size, &binary, &status, &code);
    bool created = code == CL_SUCCESS;
    if (created && status != CL_SUCCESS) code = status;
    if (code == CL_SUCCESS && build->object == NULL) code = CL_INVALID_BINARY; /* no program, and no word of why */
    if (code == CL_SUCCESS) code = object_compile(build, build->object);
    if (code == CL_SUCCESS) return true;
    if (created && build->object != NULL) cl->ReleaseProgram(build->object);
    build->object = NULL;
    build->refused = rt_opencl_code_name(code);
    return false;
}

/* Builds the object from the plan's source. */
static void source_compile(rt_program_build *build) {
    const char *text = rt_plan_string(build->plan, build->plan->programs[build->source].source);
    cl_int code;
    build->object =
        rt_device_cl(build->device)->CreateProgramWithSource(build->device->context, 1, &text, NULL, &code);
    if (code != CL_SUCCESS) {
        build->object = NULL;
        build->call = "clCreateProgramWithSource";
    } else {
        code = object_compile(build, build->object);
        if (code != CL_SUCCESS) build->call = build_call;
    }
    build->code = code;
}

void rt_program_build_run(rt_program_build *build) {
    uint64_t start_ns = rt_clock_ns();
    build->loaded = binary_load(build);
    if (!build->loaded) source_compile(build);
    build->build_ns = rt_clock_ns() - start_ns;
}

/* Appends the compiler's log to a message of `used` bytes. */
static void log_append(const rt_program_build *build, size_t used, rt_error *error) {
    size_t size = 0;
    const rt_opencl_functions *cl = rt_device_cl(build->device);
    cl_device_id device = build->device->opencl.device;
    cl->GetProgramBuildInfo(build->object, device, CL_PROGRAM_BUILD_LOG, 0, NULL, &size);
    char *log = rt_memory_allocate(size + 1, 1); /* with a NUL, should the driver leave it out */
    if (log == NULL) return;
    cl->GetProgramBuildInfo(build->object, device, CL_PROGRAM_BUILD_LOG, size, log, NULL);
    snprintf(error->message + used, sizeof error->message - used, "%s", log);
    rt_memory_free(log);
}

/* Fills the error of a failed compilation. Returns RT_BUILD_FAILED. */
static rt_status build_error(const rt_program_build *build, rt_error *error) {
    if (error == NULL) return RT_BUILD_FAILED;
    const char *name = rt_plan_string(build->plan, build->plan->programs[build->source].name);
    rt_opencl_check(error, build_call, build->code, RT_NO_STEP);
    error->status = RT_BUILD_FAILED;
    int used = snprintf(error->message, sizeof error->message, "%s: %s (%d): %s with '%s'\n", build_call,
                        rt_opencl_code_name(build->code), build->code, name, build->options);
    if (used >= 0 && (size_t)used < sizeof error->message) log_append(build, (size_t)used, error);
    return RT_BUILD_FAILED;
}

rt_status rt_program_build_end(rt_program_build *build, rt_error *error) {
    if (build->call == NULL) return RT_OK;
    if (build->object == NULL) return rt_opencl_check(error, build->call, build->code, RT_NO_STEP);
    rt_status status = build_error(build, error);
    rt_device_cl(build->device)->ReleaseProgram(build->object);
    build->object = NULL;
    return status;
}
