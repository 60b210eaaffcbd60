/* Two queues, because a queue that profiles costs time on some drivers: rounds that nobody times use the plain one.
 * Both are in order, so what is enqueued on one runs in the plan's order without events between steps.
 */
#include "device.h"

#include <stdio.h>
#include <string.h>

#include "../system/allocation.h"
#include "../system/arithmetic.h"
#include "../system/errors.h"
#include "../system/log.h"

void rt_device_text(const rt_opencl *opencl, cl_uint property, char *text, size_t size) {
    if (opencl->cl.GetDeviceInfo(opencl->device, property, size, text, NULL) != CL_SUCCESS) text[0] = '\0';
    text[size - 1] = '\0';
}

void rt_platform_text(const rt_opencl *opencl, cl_uint property, char *text, size_t size) {
    if (opencl->cl.GetPlatformInfo(opencl->platform, property, size, text, NULL) != CL_SUCCESS) text[0] = '\0';
    text[size - 1] = '\0';
}

uint64_t rt_device_number(const rt_opencl *opencl, cl_uint property) {
    uint64_t value = 0; /* little-endian: a narrower answer fills the low bytes */
    if (opencl->cl.GetDeviceInfo(opencl->device, property, sizeof value, &value, NULL) != CL_SUCCESS) return 0;
    return value;
}

/* GPUs of these makers run nothing of a queue before it is flushed, so that a GPU idles while the host enqueues. */
static uint32_t family_flush_every(const rt_opencl *opencl) {
    static const char *const makers[] = {"ARM", "Imagination"};
    char vendor[256];
    enum { LAUNCHES = 16 };
    rt_device_text(opencl, CL_DEVICE_VENDOR, vendor, sizeof vendor);
    for (size_t i = 0; i < RT_COUNT(makers); i++) {
        if (strncmp(vendor, makers[i], strlen(makers[i])) == 0) return LAUNCHES;
    }
    return RT_FLUSH_NEVER;
}

/* A CPU's memory is the host's; of a GPU somebody must have tried what becomes of memory that it is to share. */
static bool shares_memory(const rt_opencl *opencl, bool zero_copy) {
    bool is_cpu = rt_device_number(opencl, CL_DEVICE_TYPE) & CL_DEVICE_TYPE_CPU;
    return (is_cpu || zero_copy) && rt_device_number(opencl, CL_DEVICE_HOST_UNIFIED_MEMORY) != 0;
}

/* Whether the device lists the extension; a library may have the functions for other devices. */
static bool device_records(const rt_opencl *opencl) {
    enum { EXTENSIONS_BYTES = 1 << 14 };
    char *extensions = opencl->recording.enqueue != NULL ? rt_memory_allocate(EXTENSIONS_BYTES, 1) : NULL;
    if (extensions == NULL) return false;
    rt_device_text(opencl, CL_DEVICE_EXTENSIONS, extensions, EXTENSIONS_BYTES);
    bool listed = strstr(extensions, "cl_qcom_recordable_queues") != NULL;
    rt_memory_free(extensions);
    return listed;
}

/* A queue that takes launches into recordings; NULL where the driver has none. */
static cl_command_queue recorder_make(const rt_opencl *opencl, cl_context context) {
    const cl_queue_properties properties[] = {CL_QUEUE_PROPERTIES, CL_QUEUE_RECORDABLE_QCOM, 0};
    cl_int code = CL_SUCCESS;
    cl_command_queue made = NULL;
    if (!device_records(opencl)) return NULL;
    if (opencl->queue_with_properties != NULL) { /* some drivers take the property in this call alone */
        made = opencl->queue_with_properties(context, opencl->device, properties, &code);
    } else {
        made = opencl->cl.CreateCommandQueue(context, opencl->device, CL_QUEUE_RECORDABLE_QCOM, &code);
    }
    if (code == CL_SUCCESS) return made;
    rt_log(RT_LOG_INFO, "the driver makes no queue for recordings: %s", rt_opencl_code_name(code));
    return NULL;
}

