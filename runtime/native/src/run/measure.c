/* Times are kept in memory and written when all rounds are over, so that writing them disturbs none. */
#include "measure.h"

#include <stddef.h>
#include <string.h>

#include "../system/affinity.h"
#include "../system/allocation.h"
#include "../system/arithmetic.h"
#include "../system/errors.h"
#include "execute.h"
#include "../opencl/launch.h"
#include "profile.h"
#include "../system/thread_times.h"

enum { MAX_ROUNDS = 1000000 };

/* What a run measured: warm-up rounds first. */
typedef struct {
    uint64_t *wall_ns;     /* one a round */
    uint64_t *duration_ns; /* [round][step], with a profile */
    uint64_t first_ns;     /* the engine's first round, 0 where it ran before */
    rt_profile *profile;   /* NULL without one */
    rt_thread_times threads;
    bool threads_told; /* whether the kernel tells of threads */
} run_times;

void rt_run_take(rt_run_request *request, rt_command *command) {
    request->rounds = rt_command_number(command, "rounds", 1, MAX_ROUNDS);
    request->warmup = rt_command_number(command, "warmup", 0, MAX_ROUNDS);
    request->profile = rt_command_number(command, "profile", 0, 1) != 0;
}

/* Makes room for the times of all rounds, and a profile if one is asked for. RT_NO_MEMORY; what it makes before it
 * fails is left for times_destroy. */
static rt_status times_create(run_times *times, const rt_parts *parts, const rt_run_request *request, rt_error *error) {
    uint32_t count = request->rounds + request->warmup;
    uint32_t steps = parts->plan->step_count;
    memset(times, 0, sizeof *times);
    times->wall_ns = rt_memory_allocate(count, sizeof *times->wall_ns);
    if (times->wall_ns == NULL) return rt_error_no_memory(error, "the times");
    if (!request->profile) return RT_OK;
    times->duration_ns = rt_memory_allocate(rt_product(count, steps), sizeof *times->duration_ns);
    if (times->duration_ns == NULL) return rt_error_no_memory(error, "the times");
    return rt_profile_create(&times->profile, parts->device, parts->watchdog, steps, error);
}

/* Releases what times_create has made, however far it came. */
static void times_destroy(run_times *times) {
    rt_profile_destroy(times->profile);
    rt_memory_free(times->wall_ns);
    rt_memory_free(times->duration_ns);
}

/* Runs warm-up and rounds alike, and keeps the times of each. */
static rt_status rounds_run(const rt_parts *parts, const rt_run_request *request, run_times *times, rt_error *error) {
    rt_status status = RT_OK;
    uint32_t steps = parts->plan->step_count;
    for (uint32_t i = 0; i < request->warmup + request->rounds && status == RT_OK; i++) {
        bool first = rt_executor_rounds(parts->executor) == 0;
        status = rt_executor_round(parts->executor, times->profile, &times->wall_ns[i], error);
        if (first) times->first_ns = times->wall_ns[i];
        if (times->profile != NULL && steps > 0) {
            memcpy(times->duration_ns + (size_t)i * steps, rt_profile_duration_ns(times->profile),
                   steps * sizeof *times->duration_ns);
        }
    }
    return status;
}

/* The same, with what all threads did meanwhile: read before the first and after the last, so that it disturbs none. */
static rt_status rounds_watched(const rt_parts *parts, const rt_run_request *request, run_times *times,
                                rt_error *error) {
    rt_thread_times before, after;
    bool told = rt_thread_times_read(&before);
    rt_status status = rounds_run(parts, request, times, error);
    times->threads_told = told && rt_thread_times_read(&after);
    if (times->threads_told) times->threads = rt_thread_times_between(&before, &after);
    return status;
}

static void wall_write(rt_json *json, const char *key, const uint64_t *wall_ns, uint32_t count) {
    rt_json_array_begin(json, key);
    for (uint32_t i = 0; i < count; i++) rt_json_unsigned(json, NULL, wall_ns[i]);
    rt_json_array_end(json);
}

