/* One kernel serves all: each work item turns a word of one buffer so often and writes it to another, so that the host
 * knows what must come out, and how long it takes is chosen by the number of turns.
 */
#include "examine.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "../system/allocation.h"
#include "../system/arithmetic.h"
#include "../system/clock.h"
#include "../system/errors.h"
#include "../system/file.h"
#include "../system/topology.h"
#include "device.h"

static const char source[] =
    "__kernel void examine(__global const uint *from, __global uint *to, const int count, const int turns) {\n"
    "    const int line = get_global_id(1) + get_global_size(1) * get_global_id(2);\n"
    "    const int i = get_global_id(0) + get_global_size(0) * line;\n"
    "    if (i >= count) return;\n"
    "    uint value = from[i];\n"
    "    for (int turn = 0; turn < turns; turn++) value = value * 1664525u + 1013904223u;\n"
    "    to[i] = value;\n"
    "}\n";

enum {
    WORDS = 4096,
    LAUNCHES = 256,
    TIMED = 64, /* launches whose events are read */
    IDLE_MS = 30, /* without a flush */
    LAUNCH_NS = 100000,
    MOST_TURNS = 1 << 22,
    PAGE = 4096,
    BLOB = 64, /* what weights are aligned to */
    ATTEMPTS = 8, /* at a size that the device may really have */
};

/* What an examination works with. `from` and `to` hold WORDS words. */
typedef struct {
    const rt_device *device;
    const rt_opencl_functions *cl;
    cl_program program;
    cl_kernel kernel;
    cl_mem from, to;
    int32_t turns;
    rt_json *json;
    rt_error *error;
} bench;

static uint32_t turned(uint32_t value, int32_t turns) {
    for (int32_t turn = 0; turn < turns; turn++) value = value * 1664525u + 1013904223u;
    return value;
}

static void words_fill(uint32_t *words, uint32_t first) {
    for (uint32_t i = 0; i < WORDS; i++) words[i] = first + i * 2654435761u;
}

/* --- launches --- */

static cl_int arguments_set(const bench *now, cl_mem from, int32_t turns) {
    const int32_t count = WORDS;
    cl_int code = now->cl->SetKernelArg(now->kernel, 0, sizeof from, &from);
    if (code == CL_SUCCESS) code = now->cl->SetKernelArg(now->kernel, 1, sizeof now->to, &now->to);
    if (code == CL_SUCCESS) code = now->cl->SetKernelArg(now->kernel, 2, sizeof count, &count);
    return code == CL_SUCCESS ? now->cl->SetKernelArg(now->kernel, 3, sizeof turns, &turns) : code;
}

static cl_int launch(const bench *now, cl_command_queue queue, cl_event *event) {
    const size_t global[1] = {WORDS};
    return now->cl->EnqueueNDRangeKernel(queue, now->kernel, 1, NULL, global, NULL, 0, NULL, event);
}

/* Whether the first words of `to` are what becomes of these. */
static cl_int result_read(const bench *now, const uint32_t *words, size_t count, bool *right) {
    uint32_t found[WORDS];
    cl_int code = now->cl->EnqueueReadBuffer(now->device->plain, now->to, 1, 0, count * sizeof *found, found, 0, NULL, NULL);
    *right = code == CL_SUCCESS;
    for (size_t i = 0; i < count && *right; i++) *right = found[i] == turned(words[i], 1);
    return code;
}

/* Time of so many launches, with a flush after every `every` of them; 0 where one failed. */
static uint64_t launches_ns(const bench *now, uint32_t count, uint32_t every) {
    cl_command_queue queue = now->device->plain;
    cl_int code = CL_SUCCESS;
    uint64_t start_ns = rt_clock_ns();
    for (uint32_t i = 0; i < count && code == CL_SUCCESS; i++) {
        code = launch(now, queue, NULL);
        if (every > 0 && (i + 1) % every == 0) now->cl->Flush(queue);
    }
    cl_int ended = now->cl->Finish(queue);
    return code == CL_SUCCESS && ended == CL_SUCCESS ? rt_clock_ns() - start_ns : 0;
}

