/* Queues and events: when the played GPU would have begun and ended what it was given.
 *
 * It works in order, one command after the other, on one clock for all queues. A command begins when it was flushed and
 * all before it have ended.
 */
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "model.h"
#include "objects.h"
#include "played.h"
#include "programs.h"

enum { COMPLETE = 0, RUNNING = 1, QUEUED = 3, MARKER_US = 1 };

/* When a command runs; kept by its event, and by its queue until it is flushed. */
typedef struct command {
    struct command *next;
    int references;
    bool begun;
    cl_int failed; /* the code of a command that failed */
    cl_ulong queued_ns, start_ns, end_ns;
    double duration_ns;
    bool hangs;
} command;

/* A launch of a recording. Its arguments are those that the kernel has when it is enqueued, which is as a driver does it
 * where kernels keep theirs. */
typedef struct {
    cl_kernel kernel;
    cl_uint rank;
    bool has_offset, has_local;
    size_t offset[3], global[3], local[3];
} recorded_launch;

struct rt_cl_recording {
    cl_command_queue queue;
    size_t count;
    recorded_launch *launches;
};

typedef struct {
    int references;
    bool profiles, records;
    cl_recording recording; /* that takes launches now */
    int context_number;
    cl_int failed; /* what those who wait are told, once the queue is dead */
    command *first, **last; /* those not flushed */
} kept_queue;

typedef struct {
    int references;
    bool profiles;
    cl_command_queue queue;
    command *times;
} kept_event;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of all below, and of commands */
static cl_ulong free_ns; /* when the GPU has done all that it has begun */
static double busy_ns;   /* how long it has worked lately: what makes it hot */
static long launches;
static unsigned noise_state = 1;

/* --- the GPU's time --- */

static double noise(void) {
    noise_state = noise_state * 1664525u + 1013904223u;
    return ((double)(noise_state >> 8) / (1 << 23) - 1) * played.profile.noise_percent / 100;
}

/* How much longer everything takes: hot after so much work, and cool again after as much rest. */
static double heat(cl_ulong start_ns) {
    const double hot_ns = played.profile.hot_after_ms * 1e6;
    if (free_ns < start_ns) busy_ns = fmax(0, busy_ns - (double)(start_ns - free_ns));
    return hot_ns > 0 && busy_ns > hot_ns ? 100 / played.profile.hot_clock_percent : 1;
}

static void command_release(command *each) {
    if (each != NULL && --each->references == 0) free(each);
}

/* Lets one command run. */
static void command_begin(command *each, cl_ulong now_ns) {
    each->start_ns = free_ns > now_ns ? free_ns : now_ns;
    const double duration_ns = each->duration_ns * played.profile.slower * heat(each->start_ns) * (1 + noise());
    each->end_ns = free_ns = each->start_ns + (cl_ulong)fmax(1, duration_ns);
    busy_ns = fmin(busy_ns + duration_ns, 2e6 * played.profile.hot_after_ms);
    each->begun = true;
}

/* Lets all commands of a queue run; `lock` is held. */
static void queue_begin(kept_queue *queue) {
    const cl_ulong now_ns = played_now_ns();
    while (queue->first != NULL) {
        command *each = queue->first;
        queue->first = each->next;
        command_begin(each, now_ns);
        command_release(each);
    }
    queue->last = &queue->first;
}

static void flush(kept_queue *queue) {
    if (queue == NULL) return;
    pthread_mutex_lock(&lock);
    queue_begin(queue);
    pthread_mutex_unlock(&lock);
}

/* Waits until the host's clock is where the GPU's is. */
static void pace(cl_ulong until_ns) {
    cl_ulong now_ns = played_now_ns();
    if (played.profile.pace == 0 || now_ns >= until_ns) return;
    const cl_ulong left_ns = until_ns - now_ns;
    const struct timespec time = {(time_t)(left_ns / 1000000000u), (long)(left_ns % 1000000000u)};
    nanosleep(&time, NULL);
}

/* Flushes, and waits for the GPU; what a dead queue is told. */
static cl_int queue_wait(kept_queue *queue) {
    if (queue == NULL) return CL_SUCCESS;
    if (queue->profiles && played.profile.profiling == PLAYED_PROFILING_HANGS) {
        for (;;) pause();
    }
    flush(queue);
    pace(free_ns);
    return queue->failed;
}

/* --- queues --- */

