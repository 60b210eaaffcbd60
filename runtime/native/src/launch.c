#include "launch.h"

#include "program.h"
#include "repack.h"

rt_launch rt_launch_of_plan(const rt_engine *engine, uint32_t step) {
    const rt_plan *plan = &engine->plan;
    const rt_step_record *record = &plan->steps[step];
    rt_launch launch = {
        .kernel = rt_plan_string(plan, record->kernel),
        .options = rt_plan_string(plan, plan->programs[record->program].options),
        .work_dim = record->work_dim,
    };
    memcpy(launch.global_size, record->global_size, sizeof launch.global_size);
    memcpy(launch.local_size, record->local_size, sizeof launch.local_size);
    return launch;
}

static rt_launch launch_of_entry(const rt_tuned *tuned, const rt_tuned_record *entry) {
    rt_launch launch = {
        .kernel = rt_container_string(&tuned->file, entry->kernel),
        .options = rt_container_string(&tuned->file, entry->options),
        .work_dim = entry->work_dim,
        .block = entry->block,
    };
    memcpy(launch.global_size, entry->global_size, sizeof launch.global_size);
    memcpy(launch.local_size, entry->local_size, sizeof launch.local_size);
    return launch;
}

void rt_launches_choose(rt_engine *engine) {
    for (uint32_t i = 0; i < engine->plan.step_count; i++) {
        const rt_step_record *record = &engine->plan.steps[i];
        if (record->kind != RT_STEP_KIND_OPENCL) continue;
        const char *key = rt_plan_string(&engine->plan, record->tuning_key);
        const rt_tuned_record *entry = key[0] ? rt_tuned_find(&engine->tuned, key) : NULL;
        rt_step *step = &engine->steps[i];
        step->tuned = entry != NULL;
        step->launch = entry ? launch_of_entry(&engine->tuned, entry) : rt_launch_of_plan(engine, i);
        engine->tuned.used += step->tuned;
    }
}

static rt_status argument_set(rt_engine *engine, uint32_t step, cl_kernel kernel, uint32_t index,
                              const rt_arg_record *arg, rt_error *error) {
    const void *value = &arg->value;
    size_t size = sizeof arg->value;
    if (arg->kind == RT_ARG_KIND_POOL) {
        value = &engine->pools[arg->value].object;
        size = sizeof(cl_mem);
    } else if (arg->kind == RT_ARG_KIND_IMAGE) {
        value = &engine->images[arg->value].object;
        size = sizeof(cl_mem);
    } else if (arg->kind == RT_ARG_KIND_LOCAL) {
        value = NULL;
        size = arg->value;
    }
    cl_int code = rt_engine_cl(engine)->SetKernelArg(kernel, index, size, value);
    return rt_opencl_check(error, "clSetKernelArg", code, (int32_t)step);
}

static rt_status weights_set(rt_engine *engine, uint32_t pack, uint32_t block, cl_kernel kernel, rt_error *error) {
    const rt_repacked *repacked;
    const int32_t offset = 0;
    const rt_opencl_functions *cl = rt_engine_cl(engine);
    const rt_pack_record *record = &engine->plan.packs[pack];
    rt_status status = rt_repack_get(engine, pack, block, false, &repacked, error);
    if (status != RT_OK) return status;
    cl_int code = cl->SetKernelArg(kernel, record->arg, sizeof(cl_mem), &repacked->object);
    if (code == CL_SUCCESS) code = cl->SetKernelArg(kernel, record->arg + 1, sizeof offset, &offset);
    return rt_opencl_check(error, "clSetKernelArg", code, (int32_t)record->step);
}

static rt_status arguments_set(rt_engine *engine, uint32_t step, uint32_t block, cl_kernel kernel, rt_error *error) {
    const rt_plan *plan = &engine->plan;
    const rt_step_record *record = &plan->steps[step];
    const rt_arg_record *args = rt_plan_step_args(plan, record);
    rt_status status = RT_OK;
    for (uint32_t i = 0; i < record->arg_count && status == RT_OK; i++) {
        status = argument_set(engine, step, kernel, i, &args[i], error);
    }
    for (uint32_t i = 0; i < plan->pack_count && status == RT_OK; i++) {
        bool other = block != 0 && plan->packs[i].step == step && plan->packs[i].block != block;
        if (other) status = weights_set(engine, i, block, kernel, error);
    }
    return status;
}

uint64_t rt_kernel_number(const rt_engine *engine, cl_kernel kernel, cl_uint property) {
    size_t value = 0;
    rt_engine_cl(engine)->GetKernelWorkGroupInfo(kernel, engine->device.opencl.device, property, sizeof value, &value,
                                                 NULL);
    return value;
}

static rt_status local_size_check(rt_engine *engine, uint32_t step, const rt_launch *launch, cl_kernel kernel,
                                  rt_error *error) {
    uint64_t limit = rt_kernel_number(engine, kernel, CL_KERNEL_WORK_GROUP_SIZE);
    uint64_t items = 1;
    for (uint32_t i = 0; i < launch->work_dim; i++) items = rt_product(items, launch->local_size[i]);
    if (limit == 0 || items <= limit) return RT_OK;
    rt_error_set(error, RT_UNSUPPORTED, "a work group of %llu items; the kernel's limit is %llu",
                 (unsigned long long)items, (unsigned long long)limit);
    if (error != NULL) error->step = (int32_t)step;
    return RT_UNSUPPORTED;
}

rt_status rt_launch_create(rt_engine *engine, uint32_t step, const rt_launch *launch, cl_kernel *kernel,
                           uint64_t *build_ns, rt_error *error) {
    cl_program program;
    cl_int code;
    uint32_t source = engine->plan.steps[step].program;
    *kernel = NULL;
    rt_status status = rt_program_get(engine, source, launch->options, &program, build_ns, error);
    if (status != RT_OK) {
        if (error != NULL) error->step = (int32_t)step;
        return status;
    }
    *kernel = rt_engine_cl(engine)->CreateKernel(program, launch->kernel, &code);
    status = rt_opencl_check(error, "clCreateKernel", code, (int32_t)step);
    if (status != RT_OK) return status;
    status = local_size_check(engine, step, launch, *kernel, error);
    if (status == RT_OK) status = arguments_set(engine, step, launch->block, *kernel, error);
    if (status == RT_OK) return RT_OK;
    rt_engine_cl(engine)->ReleaseKernel(*kernel);
    *kernel = NULL;
    return status;
}

static void launch_give_up(rt_engine *engine, uint32_t index, const rt_error *why) {
    rt_step *step = &engine->steps[index];
    step->tuned = false;
    step->launch = rt_launch_of_plan(engine, index);
    engine->tuned.used--;
    snprintf(engine->tuned.reason, sizeof engine->tuned.reason, "step %u refused its launch: %.180s", index,
             why->message);
}

rt_status rt_step_prepare(rt_engine *engine, uint32_t index, rt_error *error) {
    rt_step *step = &engine->steps[index];
    uint64_t build_ns;
    rt_error refused;
    if (step->kernel != NULL || engine->plan.steps[index].kind != RT_STEP_KIND_OPENCL) return RT_OK;
    if (step->tuned) {
        if (rt_launch_create(engine, index, &step->launch, &step->kernel, &build_ns, &refused) == RT_OK) return RT_OK;
        launch_give_up(engine, index, &refused);
    }
    return rt_launch_create(engine, index, &step->launch, &step->kernel, &build_ns, error);
}