/* Time of so many launches by one recording of them; 0 where the driver records none. */
static uint64_t recorded_ns(const bench *now, cl_recording recording) {
    const rt_recording_functions *own = &now->device->opencl.recording;
    cl_command_queue queue = now->device->plain;
    if (recording == NULL) return 0;
    uint64_t start_ns = rt_clock_ns();
    cl_int code = own->enqueue(queue, recording, 0, NULL, 0, NULL, 0, NULL, 0, NULL, 0, NULL, NULL);
    cl_int ended = now->cl->Finish(queue);
    return code == CL_SUCCESS && ended == CL_SUCCESS ? rt_clock_ns() - start_ns : 0;
}

/* A recording of so many launches; NULL where the driver makes none. */
static cl_recording launches_record(const bench *now, uint32_t count) {
    const rt_recording_functions *own = &now->device->opencl.recording;
    cl_command_queue queue = now->device->recorder;
    cl_int code = CL_SUCCESS;
    cl_recording made = queue != NULL ? own->make(queue, &code) : NULL;
    if (made == NULL || code != CL_SUCCESS) return NULL;
    for (uint32_t i = 0; i < count && code == CL_SUCCESS; i++) code = launch(now, queue, NULL);
    cl_int ended = own->end(made);
    if (code == CL_SUCCESS && ended == CL_SUCCESS) return made;
    own->release(made);
    return NULL;
}

/* The best of a few times; 0 where there is none. */
static uint64_t best_of(uint64_t best_ns, uint64_t ns) { return best_ns == 0 || (ns > 0 && ns < best_ns) ? ns : best_ns; }

/* Chooses turns with which a launch takes about LAUNCH_NS, and sets the arguments. */
static cl_int turns_choose(bench *now) {
    cl_int code = arguments_set(now, now->from, now->turns = 1);
    launches_ns(now, 1, 0); /* drivers that compile at the first launch */
    while (code == CL_SUCCESS && now->turns < MOST_TURNS && launches_ns(now, 4, 0) / 4 < LAUNCH_NS) {
        code = arguments_set(now, now->from, now->turns *= 2);
    }
    return code;
}

/* --- point: clock --- */

static uint64_t greatest_divisor(uint64_t a, uint64_t b) {
    while (b != 0) {
        uint64_t rest = a % b;
        a = b, b = rest;
    }
    return a;
}

static cl_int event_read(const bench *now, cl_event event, cl_ulong *start_ns, cl_ulong *end_ns) {
    *start_ns = *end_ns = 0;
    cl_int code = now->cl->GetEventProfilingInfo(event, CL_PROFILING_COMMAND_START, sizeof *start_ns, start_ns, NULL);
    if (code != CL_SUCCESS) return code;
    return now->cl->GetEventProfilingInfo(event, CL_PROFILING_COMMAND_END, sizeof *end_ns, end_ns, NULL);
}

/* Reads all events, which have ended, and writes what they say. */
static cl_int times_write(const bench *now, const cl_event *events, uint32_t count, uint64_t wall_ns) {
    cl_ulong first_ns = 0, last_ns = 0, before_ns = 0, resolution_ns = 0;
    uint32_t reversed = 0, empty = 0, backwards = 0;
    for (uint32_t i = 0; i < count; i++) {
        cl_ulong start_ns, end_ns;
        cl_int code = event_read(now, events[i], &start_ns, &end_ns);
        if (code != CL_SUCCESS) return code;
        if (i == 0) first_ns = start_ns;
        reversed += end_ns < start_ns;
        empty += end_ns == start_ns;
        backwards += i > 0 && start_ns < before_ns;
        resolution_ns = greatest_divisor(resolution_ns, end_ns > start_ns ? end_ns - start_ns : start_ns - end_ns);
        resolution_ns = greatest_divisor(resolution_ns, start_ns > first_ns ? start_ns - first_ns : first_ns - start_ns);
        before_ns = start_ns;
        last_ns = end_ns > last_ns ? end_ns : last_ns;
    }
    rt_json_unsigned(now->json, "events", count);
    rt_json_unsigned(now->json, "reversed", reversed);
    rt_json_unsigned(now->json, "empty", empty);
    rt_json_unsigned(now->json, "backwards", backwards);
    rt_json_unsigned(now->json, "resolution_ns", resolution_ns);
    rt_json_unsigned(now->json, "events_ns", last_ns > first_ns ? last_ns - first_ns : 0);
    rt_json_unsigned(now->json, "wall_ns", wall_ns);
    return CL_SUCCESS;
}

