#include "program.h"

static rt_program *program_find(rt_engine *engine, const char *source_hash, const char *options) {
    for (uint32_t i = 0; i < engine->program_count; i++) {
        rt_program *program = &engine->programs[i];
        if (strcmp(program->source_hash, source_hash) == 0 && strcmp(program->options, options) == 0) return program;
    }
    return NULL;
}

/* One line that names the options, then the compiler's log. */
static rt_status build_error(rt_engine *engine, cl_program object, const char *name, const char *options, cl_int code,
                             rt_error *error) {
    if (error == NULL) return RT_BUILD_FAILED;
    rt_opencl_check(error, "clBuildProgram", code, RT_NO_STEP);
    error->status = RT_BUILD_FAILED;
    int used = snprintf(error->message, sizeof error->message, "clBuildProgram: %s (%d): %s with '%s'\n",
                        rt_opencl_code_name(code), code, name, options);
    if (used < 0 || (size_t)used >= sizeof error->message) return RT_BUILD_FAILED;
    size_t size = 0;
    const rt_opencl_functions *cl = rt_engine_cl(engine);
    cl->GetProgramBuildInfo(object, engine->device.opencl.device, CL_PROGRAM_BUILD_LOG, 0, NULL, &size);
    char *log = rt_memory_allocate(size + 1, 1);
    if (log == NULL) return RT_BUILD_FAILED;
    cl->GetProgramBuildInfo(object, engine->device.opencl.device, CL_PROGRAM_BUILD_LOG, size, log, NULL);
    snprintf(error->message + used, sizeof error->message - (size_t)used, "%s", log);
    rt_memory_free(log);
    return RT_BUILD_FAILED;
}

static cl_int program_compile(rt_engine *engine, cl_program object, const char *options) {
    return rt_engine_cl(engine)->BuildProgram(object, 1, &engine->device.opencl.device, options, NULL, NULL);
}

/* A program from the compiled-kernels file; NULL when it is not there, or the driver refuses it. */
static cl_program program_from_binary(rt_engine *engine, const char *source_hash, const char *options) {
    const rt_opencl_functions *cl = rt_engine_cl(engine);
    size_t size;
    cl_int status, code;
    const unsigned char *binary = rt_kernels_find(&engine->kernels, source_hash, options, &size);
    if (binary == NULL) return NULL;
    cl_program object = cl->CreateProgramWithBinary(engine->device.context, 1, &engine->device.opencl.device, &size,
                                                    &binary, &status, &code);
    if (code == CL_SUCCESS && status == CL_SUCCESS && program_compile(engine, object, options) == CL_SUCCESS)
        return object;
    if (code == CL_SUCCESS && object != NULL) cl->ReleaseProgram(object);
    snprintf(engine->kernels.reason, sizeof engine->kernels.reason, "the driver refused a binary (%s)",
             rt_opencl_code_name(code != CL_SUCCESS ? code : status));
    return NULL;
}

static rt_status program_from_source(rt_engine *engine, uint32_t source, const char *options, cl_program *object,
                                     rt_error *error) {
    const rt_opencl_functions *cl = rt_engine_cl(engine);
    const rt_program_record *record = &engine->plan.programs[source];
    const char *text = rt_plan_string(&engine->plan, record->source);
    cl_int code;
    *object = cl->CreateProgramWithSource(engine->device.context, 1, &text, NULL, &code);
    rt_status status = rt_opencl_check(error, "clCreateProgramWithSource", code, RT_NO_STEP);
    if (status != RT_OK) return status;
    code = program_compile(engine, *object, options);
    if (code == CL_SUCCESS) return RT_OK;
    status = build_error(engine, *object, rt_plan_string(&engine->plan, record->name), options, code, error);
    cl->ReleaseProgram(*object);
    return status;
}

/* Grows the table by one, not yet counted. */
static rt_program *program_append(rt_engine *engine, const char *source_hash, const char *options) {
    rt_program *grown = rt_memory_grow(engine->programs, engine->program_count + 1u, sizeof *grown);
    if (grown == NULL) return NULL;
    engine->programs = grown;
    rt_program *program = &grown[engine->program_count];
    *program = (rt_program){.source_hash = source_hash, .options = rt_memory_copy_string(options)};
    return program->options ? program : NULL;
}

rt_status rt_program_get(rt_engine *engine, uint32_t source, const char *options, cl_program *program,
                         uint64_t *build_ns, rt_error *error) {
    const char *source_hash = rt_plan_string(&engine->plan, engine->plan.programs[source].source_hash);
    rt_program *known = program_find(engine, source_hash, options);
    uint64_t start_ns = rt_clock_ns();
    *build_ns = 0;
    if (known != NULL) return *program = known->object, RT_OK;
    rt_program *added = program_append(engine, source_hash, options);
    if (added == NULL) return rt_error_no_memory(error, "a program");
    rt_status status = RT_OK;
    added->object = program_from_binary(engine, source_hash, options);
    bool loaded = added->object != NULL;
    if (!loaded) status = program_from_source(engine, source, options, &added->object, error);
    if (status != RT_OK) {
        rt_memory_free(added->options);
        return status;
    }
    *(loaded ? &engine->programs_loaded : &engine->programs_built) += 1;
    *build_ns = rt_clock_ns() - start_ns;
    engine->build_ns += *build_ns;
    engine->program_count++;
    *program = added->object;
    return RT_OK;
}

void rt_programs_release(rt_engine *engine) {
    for (uint32_t i = 0; i < engine->program_count; i++) {
        rt_engine_cl(engine)->ReleaseProgram(engine->programs[i].object);
        rt_memory_free(engine->programs[i].options);
    }
    rt_memory_free(engine->programs);
    engine->programs = NULL;
    engine->program_count = 0;
}
