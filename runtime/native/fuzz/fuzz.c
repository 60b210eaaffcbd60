/* Loads and runs mutated files in this process, which sanitizers watch.
 *
 *     fuzz CORPUS FIRST LAST SEED FAKE_OPENCL
 *
 * Runs the cases FIRST to LAST - 1, some of them with an allocation that fails; a case depends on SEED and its number
 * alone. CORPUS is a folder with N.plan and N.data, N.tuned and N.kernels for the same N from 0 on. A case that
 * crashes, hangs or is found by a sanitizer ends the process, which names the case.
 */
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "../src/system/allocation.h"
#include "../src/plan/crc32.h"
#include "../src/system/file.h"
#include "format.h"
#include "../src/serve/json.h"
#include "../src/run/parts.h"
#include "../src/run/profile.h"
#include "../src/opencl/trial.h"
#include "mutate.h"

enum { MAX_SAMPLES = 1024, CASE_SECONDS = 20, MAX_FLOATS = 1 << 16, MAX_ALLOCATIONS = 64 };
static const uint64_t max_cpu_work = 1 << 21;

typedef struct {
    fuzz_file plan, data, tuned, kernels;
} sample;

static sample samples[MAX_SAMPLES];
static uint32_t sample_count;
static const char *fake_opencl;
static unsigned long long current_case;
static struct {
    unsigned long long loaded, ran, tuned, kernels;
} reached;

static void case_name(void) {
    char text[64];
    int length = snprintf(text, sizeof text, "fuzz: case %llu\n", current_case);
    if (write(STDERR_FILENO, text, (size_t)length) < 0) _exit(1);
}

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
__attribute__((visibility("default"))) const char *__asan_default_options(void);
const char *__asan_default_options(void) {
    return "allocator_may_return_null=1:max_allocation_size_mb=64:detect_stack_use_after_return=0";
}
#endif

static void hang_end(int signal_number) {
    (void)signal_number;
    static const char text[] = "fuzz: hang\n";
    if (write(STDERR_FILENO, text, sizeof text - 1) > 0) case_name();
    _exit(3);
}

/* --- corpus --- */

static bool file_load(const char *folder, uint32_t number, const char *kind, fuzz_file *file) {
    char path[4096];
    const rt_bytes *bytes;
    const rt_source source = {.path = path};
    snprintf(path, sizeof path, "%s/%u.%s", folder, number, kind);
    if (rt_bytes_open(&bytes, &source, RT_READING_COPY, NULL) != RT_OK) return false;
    fuzz_file whole = {(uint8_t *)(uintptr_t)bytes->data, bytes->size, bytes->size};
    fuzz_copy(file, &whole);
    rt_bytes_close(bytes);
    return true;
}

static void corpus_load(const char *folder) {
    while (sample_count < MAX_SAMPLES && file_load(folder, sample_count, "plan", &samples[sample_count].plan)) {
        sample *one = &samples[sample_count];
        file_load(folder, sample_count, "data", &one->data);
        file_load(folder, sample_count, "tuned", &one->tuned);
        file_load(folder, sample_count, "kernels", &one->kernels);
        sample_count++;
    }
}

/* --- one case --- */

static void file_mutate(fuzz_file *file, fuzz_random *random) {
    uint64_t changes = 1 + fuzz_below(random, 3);
    bool raw = fuzz_below(random, 8) == 0;
    for (uint64_t i = 0; i < changes; i++) {
        if (raw) {
            fuzz_bytes(file, random);
        } else {
            fuzz_field(file, random);
        }
    }
    if (raw && fuzz_below(random, 2) == 0) fuzz_repair(file);
}

/* Changes weights, and mostly lets the plan know. */
static void data_mutate(fuzz_file *plan, fuzz_file *data, fuzz_random *random) {
    fuzz_bytes(data, random);
    rt_meta_record *meta = fuzz_section(plan, RT_SECTION_ID_META);
    if (meta == NULL || fuzz_below(random, 8) == 0) return;
    meta->data_size = data->size;
    meta->data_crc32 = rt_crc32_update(0, data->data, data->size);
    fuzz_repair(plan);
}

static void tensors_exchange(rt_engine *engine) {
    static float values[MAX_FLOATS];
    rt_tensor_info info;
    for (uint32_t i = 0; rt_engine_input_info(engine, i, &info) == RT_OK; i++) {
        if (info.bytes <= sizeof values) rt_engine_input(engine, info.name, values, info.bytes, NULL);
    }
    rt_engine_run(engine, NULL);
    for (uint32_t i = 0; rt_engine_output_info(engine, i, &info) == RT_OK; i++) {
        if (info.bytes <= sizeof values) rt_engine_output(engine, info.name, values, info.bytes, NULL);
    }
}

