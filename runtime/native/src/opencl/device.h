/* One OpenCL device with its context and two in-order queues: without and with profiling.
 *
 * State: the rt_device, with all that must be released. Others hold it as pointer to const and call its functions
 * through rt_device_cl; one thread at a time.
 */
#ifndef RT_DEVICE_H
#define RT_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../../include/farmrt.h"
#include "../system/hints.h"
#include "event_clock.h"
#include "opencl.h"

/* How a device is to be used; the members mean what those of rt_options do. A value. */
typedef struct {
    rt_hint perf, priority;
    uint32_t flush_every;
    bool zero_copy, host_times, record;
} rt_device_use;

/* An open device. Written by device.c alone. */
typedef struct {
    rt_opencl opencl;
    rt_hints *hints;
    cl_context context;
    cl_command_queue plain;
    cl_command_queue profiling;
    cl_command_queue recorder; /* for recordings; NULL: nobody wants some, or the driver has none */
    rt_event_clock *event_clock; /* of the queue that profiles; it is not asked before a profile is made */
    char name[256];
    char driver[256];
    char version[256]; /* OpenCL version of the device */
    bool in_place;        /* weights are used where the host has them */
    uint32_t flush_every; /* launches; RT_FLUSH_NEVER: never */
    uint64_t max_allocation_bytes;
} rt_device;

/* Makes a context and queues for the device of an open library, which is copied, with hints as far as the driver takes
 * them. For rt_device_close. RT_OPENCL where the driver refuses, RT_NO_MEMORY; `*device` is NULL then. */
rt_status rt_device_open(const rt_device **device, const rt_opencl *opencl, const rt_device_use *use, rt_error *error);

/* Releases queues and context; every object made with them must be released before. NULL is ignored. */
void rt_device_close(const rt_device *device);

/* The functions of its library. */
static inline const rt_opencl_functions *rt_device_cl(const rt_device *device) { return &device->opencl.cl; }

/* A read-only memory object with these contents, for ReleaseMemObject. With `keep_in_place` a device that is trusted to
 * uses the content where it lies, which must then outlive the object; else it is copied. RT_OPENCL names
 * the size and what the device allows. */
rt_status rt_device_constant(const rt_device *device, const void *content, uint64_t size, bool keep_in_place,
                             cl_mem *object, rt_error *error);

/* RT_OK for CL_SUCCESS; else RT_OPENCL, with what was to be made, its index and size, and what the device allows. */
rt_status rt_device_check_memory(const rt_device *device, const char *call, cl_int code, const char *what,
                                 uint32_t index, uint64_t size, rt_error *error);

/* A number that the driver knows of a kernel on this device (CL_KERNEL_...), 0 where it does not tell. */
uint64_t rt_device_kernel_number(const rt_device *device, cl_kernel kernel, cl_uint property);

/* A property of a device or its platform as text, cut to `size`; empty where the driver does not know it. */
void rt_device_text(const rt_opencl *opencl, cl_uint property, char *text, size_t size);
void rt_platform_text(const rt_opencl *opencl, cl_uint property, char *text, size_t size);

/* A property as number, however wide the driver's answer is; 0 where it does not know it. */
uint64_t rt_device_number(const rt_opencl *opencl, cl_uint property);

#endif
