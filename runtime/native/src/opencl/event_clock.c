#include "event_clock.h"

#include <stddef.h>
#include <stdint.h>

#include "../system/clock.h"
#include "../system/errors.h"
#include "../system/log.h"

enum { MOMENT_NS = 200000 }; /* longer than the resolution of any clock that is of use */

static const uint64_t hang_ns = 2000000000;

/* Asks until an event is complete, since a wait could not be ended, or until that takes too long: `ends` is false then.
 * An error where it cannot be asked, or has failed. */
static rt_status completion_await(const rt_opencl_functions *cl, cl_event event, bool *ends, rt_error *error) {
    uint64_t start_ns = rt_clock_ns(), passed_ns = 0;
    cl_int state = 1, code = CL_SUCCESS;
    while (code == CL_SUCCESS && state > 0 && passed_ns < hang_ns) {
        if (passed_ns > MOMENT_NS) rt_clock_sleep_ms(1);
        passed_ns = rt_clock_ns() - start_ns;
        code = cl->GetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, NULL);
    }
    *ends = code != CL_SUCCESS || state <= 0;
    if (code != CL_SUCCESS) return rt_opencl_check(error, "clGetEventInfo", code, RT_NO_STEP);
    return rt_opencl_check(error, "clEnqueueWriteBuffer", state < 0 ? state : CL_SUCCESS, RT_NO_STEP);
}

/* When an event that is complete ended; a driver that does not tell it of writes has a clock like any other, until a
 * launch shows something else. */
static cl_int end_read(const rt_opencl_functions *cl, cl_event event, cl_ulong *end_ns) {
    cl_int code = cl->GetEventProfilingInfo(event, CL_PROFILING_COMMAND_END, sizeof *end_ns, end_ns, NULL);
    if (code != CL_PROFILING_INFO_NOT_AVAILABLE) return code;
    *end_ns = rt_clock_ns();
    return CL_SUCCESS;
}

/* Writes a word to the buffer and tells when that ended; false in `ends` where it does not. */
static rt_status written(const rt_opencl_functions *cl, cl_command_queue queue, cl_mem buffer, cl_ulong *end_ns,
                         bool *ends, rt_error *error) {
    static const uint32_t word = 0; /* a write that hangs may still be done one day */
    cl_event event = NULL;
    cl_int code = cl->EnqueueWriteBuffer(queue, buffer, 0, 0, sizeof word, &word, 0, NULL, &event);
    if (code != CL_SUCCESS) return rt_opencl_check(error, "clEnqueueWriteBuffer", code, RT_NO_STEP);
    rt_status status = rt_opencl_check(error, "clFlush", cl->Flush(queue), RT_NO_STEP);
    if (status == RT_OK) status = completion_await(cl, event, ends, error);
    if (!*ends) return RT_OK; /* the event is still in use */
    if (status == RT_OK) {
        status = rt_opencl_check(error, "clGetEventProfilingInfo", end_read(cl, event, end_ns), RT_NO_STEP);
    }
    cl->ReleaseEvent(event);
    return status;
}

static void moment_wait(void) {
    uint64_t start_ns = rt_clock_ns();
    while (rt_clock_ns() - start_ns < MOMENT_NS) continue;
}

rt_status rt_event_clock_read(rt_event_clock *clock, const rt_opencl_functions *cl, cl_context context,
                              cl_command_queue queue, rt_error *error) {
    cl_int code = CL_SUCCESS;
    cl_ulong first_ns = 0, second_ns = 0;
    bool ends = true;
    if (*clock != RT_EVENT_CLOCK_UNKNOWN) return RT_OK;
    cl_mem buffer = cl->CreateBuffer(context, CL_MEM_READ_WRITE, sizeof(uint32_t), NULL, &code);
    if (code != CL_SUCCESS) return rt_opencl_check(error, "clCreateBuffer", code, RT_NO_STEP);
    rt_status status = written(cl, queue, buffer, &first_ns, &ends, error);
    moment_wait();
    if (status == RT_OK && ends) status = written(cl, queue, buffer, &second_ns, &ends, error);
    if (status == RT_OK) *clock = second_ns == first_ns ? RT_EVENT_CLOCK_STANDS : RT_EVENT_CLOCK_RUNS;
    if (!ends) {
        *clock = RT_EVENT_CLOCK_HANGS;
        rt_log(RT_LOG_INFO, "the queue that profiles hangs: launches are timed by the host's clock");
        return status; /* the buffer is still in use */
    }
    cl->ReleaseMemObject(buffer);
    return status;
}
