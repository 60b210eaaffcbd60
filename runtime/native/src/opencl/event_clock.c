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

typedef struct {
    cl_ulong start_ns, end_ns;
} write_times;

/* The times of an event that is complete; a driver that does not tell them of writes has a clock like any other, until
 * a launch shows something else. */
static cl_int times_read(const rt_opencl_functions *cl, cl_event event, write_times *times) {
    const size_t size = sizeof(cl_ulong);
    cl_int code = cl->GetEventProfilingInfo(event, CL_PROFILING_COMMAND_START, size, &times->start_ns, NULL);
    if (code == CL_SUCCESS) {
        code = cl->GetEventProfilingInfo(event, CL_PROFILING_COMMAND_END, size, &times->end_ns, NULL);
    }
    if (code != CL_PROFILING_INFO_NOT_AVAILABLE) return code;
    times->start_ns = times->end_ns = rt_clock_ns();
    return CL_SUCCESS;
}

/* Writes a word to the buffer and tells when; false in `ends` where that does not end. */
static rt_status written(const rt_opencl_functions *cl, cl_command_queue queue, cl_mem buffer, write_times *times,
                         bool *ends, rt_error *error) {
    static const uint32_t word = 0; /* a write that hangs may still be done one day */
    cl_event event = NULL;
    cl_int code = cl->EnqueueWriteBuffer(queue, buffer, 0, 0, sizeof word, &word, 0, NULL, &event);
    if (code != CL_SUCCESS) return rt_opencl_check(error, "clEnqueueWriteBuffer", code, RT_NO_STEP);
    rt_status status = rt_opencl_check(error, "clFlush", cl->Flush(queue), RT_NO_STEP);
    if (status == RT_OK) status = completion_await(cl, event, ends, error);
    if (!*ends) return RT_OK; /* the event is still in use */
    if (status == RT_OK) {
        status = rt_opencl_check(error, "clGetEventProfilingInfo", times_read(cl, event, times), RT_NO_STEP);
    }
    cl->ReleaseEvent(event);
    return status;
}

static void moment_wait(void) {
    uint64_t start_ns = rt_clock_ns();
    while (rt_clock_ns() - start_ns < MOMENT_NS) continue;
}

/* Whether a clock tells times; a single end before its start is a slip. */
static bool is_running(const write_times *first, const write_times *second) {
    bool reversed = first->end_ns < first->start_ns && second->end_ns < second->start_ns;
    return second->end_ns != first->end_ns && !reversed;
}

rt_status rt_event_clock_read(rt_event_clock *clock, const rt_opencl_functions *cl, cl_context context,
                              cl_command_queue queue, rt_error *error) {
    cl_int code = CL_SUCCESS;
    write_times first = {0, 0}, second = {0, 0};
    bool ends = true;
    if (*clock != RT_EVENT_CLOCK_UNKNOWN) return RT_OK;
    cl_mem buffer = cl->CreateBuffer(context, CL_MEM_READ_WRITE, sizeof(uint32_t), NULL, &code);
    if (code != CL_SUCCESS) return rt_opencl_check(error, "clCreateBuffer", code, RT_NO_STEP);
    rt_status status = written(cl, queue, buffer, &first, &ends, error);
    moment_wait();
    if (status == RT_OK && ends) status = written(cl, queue, buffer, &second, &ends, error);
    if (status == RT_OK && ends) *clock = is_running(&first, &second) ? RT_EVENT_CLOCK_RUNS : RT_EVENT_CLOCK_STANDS;
    if (!ends) {
        *clock = RT_EVENT_CLOCK_HANGS;
        rt_log(RT_LOG_INFO, "the queue that profiles hangs: launches are timed by the host's clock");
        return status; /* the buffer is still in use */
    }
    cl->ReleaseMemObject(buffer);
    return status;
}
