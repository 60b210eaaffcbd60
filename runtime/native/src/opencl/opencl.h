/* The part of OpenCL 1.1 that farmrt uses, declared here since no header may be installed, and the library it comes
 * from.
 *
 * Names and numbers are those of the Khronos specification. The functions of a library are either looked up by name (a
 * loader, or a vendor's library) or taken from the dispatch table of an ICD driver opened directly (cl_khr_icd: every
 * object starts with a pointer to the table; the order of its entries is fixed).
 */
#ifndef RT_OPENCL_H
#define RT_OPENCL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../../include/farmrt.h"

typedef int32_t cl_int;
typedef uint32_t cl_uint;
typedef uint64_t cl_ulong;
typedef cl_uint cl_bool;
typedef cl_ulong cl_bitfield;
typedef cl_ulong cl_queue_properties;
typedef struct rt_cl_platform *cl_platform_id;
typedef struct rt_cl_device *cl_device_id;
typedef struct rt_cl_context *cl_context;
typedef struct rt_cl_queue *cl_command_queue;
typedef struct rt_cl_mem *cl_mem;
typedef struct rt_cl_program *cl_program;
typedef struct rt_cl_kernel *cl_kernel;
typedef struct rt_cl_event *cl_event;

/* As the specification lays it out. A value. */
typedef struct {
    cl_uint order, type;
} cl_image_format;

/* Callbacks, of which farmrt uses none: it passes NULL. */
typedef void cl_context_notify(const char *text, const void *info, size_t size, void *user);
typedef void cl_program_notify(cl_program program, void *user);

enum {
    CL_SUCCESS = 0,
    CL_DEVICE_NOT_FOUND = -1,
    CL_OUT_OF_HOST_MEMORY = -6,
    CL_PROFILING_INFO_NOT_AVAILABLE = -7,
    CL_BUILD_PROGRAM_FAILURE = -11,
    CL_INVALID_BINARY = -42,
    CL_INVALID_KERNEL_NAME = -46,
    CL_INVALID_WORK_GROUP_SIZE = -54,
};

enum {
    CL_PLATFORM_VERSION = 0x0901,
    CL_PLATFORM_NAME = 0x0902,
    CL_DEVICE_TYPE = 0x1000,
    CL_DEVICE_MAX_COMPUTE_UNITS = 0x1002,
    CL_DEVICE_MAX_WORK_ITEM_DIMENSIONS = 0x1003,
    CL_DEVICE_MAX_WORK_GROUP_SIZE = 0x1004,
    CL_DEVICE_MAX_WORK_ITEM_SIZES = 0x1005,
    CL_DEVICE_PREFERRED_VECTOR_WIDTH_FLOAT = 0x100A,
    CL_DEVICE_MAX_CLOCK_FREQUENCY = 0x100C,
    CL_DEVICE_MAX_MEM_ALLOC_SIZE = 0x1010,
    CL_DEVICE_IMAGE2D_MAX_WIDTH = 0x1011,
    CL_DEVICE_IMAGE2D_MAX_HEIGHT = 0x1012,
    CL_DEVICE_IMAGE_SUPPORT = 0x1016,
    CL_DEVICE_GLOBAL_MEM_SIZE = 0x101F,
    CL_DEVICE_LOCAL_MEM_SIZE = 0x1023,
    CL_DEVICE_PROFILING_TIMER_RESOLUTION = 0x1025,
    CL_DEVICE_NAME = 0x102B,
    CL_DEVICE_VENDOR = 0x102C,
    CL_DRIVER_VERSION = 0x102D,
    CL_DEVICE_VERSION = 0x102F,
    CL_DEVICE_EXTENSIONS = 0x1030,
    CL_DEVICE_HOST_UNIFIED_MEMORY = 0x1035,
    CL_MEM_OBJECT_IMAGE2D = 0x10F1,
    CL_RGBA = 0x10B5,
    CL_SIGNED_INT8 = 0x10D7,
    CL_HALF_FLOAT = 0x10DD,
    CL_FLOAT = 0x10DE,
    CL_PROGRAM_BINARY_SIZES = 0x1165,
    CL_PROGRAM_BINARIES = 0x1166,
    CL_PROGRAM_BUILD_LOG = 0x1183,
    CL_KERNEL_WORK_GROUP_SIZE = 0x11B0,
    CL_KERNEL_PREFERRED_WORK_GROUP_SIZE_MULTIPLE = 0x11B3,
    CL_EVENT_COMMAND_EXECUTION_STATUS = 0x11D3,
    CL_PROFILING_COMMAND_START = 0x1282,
    CL_PROFILING_COMMAND_END = 0x1283,
};

