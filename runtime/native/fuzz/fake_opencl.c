/* An OpenCL library for tests: keeps memory and programs, checks every range, launches nothing.
 *
 * FAKE_OPENCL_FAIL=CALL:N lets the N-th call of a function (from 1) fail with CL_OUT_OF_RESOURCES. A program whose
 * source or options have the word `refuse` is not built; one with the option -DHANG or -DCRASH hangs or crashes the
 * compiler. A build takes FAKE_OPENCL_BUILD_MS (0). Time is a counter; a launch takes FAKE_OPENCL_LAUNCH_NS (500) of it;
 * with FAKE_OPENCL_CLOCK=stands every event tells the same.
 *
 * With FAKE_OPENCL_BINARY_STATUS no program is made of a binary, which this is the status of, and the call succeeds.
 *
 * FAKE_OPENCL_EXTENSIONS are what the device lists, FAKE_OPENCL_VERSION the platform's version (1.1). A context or queue
 * with the property FAKE_OPENCL_REFUSE (hexadecimal) is refused. To the file FAKE_OPENCL_RECORD goes a line for each
 * context (`context 40c2=40c3`), queue (`queue 1093=2 1096=1`), build (`build -DA=1`) and launch (`launch 0,20 4,20`:
 * offset, global size).
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../src/system/arithmetic.h"
#include "../src/opencl/opencl.h"

#define EXPORT __attribute__((visibility("default")))

enum { FAILURE = -5, INVALID_VALUE = -30, INVALID_BUFFER_SIZE = -61 };
enum { MAX_BUFFER_BYTES = 1 << 26, BUILD_LOG = 0x1183 };

typedef struct {
    size_t size;
    uint8_t *content;
    int owns;
} memory;

typedef struct {
    char *text;
    size_t size;
} program;

static int a_platform, a_device, a_context, a_queue;
static uint64_t clock_ns;

/* Whether this call is the one that must fail. */
static int fails(const char *call) {
    static uint64_t calls;
    const char *wanted = getenv("FAKE_OPENCL_FAIL");
    size_t length = strlen(call);
    if (wanted == NULL || strncmp(wanted, call, length) != 0 || wanted[length] != ':') return 0;
    return ++calls == strtoull(wanted + length + 1, NULL, 10);
}

#define MAY_FAIL(call) \
    if (fails(call)) return FAILURE
#define MAY_FAIL_TO_CREATE(call, code)   \
    *(code) = fails(call) ? FAILURE : 0; \
    if (*(code) != 0) return NULL

static cl_int answer(const void *value, size_t size, size_t room, void *target, size_t *needed) {
    if (needed != NULL) *needed = size;
    if (target == NULL) return 0;
    if (room < size) return INVALID_VALUE;
    memcpy(target, value, size);
    return 0;
}

static cl_int answer_text(const char *text, size_t room, void *target, size_t *needed) {
    return answer(text, strlen(text) + 1, room, target, needed);
}

/* --- what was asked for --- */

static const char *setting(const char *name, const char *fallback) {
    const char *value = getenv(name);
    return value ? value : fallback;
}

/* The file for records, at its end; NULL where none is wanted. */
static FILE *record_open(const char *what) {
    const char *path = getenv("FAKE_OPENCL_RECORD");
    FILE *file = path ? fopen(path, "a") : NULL;
    if (file != NULL) fprintf(file, "%s", what);
    return file;
}

static void record_close(FILE *file) {
    if (file == NULL) return;
    fprintf(file, "\n");
    fclose(file);
}

/* Records pairs of property and value up to a 0; returns whether one of them is to be refused. */
static int properties_refused(const char *what, const int64_t *pairs) {
    const char *text = getenv("FAKE_OPENCL_REFUSE");
    const int64_t refused = text ? (int64_t)strtoull(text, NULL, 16) : 0;
    int found = 0;
    FILE *file = record_open(what);
    for (; pairs != NULL && pairs[0] != 0; pairs += 2) {
        if (file != NULL) fprintf(file, " %llx=%llx", (unsigned long long)pairs[0], (unsigned long long)pairs[1]);
        found = found || pairs[0] == refused;
    }
    record_close(file);
    return found;
}

