#include "event_clock.h"

#include <stddef.h>
#include <stdint.h>

#include "../system/clock.h"
#include "../system/errors.h"

enum { MOMENT_NS = 200000 }; /* longer than the resolution of any clock that is of use */

/* Writes a word to the buffer and tells when that ended, by the event; a driver that does not tell it of writes has a
 * clock like any other, until a launch shows something else. */
static rt_status written(const rt_opencl_functions *cl, cl_command_queue queue, cl_mem buffer, cl_ulong *end_ns,
                         rt_error *error) {
    const uint32_t word = 0;
    cl_event event = NULL;
    cl_int code = cl->EnqueueWriteBuffer(queue, buffer, 1, 0, sizeof word, &word, 0, NULL, &event);
    if (code != CL_SUCCESS) return rt_opencl_check(error, "clEnqueueWriteBuffer", code, RT_NO_STEP);
    code = cl->Finish(queue); /* a blocking write may return before its event is complete */
    if (code != CL_SUCCESS) {
        cl->ReleaseEvent(event);
        return rt_opencl_check(error, "clFinish", code, RT_NO_STEP);
    }
    code = cl->GetEventProfilingInfo(event, CL_PROFILING_COMMAND_END, sizeof *end_ns, end_ns, NULL);
    cl->ReleaseEvent(event);
    if (code == CL_PROFILING_INFO_NOT_AVAILABLE) {
        *end_ns = rt_clock_ns();
        return RT_OK;
    }
    return rt_opencl_check(error, "clGetEventProfilingInfo", code, RT_NO_STEP);
}

static void moment_wait(void) {
    uint64_t start_ns = rt_clock_ns();
    while (rt_clock_ns() - start_ns < MOMENT_NS) continue;
}

rt_status rt_event_clock_read(rt_event_clock *clock, const rt_opencl_functions *cl, cl_context context,
                              cl_command_queue queue, rt_error *error) {
    cl_int code = CL_SUCCESS;
    cl_ulong first_ns = 0, second_ns = 0;
    if (*clock != RT_EVENT_CLOCK_UNKNOWN) return RT_OK;
    cl_mem buffer = cl->CreateBuffer(context, CL_MEM_READ_WRITE, sizeof(uint32_t), NULL, &code);
    if (code != CL_SUCCESS) return rt_opencl_check(error, "clCreateBuffer", code, RT_NO_STEP);
    rt_status status = written(cl, queue, buffer, &first_ns, error);
    moment_wait();
    if (status == RT_OK) status = written(cl, queue, buffer, &second_ns, error);
    if (status == RT_OK) *clock = second_ns == first_ns ? RT_EVENT_CLOCK_STANDS : RT_EVENT_CLOCK_RUNS;
    cl->ReleaseMemObject(buffer);
    return status;
}