static void trial_run(const rt_parts *parts, fuzz_random *random) {
    rt_json *json = rt_json_create();
    if (json == NULL) return;
    rt_trial trial = {
        .step = (uint32_t)fuzz_below(random, parts->plan->step_count + 1),
        .reps = 1 + (uint32_t)fuzz_below(random, 3),
        .warmup = (uint32_t)fuzz_below(random, 2),
        .block = (uint32_t)fuzz_below(random, 40),
        .global_size = {(uint32_t)fuzz_below(random, 5), 4, 4},
        .local_size = {(uint32_t)fuzz_below(random, 4), 2, 1},
        .global_rank = (uint32_t)fuzz_below(random, 4),
        .local_rank = (uint32_t)fuzz_below(random, 4),
        .check = true,
        .ahead_step = (uint32_t)fuzz_below(random, parts->plan->step_count + 1),
        .ahead_options = fuzz_below(random, 2) == 0 ? "-Dahead" : "-Drefuse",
    };
    rt_trial_run(parts, &trial, json, NULL);
    rt_json_destroy(json);
}

static void profiled_run(const rt_parts *parts) {
    rt_profile *profile;
    uint64_t wall_ns;
    if (rt_profile_create(&profile, parts->device, parts->watchdog, parts->plan->step_count, NULL) != RT_OK) return;
    rt_executor_round(parts->executor, profile, &wall_ns, NULL);
    rt_profile_destroy(profile);
}

static void engine_exercise(const sample *files, fuzz_random *random) {
    rt_error error;
    rt_engine *engine;
    rt_options options = {
        .plan_bytes = files->plan.data,
        .plan_size = files->plan.size,
        .data_bytes = files->data.data,
        .data_size = files->data.size,
        .tuned_bytes = files->tuned.size ? files->tuned.data : NULL,
        .tuned_size = files->tuned.size,
        .kernels_bytes = files->kernels.size ? files->kernels.data : NULL,
        .kernels_size = files->kernels.size,
        .opencl_library = fake_opencl,
        .threads = 1,
        .max_cpu_work = max_cpu_work,
        .flush_every = fuzz_below(random, 2) ? 1 + fuzz_below(random, 4) : 0,
        .zero_copy = fuzz_below(random, 2) != 0,
        .host_times = fuzz_below(random, 4) == 0,
        .limit_kernel_ms = fuzz_below(random, 2) ? 1e-4 : 0,
        .lazy = (int)fuzz_below(random, 2),
    };
    if (rt_engine_create(&options, &engine, &error) != RT_OK) return;
    const rt_parts *parts = rt_engine_parts(engine);
    reached.loaded++;
    reached.tuned += rt_tuned_used(parts->tuned) > 0;
    reached.kernels += rt_programs_counts(parts->programs).loaded > 0;
    tensors_exchange(engine);
    if (parts->device != NULL && fuzz_below(random, 4) == 0) trial_run(parts, random);
    if (fuzz_below(random, 4) == 0) profiled_run(parts);
    reached.ran += rt_executor_rounds(parts->executor) > 0;
    rt_engine_destroy(engine);
}

static void case_run(uint64_t seed) {
    static sample mutated;
    fuzz_random random = {seed * 0x2545F4914F6CDD1Du + current_case};
    const sample *source = &samples[fuzz_below(&random, sample_count)];
    fuzz_copy(&mutated.plan, &source->plan);
    fuzz_copy(&mutated.data, &source->data);
    fuzz_copy(&mutated.tuned, &source->tuned);
    fuzz_copy(&mutated.kernels, &source->kernels);
    uint64_t kind = fuzz_below(&random, 10);
    if (kind < 7) {
        file_mutate(&mutated.plan, &random);
    } else if (kind == 7) {
        data_mutate(&mutated.plan, &mutated.data, &random);
    } else if (kind == 8) {
        file_mutate(&mutated.tuned, &random);
    } else {
        file_mutate(&mutated.kernels, &random);
    }
    if (fuzz_below(&random, 8) == 0) rt_memory_fail_at(1 + fuzz_below(&random, MAX_ALLOCATIONS));
    engine_exercise(&mutated, &random);
    rt_memory_fail_at(0);
}

int main(int count, char **words) {
    if (count != 6) return 2;
    corpus_load(words[1]);
    if (sample_count == 0) return 2;
    unsigned long long last = strtoull(words[3], NULL, 10);
    fake_opencl = words[5];
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_set_death_callback(case_name);
#endif
    signal(SIGALRM, hang_end);
    for (current_case = strtoull(words[2], NULL, 10); current_case < last; current_case++) {
        alarm(CASE_SECONDS);
        case_run(strtoull(words[4], NULL, 10));
    }
    printf("{\"samples\": %u, \"loaded\": %llu, \"ran\": %llu, \"tuned\": %llu, \"kernels\": %llu}\n", sample_count,
           reached.loaded, reached.ran, reached.tuned, reached.kernels);
    return 0;
}