static void sizes_record(FILE *file, const size_t *sizes, cl_uint rank) {
    for (cl_uint i = 0; i < rank; i++) fprintf(file, "%c%zu", i ? ',' : ' ', sizes ? sizes[i] : 0);
}

static void launch_record(const size_t *offset, const size_t *global, cl_uint rank) {
    FILE *file = record_open("launch");
    if (file == NULL) return;
    sizes_record(file, offset, rank);
    sizes_record(file, global, rank);
    record_close(file);
}

/* --- platform and device --- */

EXPORT cl_int clGetPlatformIDs(cl_uint room, cl_platform_id *platforms, cl_uint *count) {
    MAY_FAIL("clGetPlatformIDs");
    if (room > 0) platforms[0] = (cl_platform_id)(void *)&a_platform;
    *count = 1;
    return 0;
}

EXPORT cl_int clGetPlatformInfo(cl_platform_id platform, cl_uint property, size_t room, void *target, size_t *needed) {
    char version[64];
    (void)platform;
    snprintf(version, sizeof version, "OpenCL %s Fake", setting("FAKE_OPENCL_VERSION", "1.1"));
    return answer_text(property == CL_PLATFORM_NAME ? "Fake" : version, room, target, needed);
}

EXPORT cl_int clGetDeviceIDs(cl_platform_id platform, cl_bitfield type, cl_uint room, cl_device_id *devices,
                             cl_uint *count) {
    (void)platform;
    MAY_FAIL("clGetDeviceIDs");
    if (!(type & CL_DEVICE_TYPE_GPU)) return CL_DEVICE_NOT_FOUND;
    if (room > 0) devices[0] = (cl_device_id)(void *)&a_device;
    *count = 1;
    return 0;
}

EXPORT cl_int clGetDeviceInfo(cl_device_id device, cl_uint property, size_t room, void *target, size_t *needed) {
    (void)device;
    const size_t sizes[3] = {1024, 1024, 64};
    cl_ulong number = property == CL_DEVICE_TYPE                 ? CL_DEVICE_TYPE_GPU
                      : property == CL_DEVICE_MAX_MEM_ALLOC_SIZE ? MAX_BUFFER_BYTES
                                                                 : 1024;
    switch (property) {
        case CL_DEVICE_NAME: return answer_text("Fake GPU", room, target, needed);
        case CL_DEVICE_VENDOR: return answer_text("Nobody", room, target, needed);
        case CL_DRIVER_VERSION: return answer_text("1.0", room, target, needed);
        case CL_DEVICE_VERSION: return answer_text("OpenCL 1.1 Fake", room, target, needed);
        case CL_DEVICE_EXTENSIONS:
            return answer_text(setting("FAKE_OPENCL_EXTENSIONS", "cl_khr_fp16 cl_fake"), room, target, needed);
        case CL_DEVICE_MAX_WORK_ITEM_SIZES: return answer(sizes, sizeof sizes, room, target, needed);
        default: return answer(&number, sizeof number, room, target, needed);
    }
}

EXPORT cl_context clCreateContext(const intptr_t *properties, cl_uint count, const cl_device_id *devices,
                                  cl_context_notify *notify, void *user, cl_int *code) {
    (void)count, (void)devices, (void)notify, (void)user;
    MAY_FAIL_TO_CREATE("clCreateContext", code);
    if (properties_refused("context", (const int64_t *)properties)) return *code = INVALID_VALUE, NULL;
    return (cl_context)(void *)&a_context;
}

EXPORT cl_int clReleaseContext(cl_context context) { return (void)context, 0; }

EXPORT cl_command_queue clCreateCommandQueue(cl_context context, cl_device_id device, cl_bitfield properties,
                                             cl_int *code) {
    const int64_t pairs[] = {CL_QUEUE_PROPERTIES, (int64_t)properties, 0};
    (void)context, (void)device;
    MAY_FAIL_TO_CREATE("clCreateCommandQueue", code);
    properties_refused("queue", pairs);
    return (cl_command_queue)(void *)&a_queue;
}

