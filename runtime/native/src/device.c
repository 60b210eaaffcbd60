#include "device.h"

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

static rt_status queue_create(const rt_device *device, cl_bitfield properties, cl_command_queue *queue,
                              rt_error *error) {
    cl_int code;
    const rt_opencl *opencl = &device->opencl;
    *queue = opencl->cl.CreateCommandQueue(device->context, opencl->device, properties, &code);
    return rt_opencl_check(error, "clCreateCommandQueue", code, RT_NO_STEP);
}

static rt_status context_create(rt_device *device, rt_error *error) {
    cl_int code;
    device->context = device->opencl.cl.CreateContext(NULL, 1, &device->opencl.device, NULL, NULL, &code);
    rt_status status = rt_opencl_check(error, "clCreateContext", code, RT_NO_STEP);
    if (status == RT_OK) status = queue_create(device, 0, &device->plain, error);
    if (status == RT_OK) status = queue_create(device, CL_QUEUE_PROFILING_ENABLE, &device->profiling, error);
    return status;
}

rt_status rt_device_open(rt_device *device, const char *library, rt_error *error) {
    memset(device, 0, sizeof *device);
    rt_status status = rt_opencl_open(&device->opencl, library, error);
    if (status != RT_OK) return status;
    rt_device_text(&device->opencl, CL_DEVICE_NAME, device->name, sizeof device->name);
    rt_device_text(&device->opencl, CL_DRIVER_VERSION, device->driver, sizeof device->driver);
    rt_device_text(&device->opencl, CL_DEVICE_VERSION, device->version, sizeof device->version);
    device->unified_memory = rt_device_number(&device->opencl, CL_DEVICE_HOST_UNIFIED_MEMORY) != 0;
    device->max_work_group_size = rt_device_number(&device->opencl, CL_DEVICE_MAX_WORK_GROUP_SIZE);
    device->max_allocation_bytes = rt_device_number(&device->opencl, CL_DEVICE_MAX_MEM_ALLOC_SIZE);
    status = context_create(device, error);
    if (status != RT_OK) rt_device_close(device);
    return status;
}

void rt_device_close(rt_device *device) {
    const rt_opencl_functions *cl = &device->opencl.cl;
    if (device->plain != NULL) cl->ReleaseCommandQueue(device->plain);
    if (device->profiling != NULL) cl->ReleaseCommandQueue(device->profiling);
    if (device->context != NULL) cl->ReleaseContext(device->context);
    device->plain = device->profiling = NULL;
    device->context = NULL;
}