/* The steps' times: the last start, the first time whatever round that was, and those of the rounds. */
static void steps_write(rt_json *json, const rt_run_request *request, const run_times *times, uint32_t steps) {
    rt_profile_clock_write(times->profile, json);
    rt_json_array_begin(json, "steps");
    for (uint32_t step = 0; step < steps; step++) {
        rt_json_object_begin(json, NULL);
        rt_json_unsigned(json, "start_ns", rt_profile_start_ns(times->profile)[step]);
        rt_json_unsigned(json, "first_ns", times->duration_ns[step]);
        rt_json_array_begin(json, "ns");
        for (uint32_t i = request->warmup; i < request->warmup + request->rounds; i++) {
            rt_json_unsigned(json, NULL, times->duration_ns[(size_t)i * steps + step]);
        }
        rt_json_array_end(json);
        rt_json_object_end(json);
    }
    rt_json_array_end(json);
}

/* The answer's members; `first_ms` is null where the engine had run before. */
static void times_write(rt_json *json, const rt_run_request *request, const run_times *times, uint32_t steps) {
    if (times->first_ns > 0) {
        rt_json_ms(json, "first_ms", times->first_ns);
    } else {
        rt_json_null(json, "first_ms");
    }
    wall_write(json, "warmup_ns", times->wall_ns, request->warmup);
    wall_write(json, "wall_ns", times->wall_ns + request->warmup, request->rounds);
    if (request->profile && request->rounds + request->warmup > 0) steps_write(json, request, times, steps);
}

/* How long the threads ran and waited in all rounds, warm-up included; only where the kernel tells. */
static void threads_write(rt_json *json, const run_times *times) {
    if (!times->threads_told) return;
    rt_json_object_begin(json, "threads");
    rt_json_unsigned(json, "running_ns", times->threads.running_ns);
    rt_json_unsigned(json, "waiting_ns", times->threads.waiting_ns);
    rt_json_object_end(json);
}

/* Which cores the kernel lets each worker run on; only where CPU steps have some. */
static void worker_cores_write(rt_json *json, const rt_cpu *cpu) {
    char cores[RT_CORES_TEXT_BYTES];
    if (rt_cpu_threads(cpu) == 0) return;
    rt_json_array_begin(json, "worker_cores");
    for (uint32_t i = 0; i < rt_cpu_threads(cpu); i++) {
        rt_cpu_worker_cores_text(cpu, i, cores, sizeof cores);
        rt_json_string(json, NULL, cores);
    }
    rt_json_array_end(json);
}

/* How many launches a round is, and how many steps the limit splits; only where launches may be split. */
static void split_write(rt_json *json, const rt_parts *parts) {
    uint32_t launches = 0, split = 0;
    if (!rt_limit_is_set(parts->limit)) return;
    for (uint32_t i = 0; i < parts->plan->step_count; i++) {
        if (parts->plan->steps[i].kind != RT_STEP_KIND_OPENCL) continue;
        uint32_t count = rt_launch_part_count(rt_steps_launch(parts->steps, i), rt_limit_parts(parts->limit, i));
        launches += count;
        split += count > 1;
    }
    rt_json_object_begin(json, "limit");
    rt_json_unsigned(json, "launches", launches);
    rt_json_unsigned(json, "split_steps", split);
    rt_json_object_end(json);
}

rt_status rt_run_measure(const rt_parts *parts, const rt_run_request *request, rt_json *json, rt_error *error) {
    run_times times;
    rt_status status = times_create(&times, parts, request, error);
    if (status == RT_OK) status = rounds_watched(parts, request, &times, error);
    if (status == RT_OK) {
        times_write(json, request, &times, parts->plan->step_count);
        threads_write(json, &times);
        worker_cores_write(json, parts->cpu);
        split_write(json, parts);
    }
    times_destroy(&times);
    return status;
}