/* CL_SUCCESS where a queue takes commands. */
static cl_int queue_check(const kept_queue *queue) {
    if (queue == NULL) return CL_INVALID_COMMAND_QUEUE;
    if (queue->context_number <= played.lost_contexts) return CL_OUT_OF_RESOURCES;
    return queue->failed != CL_SUCCESS ? CL_INVALID_COMMAND_QUEUE : CL_SUCCESS;
}

static cl_command_queue queue_make(cl_context context, cl_bitfield properties, cl_int *code) {
    const bool records = (properties & CL_QUEUE_RECORDABLE_QCOM) != 0;
    const bool known = played_has_word(played.extensions, "cl_qcom_recordable_queues");
    if (records && (!known || properties != CL_QUEUE_RECORDABLE_QCOM)) return played_refuse(code, CL_INVALID_VALUE);
    cl_command_queue made = played.real.CreateCommandQueue(context, played.real_device, properties & 2, code);
    kept_queue *kept = made != NULL ? played_object_add(played_adopt(made), sizeof *kept) : NULL;
    if (kept == NULL) return made;
    *kept = (kept_queue){.references = 1, .profiles = (properties & CL_QUEUE_PROFILING_ENABLE) != 0};
    kept->records = records;
    kept->context_number = played.context_number;
    kept->last = &kept->first;
    return made;
}

cl_command_queue played_CreateCommandQueue(cl_context context, cl_device_id device, cl_bitfield properties,
                                           cl_int *code) {
    (void)device;
    return queue_make(context, properties, code);
}

cl_command_queue played_CreateCommandQueueWithProperties(cl_context context, cl_device_id device,
                                                         const cl_queue_properties *properties, cl_int *code) {
    cl_bitfield wanted = 0;
    (void)device;
    for (; properties != NULL && properties[0] != 0; properties += 2) {
        if (properties[0] == CL_QUEUE_PROPERTIES) wanted = properties[1];
    }
    return queue_make(context, wanted, code);
}

PLAYED_REFERENCES(CommandQueue, cl_command_queue, kept_queue, flush(kept))

cl_int played_GetCommandQueueInfo(cl_command_queue queue, cl_uint property, size_t room, void *target,
                                  size_t *needed) {
    const cl_device_id own = played_device();
    if (property == 0x1091) return played_answer(&own, sizeof own, room, target, needed);
    return played.real.GetCommandQueueInfo(queue, property, room, target, needed);
}

cl_int played_Flush(cl_command_queue queue) {
    kept_queue *kept = played_object_find(queue);
    flush(kept);
    return played.real.Flush(queue);
}

cl_int played_Finish(cl_command_queue queue) {
    const cl_int code = played.real.Finish(queue);
    const cl_int own = queue_wait(played_object_find(queue));
    return own != CL_SUCCESS ? own : code;
}

/* --- commands --- */

/* Adds a command of this duration to a queue, and gives its event, if there is one, its times. */
static void command_add(cl_command_queue queue, double duration_ns, cl_int failed, cl_event *event) {
    kept_queue *of = played_object_find(queue);
    command *made = calloc(1, sizeof *made);
    if (of == NULL || made == NULL) {
        free(made);
        return;
    }
    const bool hangs = of->profiles && played.profile.profiling == PLAYED_PROFILING_HANGS;
    const bool slow = of->profiles && played.profile.profiling == PLAYED_PROFILING_SLOW;
    *made = (command){.references = 1, .failed = failed, .hangs = hangs, .queued_ns = played_now_ns()};
    made->duration_ns = duration_ns + (slow ? played.profile.launch_us * 1000 : 0);
    kept_event *kept = event != NULL ? played_object_add(played_adopt(*event), sizeof *kept) : NULL;
    pthread_mutex_lock(&lock);
    if (kept != NULL) *kept = (kept_event){1, of->profiles, queue, made};
    made->references += kept != NULL;
    *of->last = made;
    of->last = &made->next;
    if (played.profile.flush_needed == 0) queue_begin(of);
    pthread_mutex_unlock(&lock);
}

static double transfer_ns(double bytes) { return bytes / played.profile.memory_gb_s + MARKER_US * 1000; }

/* Counts a launch: the code that it fails with, where the profile says that this one does. */
static cl_int launch_count(kept_queue *queue) {
    const long number = __atomic_add_fetch(&launches, 1, __ATOMIC_SEQ_CST);
    if (played.profile.once[0] != '\0' && access(played.profile.once, F_OK) == 0) return CL_SUCCESS;
    if (number == (long)played.profile.resets_after_launches) {
        played.lost_contexts = played.context_number;
    } else if (number != (long)played.profile.dies_after_launches) {
        return CL_SUCCESS;
    }
    if (played.profile.once[0] != '\0') close(creat(played.profile.once, 0600));
    queue->failed = CL_OUT_OF_RESOURCES;
    return CL_OUT_OF_RESOURCES;
}