enum { CL_DEVICE_TYPE_CPU = 2, CL_DEVICE_TYPE_GPU = 4, CL_DEVICE_TYPE_ACCELERATOR = 8 };
#define CL_DEVICE_TYPE_ALL 0xFFFFFFFFu
enum { CL_QUEUE_PROFILING_ENABLE = 2, CL_QUEUE_PROPERTIES = 0x1093 };
enum { CL_MAP_READ = 1, CL_MAP_WRITE = 2 };
enum {
    CL_MEM_READ_WRITE = 1,
    CL_MEM_READ_ONLY = 4,
    CL_MEM_USE_HOST_PTR = 8,
    CL_MEM_COPY_HOST_PTR = 32,
};

/* X(index in the ICD dispatch table, name without `cl`, result, parameters) */
#define RT_OPENCL_FUNCTIONS(X)                                                                                         \
    X(0, GetPlatformIDs, cl_int, (cl_uint, cl_platform_id *, cl_uint *))                                               \
    X(1, GetPlatformInfo, cl_int, (cl_platform_id, cl_uint, size_t, void *, size_t *))                                 \
    X(2, GetDeviceIDs, cl_int, (cl_platform_id, cl_bitfield, cl_uint, cl_device_id *, cl_uint *))                      \
    X(3, GetDeviceInfo, cl_int, (cl_device_id, cl_uint, size_t, void *, size_t *))                                     \
    X(4, CreateContext, cl_context,                                                                                    \
      (const intptr_t *, cl_uint, const cl_device_id *, cl_context_notify *, void *, cl_int *))                        \
    X(7, ReleaseContext, cl_int, (cl_context))                                                                         \
    X(9, CreateCommandQueue, cl_command_queue, (cl_context, cl_device_id, cl_bitfield, cl_int *))                      \
    X(11, ReleaseCommandQueue, cl_int, (cl_command_queue))                                                             \
    X(14, CreateBuffer, cl_mem, (cl_context, cl_bitfield, size_t, void *, cl_int *))                                   \
    X(15, CreateImage2D, cl_mem,                                                                                       \
      (cl_context, cl_bitfield, const cl_image_format *, size_t, size_t, size_t, void *, cl_int *))                    \
    X(18, ReleaseMemObject, cl_int, (cl_mem))                                                                          \
    X(19, GetSupportedImageFormats, cl_int, (cl_context, cl_bitfield, cl_uint, cl_uint, cl_image_format *, cl_uint *)) \
    X(26, CreateProgramWithSource, cl_program, (cl_context, cl_uint, const char **, const size_t *, cl_int *))         \
    X(27, CreateProgramWithBinary, cl_program,                                                                         \
      (cl_context, cl_uint, const cl_device_id *, const size_t *, const unsigned char **, cl_int *, cl_int *))         \
    X(29, ReleaseProgram, cl_int, (cl_program))                                                                        \
    X(30, BuildProgram, cl_int,                                                                                        \
      (cl_program, cl_uint, const cl_device_id *, const char *, cl_program_notify *, void *))                          \
    X(32, GetProgramInfo, cl_int, (cl_program, cl_uint, size_t, void *, size_t *))                                     \
    X(33, GetProgramBuildInfo, cl_int, (cl_program, cl_device_id, cl_uint, size_t, void *, size_t *))                  \
    X(34, CreateKernel, cl_kernel, (cl_program, const char *, cl_int *))                                               \
    X(37, ReleaseKernel, cl_int, (cl_kernel))                                                                          \
    X(38, SetKernelArg, cl_int, (cl_kernel, cl_uint, size_t, const void *))                                            \
    X(40, GetKernelWorkGroupInfo, cl_int, (cl_kernel, cl_device_id, cl_uint, size_t, void *, size_t *))                \
    X(42, GetEventInfo, cl_int, (cl_event, cl_uint, size_t, void *, size_t *))                                         \
    X(44, ReleaseEvent, cl_int, (cl_event))                                                                            \
    X(45, GetEventProfilingInfo, cl_int, (cl_event, cl_uint, size_t, void *, size_t *))                                \
    X(46, Flush, cl_int, (cl_command_queue))                                                                           \
    X(47, Finish, cl_int, (cl_command_queue))                                                                          \
    X(48, EnqueueReadBuffer, cl_int,                                                                                   \
      (cl_command_queue, cl_mem, cl_bool, size_t, size_t, void *, cl_uint, const cl_event *, cl_event *))              \
    X(49, EnqueueWriteBuffer, cl_int,                                                                                  \
      (cl_command_queue, cl_mem, cl_bool, size_t, size_t, const void *, cl_uint, const cl_event *, cl_event *))        \
    X(52, EnqueueWriteImage, cl_int,                                                                                   \
      (cl_command_queue, cl_mem, cl_bool, const size_t *, const size_t *, size_t, size_t, const void *, cl_uint,       \
       const cl_event *, cl_event *))                                                                                  \
    X(56, EnqueueMapBuffer, void *,                                                                                    \
      (cl_command_queue, cl_mem, cl_bool, cl_bitfield, size_t, size_t, cl_uint, const cl_event *, cl_event *,          \
       cl_int *))                                                                                                      \
    X(58, EnqueueUnmapMemObject, cl_int, (cl_command_queue, cl_mem, void *, cl_uint, const cl_event *, cl_event *))    \
    X(59, EnqueueNDRangeKernel, cl_int,                                                                                \
      (cl_command_queue, cl_kernel, cl_uint, const size_t *, const size_t *, const size_t *, cl_uint,                  \
       const cl_event *, cl_event *))