/* Launches on the queue that profiles, beside the host's clock. */
static cl_int clock_examine(bench *now) {
    cl_event events[TIMED];
    uint32_t count = 0;
    cl_command_queue queue = now->device->profiling;
    cl_int code = turns_choose(now);
    if (code == CL_SUCCESS) code = launch(now, queue, NULL);
    if (code == CL_SUCCESS) code = now->cl->Finish(queue);
    uint64_t start_ns = rt_clock_ns();
    while (count < TIMED && code == CL_SUCCESS) {
        code = launch(now, queue, &events[count]);
        count += code == CL_SUCCESS;
    }
    cl_int ended = now->cl->Finish(queue);
    if (code == CL_SUCCESS) code = ended;
    if (code == CL_SUCCESS) code = times_write(now, events, count, rt_clock_ns() - start_ns);
    for (uint32_t i = 0; i < count; i++) now->cl->ReleaseEvent(events[i]);
    return code;
}

/* --- point: launches --- */

/* Whether a launch that nobody flushed has not ended after a while. */
static cl_int flush_examine(const bench *now, bool *needed) {
    cl_event event = NULL;
    cl_int state = -1;
    cl_int code = launch(now, now->device->plain, &event);
    if (code != CL_SUCCESS) return code;
    rt_clock_sleep_ms(IDLE_MS);
    code = now->cl->GetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, NULL);
    *needed = state != 0;
    cl_int ended = now->cl->Finish(now->device->plain);
    now->cl->ReleaseEvent(event);
    return code == CL_SUCCESS ? ended : code;
}

/* What a launch costs that does nothing, alone and in a recording, whether a flush is needed, and what flushing every so often takes: the best of
 * a few turns. */
static cl_int launches_examine(bench *now) {
    static const uint32_t windows[] = {0, 4, 16, 64};
    uint64_t best_ns[RT_COUNT(windows)] = {0};
    bool needed = false;
    enum { TURNS = 5 };
    cl_int code = arguments_set(now, now->from, 0);
    launches_ns(now, 1, 0);
    uint64_t cost_ns = 0, record_ns = 0;
    cl_recording recording = code == CL_SUCCESS ? launches_record(now, LAUNCHES) : NULL;
    recorded_ns(now, recording);
    for (uint32_t i = 0; i < TURNS && code == CL_SUCCESS; i++) {
        cost_ns = best_of(cost_ns, launches_ns(now, LAUNCHES, 0) / LAUNCHES);
        record_ns = best_of(record_ns, recorded_ns(now, recording) / LAUNCHES);
    }
    if (recording != NULL) now->device->opencl.recording.release(recording);
    if (code == CL_SUCCESS) code = flush_examine(now, &needed);
    if (code == CL_SUCCESS) code = turns_choose(now);
    for (uint32_t i = 0; i < TURNS * RT_COUNT(windows) && code == CL_SUCCESS; i++) {
        uint64_t ns = launches_ns(now, LAUNCHES, windows[i % RT_COUNT(windows)]);
        uint64_t *best = &best_ns[i % RT_COUNT(windows)];
        *best = best_of(*best, ns);
    }
    rt_json_unsigned(now->json, "launch_ns", cost_ns);
    rt_json_unsigned(now->json, "recorded_ns", record_ns);
    rt_json_bool(now->json, "needs_flush", needed);
    rt_json_array_begin(now->json, "windows");
    for (uint32_t i = 0; i < RT_COUNT(windows); i++) {
        rt_json_object_begin(now->json, NULL);
        rt_json_unsigned(now->json, "every", windows[i]);
        rt_json_unsigned(now->json, "ns", best_ns[i] / LAUNCHES);
        rt_json_object_end(now->json);
    }
    rt_json_array_end(now->json);
    return code;
}