/* Enqueues a launch that takes so long before its kernel begins. */
static cl_int launch_add(cl_command_queue queue, double launch_us, cl_kernel kernel, cl_uint rank, const size_t *offset,
                         const size_t *global, const size_t *local, cl_uint count, const cl_event *wait,
                         cl_event *event) {
    size_t sizes[3] = {1, 1, 1}, group[3] = {1, 1, 1};
    kept_queue *of = played_object_find(queue);
    const size_t limit = played_kernel_limit(kernel);
    cl_int code = queue_check(of);
    for (cl_uint i = 0; i < rank && i < 3; i++) sizes[i] = global[i];
    for (cl_uint i = 0; i < rank && i < 3 && local != NULL; i++) group[i] = local[i];
    if (local == NULL) played_driver_local(&played.profile, limit, sizes, group);
    static const cl_int refusals[] = {CL_SUCCESS, CL_INVALID_WORK_GROUP_SIZE, CL_INVALID_WORK_ITEM_SIZE};
    if (code == CL_SUCCESS) code = refusals[played_local_refused(&played.profile, limit, sizes, group)];
    if (code == CL_SUCCESS && played_kernel_fails(kernel)) code = CL_OUT_OF_RESOURCES;
    if (code != CL_SUCCESS) return code;
    if (played.profile.mode == PLAYED_TIMING || played_kernel_is_wrong(kernel)) {
        code = played.real.EnqueueMarkerWithWaitList(queue, count, wait, event);
    } else {
        code = played.real.EnqueueNDRangeKernel(queue, kernel, rank, offset, global, local, count, wait, event);
    }
    if (code != CL_SUCCESS) return code;
    const played_work work = played_kernel_work(kernel);
    const double ns = played_launch_ns(&played.profile, &work, sizes, group) + launch_us * 1000;
    command_add(queue, ns, launch_count(of), event);
    return CL_SUCCESS;
}

static cl_int launch_record(cl_recording recording, cl_kernel kernel, cl_uint rank, const size_t *offset,
                            const size_t *global, const size_t *local, cl_event *event) {
    const size_t bytes = rank * sizeof *global;
    if (recording == NULL || event != NULL || rank > 3) return CL_INVALID_OPERATION;
    recorded_launch *grown = realloc(recording->launches, (recording->count + 1) * sizeof *grown);
    if (grown == NULL) return CL_OUT_OF_HOST_MEMORY;
    recording->launches = grown;
    recorded_launch *made = &grown[recording->count++];
    *made = (recorded_launch){.kernel = kernel, .rank = rank, .has_offset = offset != NULL, .has_local = local != NULL};
    memcpy(made->global, global, bytes);
    if (offset != NULL) memcpy(made->offset, offset, bytes);
    if (local != NULL) memcpy(made->local, local, bytes);
    return played_RetainKernel(kernel);
}

cl_int played_EnqueueNDRangeKernel(cl_command_queue queue, cl_kernel kernel, cl_uint rank, const size_t *offset,
                                   const size_t *global, const size_t *local, cl_uint count, const cl_event *wait,
                                   cl_event *event) {
    const kept_queue *of = played_object_find(queue);
    if (of != NULL && of->records) return launch_record(of->recording, kernel, rank, offset, global, local, event);
    return launch_add(queue, played.profile.launch_us, kernel, rank, offset, global, local, count, wait, event);
}

static cl_recording recording_new(cl_command_queue queue, cl_int *code) {
    kept_queue *of = played_object_find(queue);
    cl_recording made = of != NULL && of->records && of->recording == NULL ? calloc(1, sizeof *made) : NULL;
    if (made == NULL) return played_refuse(code, CL_INVALID_COMMAND_QUEUE);
    if (played.profile.recordings != 0) return free(made), played_refuse(code, CL_OUT_OF_RESOURCES);
    made->queue = queue;
    if (code != NULL) *code = CL_SUCCESS;
    return of->recording = made;
}

static cl_int recording_end(cl_recording recording) {
    kept_queue *of = played_object_find(recording->queue);
    if (of == NULL || of->recording != recording) return CL_INVALID_OPERATION;
    of->recording = NULL;
    return CL_SUCCESS;
}

static cl_int recording_release(cl_recording recording) {
    for (size_t i = 0; i < recording->count; i++) played_ReleaseKernel(recording->launches[i].kernel);
    free(recording->launches);
    free(recording);
    return CL_SUCCESS;
}