/* The functions of a library. Written by opencl.c alone. */
typedef struct {
#define RT_OPENCL_MEMBER(index, name, result, parameters) result(*name) parameters;
    RT_OPENCL_FUNCTIONS(RT_OPENCL_MEMBER)
#undef RT_OPENCL_MEMBER
} rt_opencl_functions;

/* clCreateCommandQueueWithProperties of OpenCL 2.0, and its index in the ICD dispatch table. */
typedef cl_command_queue rt_queue_function(cl_context, cl_device_id, const cl_queue_properties *, cl_int *);
enum { RT_QUEUE_FUNCTION_INDEX = 123 };

/* Qualcomm's cl_qcom_recordable_queues: launches given to a queue made with this property alone are recorded. Names,
 * numbers and parameters are those of its cl_ext_qcom.h, where the pairs of a count and a list change arguments, offsets
 * and sizes of recorded launches. Written by opencl.c alone. */
#define CL_QUEUE_RECORDABLE_QCOM ((cl_bitfield)1 << 30)
typedef struct rt_cl_recording *cl_recording;
typedef struct {
    cl_recording (*make)(cl_command_queue, cl_int *);
    cl_int (*end)(cl_recording);
    cl_int (*release)(cl_recording);
    cl_int (*enqueue)(cl_command_queue, cl_recording, size_t, const void *, size_t, const void *, size_t, const void *,
                      size_t, const void *, cl_uint, const cl_event *, cl_event *); /* NULL: the library lacks one */
} rt_recording_functions;

/* A library and the device chosen from it. It owns nothing: a library stays open until the process ends, since drivers
 * do not survive being closed. Written by opencl.c alone. */
typedef struct {
    rt_opencl_functions cl;
    rt_queue_function *queue_with_properties; /* NULL where the platform is older than OpenCL 2.0 */
    rt_recording_functions recording;
    void *(*load)(const char *name);          /* Pixel's entry for functions; NULL in any other library */
    bool is_driver; /* opened as an ICD driver, not through a loader */
    char path[512];
    char searched[4096]; /* paths that were tried, each ended by a newline */
    cl_platform_id platform;
    cl_device_id device;
} rt_opencl;

/* Opens a library (NULL or empty: FARM_OPENCL, then the usual places) and chooses its device: the first GPU, else
 * accelerator, else CPU. RT_NO_OPENCL where there is none; `searched` tells the paths that were tried in either case.
 */
rt_status rt_opencl_open(rt_opencl *opencl, const char *library, rt_error *error);

/* `CL_OUT_OF_RESOURCES` for -5; `unknown` for others than the specification's. */
const char *rt_opencl_code_name(cl_int code);

/* RT_OK for CL_SUCCESS; else fills the error with the call, its code and the step (RT_NO_STEP: none), and returns
 * RT_OPENCL. */
rt_status rt_opencl_check(rt_error *error, const char *call, cl_int code, int32_t step);

#endif