EXPORT cl_command_queue clCreateCommandQueueWithProperties(cl_context context, cl_device_id device,
                                                           const cl_queue_properties *properties, cl_int *code) {
    (void)context, (void)device;
    MAY_FAIL_TO_CREATE("clCreateCommandQueueWithProperties", code);
    if (properties_refused("queue", (const int64_t *)properties)) return *code = INVALID_VALUE, NULL;
    return (cl_command_queue)(void *)&a_queue;
}

EXPORT cl_int clReleaseCommandQueue(cl_command_queue queue) { return (void)queue, 0; }

EXPORT cl_int clGetSupportedImageFormats(cl_context context, cl_bitfield flags, cl_uint type, cl_uint room,
                                         cl_image_format *formats, cl_uint *count) {
    (void)context, (void)flags, (void)type;
    if (room > 0) formats[0] = (cl_image_format){CL_RGBA, CL_HALF_FLOAT};
    *count = 1;
    return 0;
}

/* --- memory --- */

static cl_mem memory_create(cl_bitfield flags, uint64_t size, void *host, cl_int *code) {
    memory *made = calloc(1, sizeof *made);
    if (made == NULL || size == 0 || size > MAX_BUFFER_BYTES) {
        free(made);
        *code = INVALID_BUFFER_SIZE;
        return NULL;
    }
    made->size = (size_t)size;
    made->owns = !(flags & CL_MEM_USE_HOST_PTR);
    made->content = made->owns ? calloc(1, made->size) : host;
    if (flags & CL_MEM_COPY_HOST_PTR) memcpy(made->content, host, made->size);
    return (cl_mem)(void *)made;
}

EXPORT cl_mem clCreateBuffer(cl_context context, cl_bitfield flags, size_t size, void *host, cl_int *code) {
    (void)context;
    MAY_FAIL_TO_CREATE("clCreateBuffer", code);
    return memory_create(flags, size, host, code);
}

static uint64_t pixel_bytes(const cl_image_format *format) {
    return format->type == CL_FLOAT ? 16 : format->type == CL_HALF_FLOAT ? 8 : 4;
}

EXPORT cl_mem clCreateImage2D(cl_context context, cl_bitfield flags, const cl_image_format *format, size_t width,
                              size_t height, size_t pitch, void *host, cl_int *code) {
    (void)context, (void)pitch;
    MAY_FAIL_TO_CREATE("clCreateImage2D", code);
    return memory_create(flags, rt_product(rt_product(width, height), pixel_bytes(format)), host, code);
}

EXPORT cl_int clReleaseMemObject(cl_mem object) {
    memory *own = (memory *)(void *)object;
    if (own->owns) free(own->content);
    free(own);
    return 0;
}

static int inside(const memory *object, size_t offset, size_t size) {
    return offset <= object->size && size <= object->size - offset;
}

static cl_ulong launch_ns(void) { return strtoull(setting("FAKE_OPENCL_LAUNCH_NS", "500"), NULL, 10); }

static cl_int event_create(cl_event *event) {
    if (event == NULL) return 0;
    uint64_t *made = calloc(1, sizeof *made);
    if (made == NULL) return FAILURE;
    if (strcmp(setting("FAKE_OPENCL_CLOCK", ""), "stands") != 0) clock_ns += launch_ns() + 500;
    *made = clock_ns;
    *event = (cl_event)(void *)made;
    return 0;
}

EXPORT cl_int clEnqueueReadBuffer(cl_command_queue queue, cl_mem object, cl_bool blocking, size_t offset, size_t size,
                                  void *target, cl_uint count, const cl_event *wait, cl_event *event) {
    (void)queue, (void)blocking, (void)count, (void)wait, (void)event;
    memory *own = (memory *)(void *)object;
    MAY_FAIL("clEnqueueReadBuffer");
    if (!inside(own, offset, size)) return INVALID_VALUE;
    memcpy(target, own->content + offset, size);
    return 0;
}