/* --- point: zero copy --- */

/* Lets the kernel read memory of the host; says what became of it. `again`: the kernel runs a second time, after the
 * host has written without telling anybody: only what is in place shows that. */
static const char *shared_read(const bench *now, uint32_t *words, size_t size, bool again, cl_int *code) {
    bool right = false, seen = false;
    cl_mem shared = now->cl->CreateBuffer(now->device->context, CL_MEM_READ_ONLY | CL_MEM_USE_HOST_PTR, size, words, code);
    if (*code != CL_SUCCESS) return "refused";
    *code = arguments_set(now, shared, 1);
    if (*code == CL_SUCCESS) *code = launch(now, now->device->plain, NULL);
    if (*code == CL_SUCCESS) *code = result_read(now, words, WORDS, &right);
    if (*code == CL_SUCCESS && right && again) {
        words_fill(words, 77);
        *code = launch(now, now->device->plain, NULL);
        if (*code == CL_SUCCESS) *code = result_read(now, words, WORDS, &seen);
    }
    now->cl->ReleaseMemObject(shared);
    if (*code != CL_SUCCESS) return "fails";
    if (!right) return "wrong";
    return seen || !again ? "in place" : "copied";
}

/* Pages of a file that is mapped, as weights are, then memory of the process, which can be written; both where a blob of
 * weights may begin, which is no page's begin. */
static const char *sharing_find(const bench *now, uint8_t *memory, cl_int *code) {
    const rt_source own = {"/proc/self/exe", NULL, 0, "the program"};
    const size_t size = WORDS * sizeof(uint32_t);
    const rt_bytes *mapped = NULL;
    const char *outcome = "in place";
    uint32_t *words = (uint32_t *)(memory + PAGE - (uintptr_t)memory % PAGE + BLOB);
    words_fill(words, 5);
    if (rt_bytes_open(&mapped, &own, RT_READING_MAP, NULL) == RT_OK && mapped->size >= BLOB + size) {
        outcome = shared_read(now, (uint32_t *)(uintptr_t)(mapped->data + BLOB), size, false, code);
    }
    if (strcmp(outcome, "in place") == 0) outcome = shared_read(now, words, size, true, code);
    rt_bytes_close(mapped);
    return outcome;
}

static cl_int zero_copy_examine(bench *now) {
    cl_int code = CL_SUCCESS;
    const char *outcome = "separate memory";
    if (rt_device_number(&now->device->opencl, CL_DEVICE_HOST_UNIFIED_MEMORY) != 0) {
        uint8_t *memory = rt_memory_allocate(2 * PAGE + WORDS * sizeof(uint32_t), 1);
        if (memory == NULL) return CL_OUT_OF_HOST_MEMORY;
        outcome = sharing_find(now, memory, &code);
        rt_memory_free(memory);
    }
    rt_json_string(now->json, "outcome", outcome);
    rt_json_string(now->json, "code_name", code == CL_SUCCESS ? "" : rt_opencl_code_name(code));
    return CL_SUCCESS;
}

/* --- point: limits --- */

/* The largest size up to `most` at which something works: halved where it does not, then approached from below. */
static uint64_t largest(const bench *now, bool (*works)(const bench *, uint64_t), uint64_t most) {
    uint64_t bad = most, good = most;
    if (most == 0 || works(now, most)) return most;
    while ((good = good / 2) > 0 && !works(now, good)) bad = good;
    for (int i = 0; i < ATTEMPTS && good > 0 && bad - good > 1; i++) {
        uint64_t middle = good + (bad - good) / 2;
        if (works(now, middle)) {
            good = middle;
        } else {
            bad = middle;
        }
    }
    return good;
}

