/* The driver copies a launch's kernel arguments and sizes when it records it; a step's stay what they are once it is
 * prepared, so that a recording stays right as long as its plan is loaded.
 */
#include "recording.h"

#include <stddef.h>

#include "../system/allocation.h"
#include "../system/errors.h"
#include "../system/log.h"
#include "launch.h"

struct rt_recordings {
    const rt_device *device;
    uint32_t step_count;
    bool refused;
    cl_recording *table; /* of the row that begins at each step; NULL: none yet */
};

rt_status rt_recordings_create(rt_recordings **recordings, const rt_device *device, uint32_t step_count,
                               rt_error *error) {
    *recordings = NULL;
    if (device == NULL || device->recorder == NULL) return RT_OK;
    rt_recordings *made = *recordings = rt_memory_allocate(1, sizeof *made);
    if (made == NULL) return rt_error_no_memory(error, "recordings");
    made->device = device;
    made->step_count = step_count;
    made->table = rt_memory_allocate(step_count, sizeof *made->table);
    if (made->table != NULL) return RT_OK;
    rt_recordings_destroy(made);
    *recordings = NULL;
    return rt_error_no_memory(error, "recordings");
}

void rt_recordings_destroy(rt_recordings *recordings) {
    if (recordings == NULL) return;
    for (uint32_t i = 0; recordings->table != NULL && i < recordings->step_count; i++) {
        if (recordings->table[i] != NULL) recordings->device->opencl.recording.release(recordings->table[i]);
    }
    rt_memory_free(recordings->table);
    rt_memory_free(recordings);
}

/* Records launches in a row; the code of the first call that fails. */
static cl_int record(const rt_device *device, const rt_steps *steps, uint32_t first, uint32_t last,
                     cl_recording *recording) {
    const rt_recording_functions *own = &device->opencl.recording;
    const rt_queue queue = {rt_device_cl(device), device->recorder, NULL};
    rt_error error = {.code = CL_SUCCESS};
    cl_int code;
    *recording = own->make(device->recorder, &code);
    if (code != CL_SUCCESS) return *recording = NULL, code;
    for (uint32_t i = first; i <= last && error.code == CL_SUCCESS; i++) {
        rt_launch_enqueue(&queue, i, rt_steps_kernel(steps, i), rt_steps_launch(steps, i), 1, &error);
    }
    code = own->end(*recording);
    return error.code != CL_SUCCESS ? error.code : code;
}

bool rt_recordings_enqueue(rt_recordings *recordings, const rt_steps *steps, uint32_t first, uint32_t last) {
    const rt_device *device = recordings->device;
    cl_recording *own = &recordings->table[first];
    if (recordings->refused) return false;
    cl_int code = *own == NULL ? record(device, steps, first, last, own) : CL_SUCCESS;
    if (code == CL_SUCCESS) {
        code = device->opencl.recording.enqueue(device->plain, *own, 0, NULL, 0, NULL, 0, NULL, 0, NULL, 0, NULL, NULL);
    }
    recordings->refused = code != CL_SUCCESS;
    if (code != CL_SUCCESS) rt_log(RT_LOG_INFO, "the driver refuses a recording: %s", rt_opencl_code_name(code));
    return code == CL_SUCCESS;
}
