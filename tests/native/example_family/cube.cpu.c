/* cube: y[i] = scale * x[i]^3. The _check and _run functions keep the contract of rt_cpu_operator. */
#include <stddef.h>

#include "cpu_arguments.h"
#include "../../native/src/system/arithmetic.h"

enum { ELEMENTS_PER_TURN = 8192 };

static const char *cube_check(const rt_cpu_call *call, rt_cpu_needs *needs) {
    uint64_t count = (uint64_t)rt_cube_args_of(call).count;
    if (!rt_flat_fits(&call->tensors[RT_CUBE_X], count)) return "the input exceeds its pool";
    if (!rt_flat_fits(&call->tensors[RT_CUBE_Y], count)) return "the output exceeds its pool";
    needs->work = count;
    return NULL;
}

static void cube_turn(const void *context, uint32_t turn, uint32_t worker) {
    const rt_cpu_call *call = context;
    rt_cube_args d = rt_cube_args_of(call);
    const float *x = rt_floats(&call->tensors[RT_CUBE_X]);
    int64_t first = (int64_t)turn * ELEMENTS_PER_TURN, end = first + ELEMENTS_PER_TURN;
    (void)worker;
    for (int64_t i = first; i < d.count && i < end; i++) rt_floats(&call->tensors[RT_CUBE_Y])[i] = d.scale * x[i] * x[i] * x[i];
}

static void cube_run(const rt_cpu_call *call, rt_workers *workers) {
    uint64_t count = (uint64_t)rt_cube_args_of(call).count;
    rt_workers_run(workers, (uint32_t)rt_ceil_div(count, ELEMENTS_PER_TURN), cube_turn, call);
}

const rt_cpu_operator rt_cpu_cube = {RT_CUBE_ROW, .check = cube_check, .run = cube_run};