/* Whether a buffer of so many bytes can be written and read at its end. */
static bool allocation_works(const bench *now, uint64_t size) {
    const uint64_t written = 0x123456789abcdef;
    cl_command_queue queue = now->device->plain;
    uint64_t found = 0;
    cl_int code;
    if (size < sizeof written) return false;
    size_t end = (size_t)(size - sizeof written);
    cl_mem made = now->cl->CreateBuffer(now->device->context, CL_MEM_READ_WRITE, size, NULL, &code);
    if (code != CL_SUCCESS) return false;
    code = now->cl->EnqueueWriteBuffer(queue, made, 1, end, sizeof written, &written, 0, NULL, NULL);
    if (code == CL_SUCCESS) code = now->cl->EnqueueReadBuffer(queue, made, 1, end, sizeof found, &found, 0, NULL, NULL);
    now->cl->ReleaseMemObject(made);
    return code == CL_SUCCESS && found == written;
}

/* Whether an image of this size can be made, and its last pixel be written. */
static bool image_works(const bench *now, size_t width, size_t height) {
    const float pixel[4] = {1, 2, 3, 4};
    const cl_image_format format = {CL_RGBA, CL_FLOAT};
    const size_t origin[3] = {width - 1, height - 1, 0}, region[3] = {1, 1, 1};
    cl_int code;
    cl_mem made =
        now->cl->CreateImage2D(now->device->context, CL_MEM_READ_WRITE, &format, width, height, 0, NULL, &code);
    if (code != CL_SUCCESS) return false;
    code = now->cl->EnqueueWriteImage(now->device->plain, made, 1, origin, region, 0, 0, pixel, 0, NULL, NULL);
    now->cl->ReleaseMemObject(made);
    return code == CL_SUCCESS;
}

static bool image_width_works(const bench *now, uint64_t width) { return image_works(now, (size_t)width, 1); }

static bool image_height_works(const bench *now, uint64_t height) { return image_works(now, 1, (size_t)height); }

/* Whether a work group of so many items along a dimension computes what it must. */
static bool group_works(const bench *now, uint32_t dimension, uint64_t items) {
    uint32_t words[WORDS];
    size_t size[3] = {1, 1, 1};
    bool right = false;
    size[dimension] = (size_t)items;
    words_fill(words, 5);
    cl_command_queue queue = now->device->plain;
    cl_int code = now->cl->EnqueueNDRangeKernel(queue, now->kernel, 3, NULL, size, size, 0, NULL, NULL);
    return code == CL_SUCCESS && result_read(now, words, (size_t)items, &right) == CL_SUCCESS && right;
}

static bool group_x_works(const bench *now, uint64_t items) { return group_works(now, 0, items); }

static bool group_y_works(const bench *now, uint64_t items) { return group_works(now, 1, items); }

static bool group_z_works(const bench *now, uint64_t items) { return group_works(now, 2, items); }

static uint64_t least(uint64_t a, uint64_t b) { return a < b ? a : b; }

/* No larger than an eighth of the memory: what asks for more may be killed, and tells nothing. */
static cl_int limits_examine(bench *now) {
    static bool (*const groups[])(const bench *, uint64_t) = {group_x_works, group_y_works, group_z_works};
    const rt_opencl *opencl = &now->device->opencl;
    enum { MAX_DIMENSIONS = 16 };
    size_t items[MAX_DIMENSIONS] = {0};
    uint64_t most = least(now->device->max_allocation_bytes, rt_topology_memory_bytes() / 8);
    bool images = rt_device_number(opencl, CL_DEVICE_IMAGE_SUPPORT) != 0;
    uint64_t kernel_limit = rt_device_kernel_number(now->device, now->kernel, CL_KERNEL_WORK_GROUP_SIZE);
    uint64_t width = images ? rt_device_number(opencl, CL_DEVICE_IMAGE2D_MAX_WIDTH) : 0;
    uint64_t height = images ? rt_device_number(opencl, CL_DEVICE_IMAGE2D_MAX_HEIGHT) : 0;
    cl_int code = arguments_set(now, now->from, 1);
    now->cl->GetDeviceInfo(opencl->device, CL_DEVICE_MAX_WORK_ITEM_SIZES, sizeof items, items, NULL);
    rt_json_unsigned(now->json, "tried_allocation_bytes", most);
    rt_json_unsigned(now->json, "allocation_bytes", largest(now, allocation_works, most));
    rt_json_unsigned(now->json, "image_width", largest(now, image_width_works, width));
    rt_json_unsigned(now->json, "image_height", largest(now, image_height_works, height));
    rt_json_unsigned(now->json, "kernel_limit", kernel_limit);
    rt_json_array_begin(now->json, "group_items");
    for (uint32_t i = 0; i < 3; i++) {
        uint64_t claimed = least(items[i], kernel_limit ? kernel_limit : items[i]);
        rt_json_unsigned(now->json, NULL, largest(now, groups[i], least(claimed, WORDS)));
    }
    rt_json_array_end(now->json);
    return code;
}