EXPORT cl_int clEnqueueWriteBuffer(cl_command_queue queue, cl_mem object, cl_bool blocking, size_t offset, size_t size,
                                   const void *source, cl_uint count, const cl_event *wait, cl_event *event) {
    (void)queue, (void)blocking, (void)count, (void)wait;
    memory *own = (memory *)(void *)object;
    MAY_FAIL("clEnqueueWriteBuffer");
    if (!inside(own, offset, size)) return INVALID_VALUE;
    memcpy(own->content + offset, source, size);
    return event_create(event);
}

EXPORT cl_int clEnqueueWriteImage(cl_command_queue queue, cl_mem image, cl_bool blocking, const size_t *origin,
                                  const size_t *region, size_t row_pitch, size_t slice_pitch, const void *source,
                                  cl_uint count, const cl_event *wait, cl_event *event) {
    (void)queue, (void)image, (void)blocking, (void)origin, (void)region, (void)row_pitch, (void)slice_pitch;
    (void)source, (void)count, (void)wait, (void)event;
    MAY_FAIL("clEnqueueWriteImage");
    return 0;
}

EXPORT void *clEnqueueMapBuffer(cl_command_queue queue, cl_mem object, cl_bool blocking, cl_bitfield flags,
                                size_t offset, size_t size, cl_uint count, const cl_event *wait, cl_event *event,
                                cl_int *code) {
    (void)queue, (void)blocking, (void)flags, (void)count, (void)wait;
    memory *own = (memory *)(void *)object;
    MAY_FAIL_TO_CREATE("clEnqueueMapBuffer", code);
    if (!inside(own, offset, size)) return *code = INVALID_VALUE, NULL;
    *code = event_create(event);
    return own->content + offset;
}

EXPORT cl_int clEnqueueUnmapMemObject(cl_command_queue queue, cl_mem object, void *mapped, cl_uint count,
                                      const cl_event *wait, cl_event *event) {
    (void)queue, (void)object, (void)mapped, (void)count, (void)wait;
    MAY_FAIL("clEnqueueUnmapMemObject");
    return event_create(event);
}

/* --- programs and kernels --- */

static cl_program program_create(const char *text, size_t size) {
    program *made = calloc(1, sizeof *made);
    if (made == NULL) return NULL;
    made->text = calloc(1, size + 1);
    made->size = size;
    if (made->text != NULL) memcpy(made->text, text, size);
    return (cl_program)(void *)made;
}

EXPORT cl_program clCreateProgramWithSource(cl_context context, cl_uint count, const char **texts, const size_t *sizes,
                                            cl_int *code) {
    (void)context, (void)count, (void)sizes;
    MAY_FAIL_TO_CREATE("clCreateProgramWithSource", code);
    return program_create(texts[0], strlen(texts[0]));
}

EXPORT cl_program clCreateProgramWithBinary(cl_context context, cl_uint count, const cl_device_id *devices,
                                            const size_t *sizes, const unsigned char **binaries, cl_int *status,
                                            cl_int *code) {
    (void)context, (void)count, (void)devices;
    MAY_FAIL_TO_CREATE("clCreateProgramWithBinary", code);
    const char *refusal = getenv("FAKE_OPENCL_BINARY_STATUS");
    *status = (cl_int)strtol(refusal ? refusal : "0", NULL, 10);
    return refusal ? NULL : program_create((const char *)binaries[0], sizes[0]);
}

EXPORT cl_int clReleaseProgram(cl_program object) {
    program *own = (program *)(void *)object;
    free(own->text);
    free(own);
    return 0;
}

static void build_record(const char *options) {
    FILE *file = record_open("build ");
    if (file == NULL) return;
    fprintf(file, "%s", options ? options : "");
    record_close(file);
}

/* What the compiler does of a program's options beside building it. */
static void build_behave(const char *options) {
    const long build_ms = strtol(setting("FAKE_OPENCL_BUILD_MS", "0"), NULL, 10);
    const struct timespec time = {build_ms / 1000, build_ms % 1000 * 1000000};
    if (options != NULL && strstr(options, "-DCRASH")) _exit(139); /* whatever a process dies of */
    while (options != NULL && strstr(options, "-DHANG")) pause();
    nanosleep(&time, NULL);
}