/* Makes the context and both queues; RT_OPENCL. What it makes before it fails is left for rt_device_close. */
static rt_status context_create(rt_device *device, const rt_device_use *use, rt_error *error) {
    const rt_opencl *opencl = &device->opencl;
    cl_bitfield profiling = use->host_times ? 0 : CL_QUEUE_PROFILING_ENABLE; /* some drivers hang in such a queue */
    rt_status status = rt_hints_create(&device->hints, opencl, use->perf, use->priority, error);
    if (status == RT_OK) status = rt_hints_context(device->hints, opencl, &device->context, error);
    if (status == RT_OK) status = rt_hints_queue(device->hints, opencl, device->context, 0, &device->plain, error);
    if (status != RT_OK) return status;
    if (use->record) device->recorder = recorder_make(opencl, device->context);
    return rt_hints_queue(device->hints, opencl, device->context, profiling, &device->profiling, error);
}

rt_status rt_device_open(const rt_device **device, const rt_opencl *opencl, const rt_device_use *use, rt_error *error) {
    rt_device *made = rt_memory_allocate(1, sizeof *made);
    *device = NULL;
    if (made == NULL) return rt_error_no_memory(error, "a device");
    made->opencl = *opencl;
    made->event_clock = rt_memory_allocate(1, sizeof *made->event_clock);
    rt_device_text(opencl, CL_DEVICE_NAME, made->name, sizeof made->name);
    rt_device_text(opencl, CL_DRIVER_VERSION, made->driver, sizeof made->driver);
    rt_device_text(opencl, CL_DEVICE_VERSION, made->version, sizeof made->version);
    made->in_place = shares_memory(opencl, use->zero_copy);
    made->flush_every = use->flush_every ? use->flush_every : family_flush_every(opencl);
    made->max_allocation_bytes = rt_device_number(opencl, CL_DEVICE_MAX_MEM_ALLOC_SIZE);
    rt_status status = made->event_clock == NULL ? rt_error_no_memory(error, "a device")
                                                 : context_create(made, use, error);
    if (status == RT_OK && use->host_times) *made->event_clock = RT_EVENT_CLOCK_STANDS;
    if (status == RT_OK) {
        *device = made;
    } else {
        rt_device_close(made);
    }
    return status;
}

void rt_device_close(const rt_device *device) {
    if (device == NULL) return;
    const rt_opencl_functions *cl = rt_device_cl(device);
    if (device->plain != NULL) cl->ReleaseCommandQueue(device->plain);
    if (device->recorder != NULL) cl->ReleaseCommandQueue(device->recorder);
    bool hangs = device->event_clock != NULL && *device->event_clock == RT_EVENT_CLOCK_HANGS;
    if (device->profiling != NULL && !hangs) cl->ReleaseCommandQueue(device->profiling);
    if (device->context != NULL) cl->ReleaseContext(device->context);
    rt_hints_destroy(device->hints);
    rt_memory_free(device->event_clock);
    rt_memory_free((void *)(uintptr_t)device);
}

rt_status rt_device_check_memory(const rt_device *device, const char *call, cl_int code, const char *what,
                                 uint32_t index, uint64_t size, rt_error *error) {
    if (code == CL_SUCCESS) return RT_OK;
    rt_opencl_check(error, call, code, RT_NO_STEP);
    if (error != NULL) {
        snprintf(error->message, sizeof error->message, "%s: %s %u of %llu bytes: %s (%d); the device allows %llu",
                 call, what, index, (unsigned long long)size, rt_opencl_code_name(code), code,
                 (unsigned long long)device->max_allocation_bytes);
    }
    return RT_OPENCL;
}

rt_status rt_device_constant(const rt_device *device, const void *content, uint64_t size, bool keep_in_place,
                             cl_mem *object, rt_error *error) {
    const rt_opencl_functions *cl = rt_device_cl(device);
    void *host = (void *)(uintptr_t)content; /* OpenCL takes no pointer to const; a read-only object is not written */
    cl_int code = -1;                        /* any but CL_SUCCESS: nothing was made yet */
    *object = NULL;
    if (keep_in_place && device->in_place) {
        *object = cl->CreateBuffer(device->context, CL_MEM_READ_ONLY | CL_MEM_USE_HOST_PTR, size, host, &code);
    }
    if (code != CL_SUCCESS) { /* some drivers refuse to use the content in place */
        *object = cl->CreateBuffer(device->context, CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR, size, host, &code);
    }
    return rt_device_check_memory(device, "clCreateBuffer", code, "weights pool", 0, size, error);
}

uint64_t rt_device_kernel_number(const rt_device *device, cl_kernel kernel, cl_uint property) {
    size_t value = 0;
    rt_device_cl(device)->GetKernelWorkGroupInfo(kernel, device->opencl.device, property, sizeof value, &value, NULL);
    return value;
}