/* --- the bench --- */

typedef cl_int point_examine(bench *now);

static const char *const point_names[] = {"clock", "launches", "zero_copy", "limits"};
static point_examine *const points[] = {clock_examine, launches_examine, zero_copy_examine, limits_examine};

static rt_status kernel_make(bench *now) {
    const char *text = source;
    cl_int code;
    now->program = now->cl->CreateProgramWithSource(now->device->context, 1, &text, NULL, &code);
    rt_status status = rt_opencl_check(now->error, "clCreateProgramWithSource", code, RT_NO_STEP);
    if (status != RT_OK) return status;
    code = now->cl->BuildProgram(now->program, 1, &now->device->opencl.device, "", NULL, NULL);
    if (code != CL_SUCCESS) {
        return rt_error_set(now->error, RT_BUILD_FAILED, "the driver cannot build a small kernel: %s",
                            rt_opencl_code_name(code));
    }
    now->kernel = now->cl->CreateKernel(now->program, "examine", &code);
    return rt_opencl_check(now->error, "clCreateKernel", code, RT_NO_STEP);
}

static rt_status buffers_make(bench *now) {
    uint32_t words[WORDS];
    cl_context context = now->device->context;
    cl_int code;
    words_fill(words, 5);
    now->from = now->cl->CreateBuffer(context, CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR, sizeof words, words, &code);
    if (code == CL_SUCCESS) now->to = now->cl->CreateBuffer(context, CL_MEM_READ_WRITE, sizeof words, NULL, &code);
    return rt_opencl_check(now->error, "clCreateBuffer", code, RT_NO_STEP);
}

static void bench_release(const bench *now) {
    if (now->from != NULL) now->cl->ReleaseMemObject(now->from);
    if (now->to != NULL) now->cl->ReleaseMemObject(now->to);
    if (now->kernel != NULL) now->cl->ReleaseKernel(now->kernel);
    if (now->program != NULL) now->cl->ReleaseProgram(now->program);
}

void rt_examine_take(rt_examination *wanted, rt_command *command) {
    wanted->opencl_library = rt_command_text(command, "opencl");
    rt_command_required(command, "point");
    wanted->point = rt_command_choice(command, "point", point_names, RT_COUNT(point_names));
}

rt_status rt_examine_run(const rt_examination *wanted, rt_json *json, rt_error *error) {
    rt_opencl opencl;
    const rt_device *device = NULL;
    const rt_device_use use = {.perf = RT_HINT_DEFAULT, .record = true};
    rt_status status = rt_opencl_open(&opencl, wanted->opencl_library, error);
    if (status == RT_OK) status = rt_device_open(&device, &opencl, &use, error);
    if (status != RT_OK) return status;
    bench now = {.device = device, .cl = rt_device_cl(device), .json = json, .error = error};
    status = kernel_make(&now);
    if (status == RT_OK) status = buffers_make(&now);
    if (status == RT_OK) {
        cl_int code = points[wanted->point](&now);
        status = rt_opencl_check(error, "clEnqueueNDRangeKernel", code, RT_NO_STEP);
    }
    bench_release(&now);
    rt_device_close(device);
    return status;
}
