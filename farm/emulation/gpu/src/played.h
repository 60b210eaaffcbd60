/* The library that stands before another OpenCL driver and plays a mobile GPU.
 *
 * It is an ICD driver: its platforms and its device are objects of its own; contexts, queues, memory, programs, kernels
 * and events are those of the driver behind it, whose first word (cl_khr_icd: the dispatch table) is made to lead here.
 * The functions that it does not change are the driver's own.
 *
 * FARM_PLAYED_GPU names the profile, FARM_PLAYED_OPENCL the driver behind.
 */
#ifndef PLAYED_H
#define PLAYED_H

#include "opencl/opencl.h"

#include "profile.h"

/* Codes and names beside those that farmrt uses. */
enum {
    CL_MEM_OBJECT_ALLOCATION_FAILURE = -4,
    CL_OUT_OF_RESOURCES = -5,
    CL_INVALID_VALUE = -30,
    CL_INVALID_PLATFORM = -32,
    CL_INVALID_COMMAND_QUEUE = -36,
    CL_INVALID_IMAGE_FORMAT_DESCRIPTOR = -39,
    CL_INVALID_IMAGE_SIZE = -40,
    CL_INVALID_WORK_ITEM_SIZE = -55,
    CL_INVALID_OPERATION = -59,
    CL_INVALID_BUFFER_SIZE = -61,
    CL_INVALID_PROPERTY = -64,
    CL_PLATFORM_NOT_FOUND_KHR = -1001,
};

/* The part of an image's description that is checked. */
typedef struct {
    cl_uint type;
    size_t width, height, depth, array_size, row_pitch, slice_pitch;
    cl_uint mip_levels, samples;
    cl_mem buffer;
} played_image_desc;

/* X(index in the dispatch table, name, result, parameters): what is changed beside the functions that farmrt uses. */
#define PLAYED_MORE(X)                                                                                                \
    X(8, GetContextInfo, cl_int, (cl_context, cl_uint, size_t, void *, size_t *))                                     \
    X(10, RetainCommandQueue, cl_int, (cl_command_queue))                                                             \
    X(12, GetCommandQueueInfo, cl_int, (cl_command_queue, cl_uint, size_t, void *, size_t *))                         \
    X(17, RetainMemObject, cl_int, (cl_mem))                                                                          \
    X(28, RetainProgram, cl_int, (cl_program))                                                                        \
    X(36, RetainKernel, cl_int, (cl_kernel))                                                                          \
    X(41, WaitForEvents, cl_int, (cl_uint, const cl_event *))                                                         \
    X(43, RetainEvent, cl_int, (cl_event))                                                                            \
    X(50, EnqueueCopyBuffer, cl_int,                                                                                  \
      (cl_command_queue, cl_mem, cl_mem, size_t, size_t, size_t, cl_uint, const cl_event *, cl_event *))              \
    X(51, EnqueueReadImage, cl_int,                                                                                   \
      (cl_command_queue, cl_mem, cl_bool, const size_t *, const size_t *, size_t, size_t, void *, cl_uint,            \
       const cl_event *, cl_event *))                                                                                 \
    X(82, CreateSubBuffer, cl_mem, (cl_mem, cl_bitfield, cl_uint, const void *, cl_int *))                            \
    X(94, RetainDevice, cl_int, (cl_device_id))                                                                       \
    X(95, ReleaseDevice, cl_int, (cl_device_id))                                                                      \
    X(96, CreateImage, cl_mem,                                                                                        \
      (cl_context, cl_bitfield, const cl_image_format *, const played_image_desc *, void *, cl_int *))                \
    X(102, EnqueueFillBuffer, cl_int,                                                                                 \
      (cl_command_queue, cl_mem, const void *, size_t, size_t, size_t, cl_uint, const cl_event *, cl_event *))        \
    X(105, EnqueueMarkerWithWaitList, cl_int, (cl_command_queue, cl_uint, const cl_event *, cl_event *))              \
    X(123, CreateCommandQueueWithProperties, cl_command_queue,                                                        \
      (cl_context, cl_device_id, const cl_queue_properties *, cl_int *))

enum { PLAYED_TABLE = 136 /* entries up to OpenCL 2.0 */ };

typedef struct {
#define MEMBER(index, name, result, parameters) result(*name) parameters;
    RT_OPENCL_FUNCTIONS(MEMBER) PLAYED_MORE(MEMBER)
#undef MEMBER
} played_functions;

/* Our functions: `played_<Name>`. */
#define DECLARE(index, name, result, parameters) result played_##name parameters;
RT_OPENCL_FUNCTIONS(DECLARE)
PLAYED_MORE(DECLARE)
#undef DECLARE

/* What is played, and before what; filled once, before any platform is told. */
typedef struct {
    played_profile profile;
    char extensions[PLAYED_TEXT];
    played_functions real;
    cl_platform_id real_platform;
    cl_device_id real_device;
    void *table[PLAYED_TABLE];
    int context_number; /* of the last context that was made; those before a reset are lost */
    int lost_contexts; /* contexts up to this number were lost in a reset */
} played_state;

extern played_state played;

/* Our only device. */
cl_device_id played_device(void);

/* Whether a list of words has this one. */
int played_has_word(const char *list, const char *word);

/* A function of an extension that the driver behind need not have, by its name; NULL for any other. */
void *played_recording_function(const char *name);

/* Makes an object of the driver's ours; returns it. */
void *played_adopt(void *object);

/* Answers a query as OpenCL does. */
cl_int played_answer(const void *value, size_t size, size_t room, void *target, size_t *needed);

/* Stores a code where the caller wants one; returns NULL. */
void *played_refuse(cl_int *target, cl_int code);

/* The times of our own clock, in ns; it does not begin where the host's does. */
cl_ulong played_now_ns(void);

/* Retain and release of objects of which something is kept that begins with a count of references. `LAST` is done with
 * what is kept (`kept`) before it is forgotten. */
#define PLAYED_REFERENCES(Name, type, structure, LAST)            \
    cl_int played_Retain##Name(type object) {                     \
        structure *kept = played_object_find(object);             \
        if (kept != NULL) __atomic_add_fetch(&kept->references, 1, __ATOMIC_SEQ_CST); \
        return played.real.Retain##Name(object);                  \
    }                                                             \
    cl_int played_Release##Name(type object) {                    \
        structure *kept = played_object_find(object);             \
        if (kept != NULL && __atomic_sub_fetch(&kept->references, 1, __ATOMIC_SEQ_CST) == 0) { \
            LAST;                                                 \
            played_object_remove(object);                         \
        }                                                         \
        return played.real.Release##Name(object);                 \
    }

#endif