/* Without the changes of recorded launches that a real driver takes. */
static cl_int recording_enqueue(cl_command_queue queue, cl_recording recording, size_t arguments, const void *argument,
                                size_t offsets, const void *offset, size_t globals, const void *global, size_t locals,
                                const void *local, cl_uint count, const cl_event *wait, cl_event *event) {
    cl_int code = queue_check(played_object_find(queue));
    (void)argument, (void)offset, (void)global, (void)local;
    if (arguments + offsets + globals + locals > 0 || event != NULL) return CL_INVALID_OPERATION;
    for (size_t i = 0; i < recording->count && code == CL_SUCCESS; i++) {
        const recorded_launch *each = &recording->launches[i];
        const double us = played.profile.recorded_us + (i == 0 ? played.profile.recording_us : 0);
        code = launch_add(queue, us, each->kernel, each->rank, each->has_offset ? each->offset : NULL, each->global,
                          each->has_local ? each->local : NULL, i == 0 ? count : 0, i == 0 ? wait : NULL, NULL);
    }
    return code;
}

void *played_recording_function(const char *name) {
    static const rt_recording_functions own = {recording_new, recording_end, recording_release, recording_enqueue};
    static const char *const names[] = {"clNewRecordingQCOM", "clEndRecordingQCOM", "clReleaseRecordingQCOM",
                                        "clEnqueueRecordingQCOM"};
    const void *const slots[] = {&own.make, &own.end, &own.release, &own.enqueue};
    void *function = NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(name, names[i]) == 0) memcpy(&function, slots[i], sizeof function);
    }
    return function;
}

/* What the functions below have in common: a queue that is alive, the driver's own call, times, and waiting where the
 * caller does. */
#define ENQUEUE(bytes, blocking, call)                                  \
    cl_int code = queue_check(played_object_find(queue));               \
    if (code == CL_SUCCESS) code = call;                                \
    if (code != CL_SUCCESS) return code;                                \
    command_add(queue, transfer_ns((double)(bytes)), CL_SUCCESS, event); \
    return (blocking) ? queue_wait(played_object_find(queue)) : CL_SUCCESS

cl_int played_EnqueueReadBuffer(cl_command_queue queue, cl_mem object, cl_bool blocking, size_t offset, size_t size,
                                void *target, cl_uint count, const cl_event *wait, cl_event *event) {
    ENQUEUE(size, blocking,
            played.real.EnqueueReadBuffer(queue, object, blocking, offset, size, target, count, wait, event));
}

cl_int played_EnqueueWriteBuffer(cl_command_queue queue, cl_mem object, cl_bool blocking, size_t offset, size_t size,
                                 const void *source, cl_uint count, const cl_event *wait, cl_event *event) {
    ENQUEUE(size, blocking,
            played.real.EnqueueWriteBuffer(queue, object, blocking, offset, size, source, count, wait, event));
}

cl_int played_EnqueueCopyBuffer(cl_command_queue queue, cl_mem from, cl_mem to, size_t from_offset, size_t to_offset,
                                size_t size, cl_uint count, const cl_event *wait, cl_event *event) {
    ENQUEUE(2 * size, false,
            played.real.EnqueueCopyBuffer(queue, from, to, from_offset, to_offset, size, count, wait, event));
}

cl_int played_EnqueueFillBuffer(cl_command_queue queue, cl_mem object, const void *pattern, size_t pattern_size,
                                size_t offset, size_t size, cl_uint count, const cl_event *wait, cl_event *event) {
    ENQUEUE(size, false,
            played.real.EnqueueFillBuffer(queue, object, pattern, pattern_size, offset, size, count, wait, event));
}

cl_int played_EnqueueReadImage(cl_command_queue queue, cl_mem image, cl_bool blocking, const size_t *origin,
                               const size_t *region, size_t row_pitch, size_t slice_pitch, void *target,
                               cl_uint count, const cl_event *wait, cl_event *event) {
    ENQUEUE(region[0] * region[1] * 16, blocking,
            played.real.EnqueueReadImage(queue, image, blocking, origin, region, row_pitch, slice_pitch, target, count,
                                         wait, event));
}

cl_int played_EnqueueWriteImage(cl_command_queue queue, cl_mem image, cl_bool blocking, const size_t *origin,
                                const size_t *region, size_t row_pitch, size_t slice_pitch, const void *source,
                                cl_uint count, const cl_event *wait, cl_event *event) {
    ENQUEUE(region[0] * region[1] * 16, blocking,
            played.real.EnqueueWriteImage(queue, image, blocking, origin, region, row_pitch, slice_pitch, source, count,
                                          wait, event));
}

