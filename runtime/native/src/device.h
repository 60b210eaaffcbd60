/* One OpenCL device with its context and two in-order queues: without and with profiling. */
#ifndef RT_DEVICE_H
#define RT_DEVICE_H

#include "opencl.h"

typedef struct {
    rt_opencl opencl;
    cl_context context;
    cl_command_queue plain;
    cl_command_queue profiling;
    char name[256];
    char driver[256];
    char version[256]; /* OpenCL version of the device */
    bool unified_memory;
    uint64_t max_work_group_size;
    uint64_t max_allocation_bytes;
} rt_device;

/* On failure the device is left closed. */
rt_status rt_device_open(rt_device *device, const char *library, rt_error *error);
void rt_device_close(rt_device *device);

/* Properties as text, and as numbers of any width (0 where the driver does not know them). */
void rt_device_text(const rt_opencl *opencl, cl_uint property, char *text, size_t size);
void rt_platform_text(const rt_opencl *opencl, cl_uint property, char *text, size_t size);
uint64_t rt_device_number(const rt_opencl *opencl, cl_uint property);

#endif