EXPORT cl_int clBuildProgram(cl_program object, cl_uint count, const cl_device_id *devices, const char *options,
                             cl_program_notify *notify, void *user) {
    (void)count, (void)devices, (void)notify, (void)user;
    MAY_FAIL("clBuildProgram");
    build_record(options);
    build_behave(options);
    if (options != NULL && strstr(options, "refuse")) return CL_BUILD_PROGRAM_FAILURE;
    return strstr(((program *)(void *)object)->text, "refuse") ? CL_BUILD_PROGRAM_FAILURE : 0;
}

EXPORT cl_int clGetProgramInfo(cl_program object, cl_uint property, size_t room, void *target, size_t *needed) {
    program *own = (program *)(void *)object;
    MAY_FAIL("clGetProgramInfo");
    if (property == CL_PROGRAM_BINARY_SIZES) return answer(&own->size, sizeof own->size, room, target, needed);
    memcpy(*(uint8_t **)target, own->text, own->size);
    return 0;
}

EXPORT cl_int clGetProgramBuildInfo(cl_program object, cl_device_id device, cl_uint property, size_t room, void *target,
                                    size_t *needed) {
    (void)object, (void)device;
    return property == BUILD_LOG ? answer_text("refused\n", room, target, needed) : INVALID_VALUE;
}

EXPORT cl_kernel clCreateKernel(cl_program object, const char *name, cl_int *code) {
    (void)object;
    MAY_FAIL_TO_CREATE("clCreateKernel", code);
    return (cl_kernel)(void *)calloc(1, strlen(name) + 1);
}

EXPORT cl_int clReleaseKernel(cl_kernel kernel) { return free((void *)kernel), 0; }

EXPORT cl_int clSetKernelArg(cl_kernel kernel, cl_uint index, size_t size, const void *value) {
    (void)kernel, (void)index;
    MAY_FAIL("clSetKernelArg");
    uint8_t copy[16];
    if (value != NULL && size <= sizeof copy) memcpy(copy, value, size);
    return 0;
}

EXPORT cl_int clGetKernelWorkGroupInfo(cl_kernel kernel, cl_device_id device, cl_uint property, size_t room,
                                       void *target, size_t *needed) {
    (void)kernel, (void)device;
    const size_t number = property == CL_KERNEL_WORK_GROUP_SIZE ? 256 : 32;
    return answer(&number, sizeof number, room, target, needed);
}

EXPORT cl_int clEnqueueNDRangeKernel(cl_command_queue queue, cl_kernel kernel, cl_uint rank, const size_t *offset,
                                     const size_t *global, const size_t *local, cl_uint count, const cl_event *wait,
                                     cl_event *event) {
    (void)queue, (void)kernel, (void)count, (void)wait;
    MAY_FAIL("clEnqueueNDRangeKernel");
    launch_record(offset, global, rank);
    for (cl_uint i = 0; i < rank; i++) {
        if (global[i] == 0 || (local != NULL && global[i] % local[i] != 0)) return CL_INVALID_WORK_GROUP_SIZE;
    }
    return event_create(event);
}

/* --- events and queues --- */

EXPORT cl_int clGetEventInfo(cl_event event, cl_uint property, size_t room, void *target, size_t *needed) {
    (void)event, (void)property;
    const cl_int complete = fails("clGetEventInfo") ? FAILURE : 0;
    return answer(&complete, sizeof complete, room, target, needed);
}

EXPORT cl_int clReleaseEvent(cl_event event) { return free((void *)event), 0; }

EXPORT cl_int clGetEventProfilingInfo(cl_event event, cl_uint property, size_t room, void *target, size_t *needed) {
    MAY_FAIL("clGetEventProfilingInfo");
    const cl_ulong time_ns = *(uint64_t *)(void *)event + (property == CL_PROFILING_COMMAND_END ? launch_ns() : 0);
    return answer(&time_ns, sizeof time_ns, room, target, needed);
}

EXPORT cl_int clFlush(cl_command_queue queue) { return (void)queue, 0; }

EXPORT cl_int clFinish(cl_command_queue queue) {
    (void)queue;
    MAY_FAIL("clFinish");
    return 0;
}