cl_int played_EnqueueMarkerWithWaitList(cl_command_queue queue, cl_uint count, const cl_event *wait,
                                        cl_event *event) {
    ENQUEUE(0, false, played.real.EnqueueMarkerWithWaitList(queue, count, wait, event));
}

cl_int played_EnqueueUnmapMemObject(cl_command_queue queue, cl_mem object, void *mapped, cl_uint count,
                                    const cl_event *wait, cl_event *event) {
    ENQUEUE(0, false, played.real.EnqueueUnmapMemObject(queue, object, mapped, count, wait, event));
}

/* A map of unified memory moves nothing. */
void *played_EnqueueMapBuffer(cl_command_queue queue, cl_mem object, cl_bool blocking, cl_bitfield flags,
                              size_t offset, size_t size, cl_uint count, const cl_event *wait, cl_event *event,
                              cl_int *code) {
    cl_int refused = queue_check(played_object_find(queue));
    if (refused != CL_SUCCESS) return played_refuse(code, refused);
    void *mapped =
        played.real.EnqueueMapBuffer(queue, object, blocking, flags, offset, size, count, wait, event, code);
    if (mapped == NULL) return NULL;
    command_add(queue, transfer_ns(0), CL_SUCCESS, event);
    refused = blocking ? queue_wait(played_object_find(queue)) : CL_SUCCESS;
    return refused != CL_SUCCESS ? played_refuse(code, refused) : mapped;
}

/* --- events --- */

static void times_release(kept_event *kept) {
    pthread_mutex_lock(&lock);
    command_release(kept->times);
    pthread_mutex_unlock(&lock);
}

PLAYED_REFERENCES(Event, cl_event, kept_event, times_release(kept))

cl_int played_WaitForEvents(cl_uint count, const cl_event *events) {
    cl_int failed = CL_SUCCESS;
    for (cl_uint i = 0; i < count; i++) {
        const kept_event *kept = played_object_find(events[i]);
        if (kept == NULL) continue;
        queue_wait(played_object_find(kept->queue));
        if (kept->times->failed != CL_SUCCESS) failed = -14;
    }
    const cl_int code = played.real.WaitForEvents(count, events);
    return failed != CL_SUCCESS ? failed : code;
}

/* What the event of a command says of it, where it is not what the driver behind says. */
static cl_int status_of(const command *each, cl_int real) {
    if (!each->begun) return QUEUED;
    if (each->hangs) return RUNNING;
    if (each->failed != CL_SUCCESS) return each->failed;
    const bool still = played.profile.pace != 0 && played_now_ns() < each->end_ns;
    return real == COMPLETE && still ? RUNNING : real;
}

cl_int played_GetEventInfo(cl_event event, cl_uint property, size_t room, void *target, size_t *needed) {
    const kept_event *kept = played_object_find(event);
    cl_int status = COMPLETE;
    if (kept == NULL || property != CL_EVENT_COMMAND_EXECUTION_STATUS) {
        return played.real.GetEventInfo(event, property, room, target, needed);
    }
    const cl_int code = played.real.GetEventInfo(event, property, sizeof status, &status, NULL);
    if (code != CL_SUCCESS) return code;
    status = status_of(kept->times, status);
    return played_answer(&status, sizeof status, room, target, needed);
}

/* A time as the GPU's clock tells it. */
static cl_ulong clock_ns(cl_ulong ns) {
    const cl_ulong step_ns = (cl_ulong)fmax(1, played.profile.timestamp_ns);
    return played.profile.timestamps == PLAYED_ZERO ? 0 : ns / step_ns * step_ns;
}

cl_int played_GetEventProfilingInfo(cl_event event, cl_uint property, size_t room, void *target, size_t *needed) {
    const kept_event *kept = played_object_find(event);
    if (kept == NULL || property < 0x1280 || property > 0x1283) {
        return played.real.GetEventProfilingInfo(event, property, room, target, needed);
    }
    const command *times = kept->times;
    if (!kept->profiles || !times->begun || times->hangs) return CL_PROFILING_INFO_NOT_AVAILABLE;
    const bool reversed = played.profile.timestamps == PLAYED_REVERSED;
    const bool end = (property == CL_PROFILING_COMMAND_END) != reversed;
    const cl_ulong ns = property < CL_PROFILING_COMMAND_START ? times->queued_ns : end ? times->end_ns : times->start_ns;
    const cl_ulong told = clock_ns(ns);
    return played_answer(&told, sizeof told, room, target, needed);
}
