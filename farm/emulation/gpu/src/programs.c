/* Programs and kernels: what they would need on the played GPU, told from source and options.
 *
 * Where nothing is computed, the driver behind is given kernels of the same arguments that do nothing, so that a build
 * costs little. A binary is the driver's behind a head of ours, with the played driver's version, options and source: a
 * driver that was updated refuses it.
 */
#include "programs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "memory.h"
#include "model.h"
#include "objects.h"
#include "signature.h"

static const char magic[] = "played GPU 1\n";

/* What is kept for a program: copies of its own. */
typedef struct {
    int references;
    char *source, *options;
    const char *refused; /* the log of a build that failed here */
} kept_program;

typedef struct {
    int references;
    char name[PLAYED_NAME];
    played_signature signature;
    played_values values; /* the program's options, and the ints among the arguments */
    cl_mem memory[PLAYED_ARGUMENTS];
    size_t limit;
    bool wrong; /* its launches change nothing */
} kept_kernel;

/* --- programs --- */

static cl_program program_keep(cl_program made, char *source, char *options) {
    kept_program *kept = made != NULL ? played_object_add(played_adopt(made), sizeof *kept) : NULL;
    if (kept != NULL) *kept = (kept_program){1, source, options, NULL};
    return made;
}

/* One text of several, for free. A size of 0 is that of a text that ends with NUL. */
static char *texts_join(cl_uint count, const char **texts, const size_t *sizes) {
    char *joined = NULL;
    size_t length = 0;
    FILE *file = open_memstream(&joined, &length);
    for (cl_uint i = 0; file != NULL && i < count; i++) {
        fwrite(texts[i], 1, sizes != NULL && sizes[i] != 0 ? sizes[i] : strlen(texts[i]), file);
    }
    return file != NULL && fclose(file) == 0 ? joined : NULL;
}

/* What programs begin with, for free: products of bytes in plain OpenCL C, where the profile has instructions for them
 * and something is computed; else NULL. */
static char *dot_products_read(void) {
    char text[8192];
    FILE *file = strstr(played.extensions, "_dot_product") != NULL && played.profile.mode == PLAYED_COMPUTING
                     ? fopen(PLAYED_DOT_PRODUCTS, "r")
                     : NULL;
    if (file == NULL) return NULL;
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    return strdup(text);
}

cl_program played_CreateProgramWithSource(cl_context context, cl_uint count, const char **texts, const size_t *sizes,
                                          cl_int *code) {
    char *source = texts_join(count, texts, sizes), *before = dot_products_read();
    char *empty = source != NULL && played.profile.mode == PLAYED_TIMING ? played_empty_source(source) : NULL;
    const char *given[2] = {before != NULL ? before : "", empty != NULL ? empty : source};
    if (source == NULL) return free(before), played_refuse(code, -6);
    cl_program made = played.real.CreateProgramWithSource(context, 2, given, NULL, code);
    free(empty);
    free(before);
    return program_keep(made, source, strdup(""));
}

PLAYED_REFERENCES(Program, cl_program, kept_program, (free(kept->source), free(kept->options)))

/* What the compiler does of the profile, beside compiling: it takes its time, crashes or refuses. */
static const char *compiler_behave(const kept_program *kept) {
    const played_profile *p = &played.profile;
    const struct timespec time = {(time_t)(p->build_ms / 1000), (long)(p->build_ms * 1e6) % 1000000000};
    const char *crash = p->build_crashes_on, *fail = p->build_fails_on;
    nanosleep(&time, NULL);
    if (crash[0] && (strstr(kept->options, crash) || strstr(kept->source, crash))) abort();
    if (fail[0] && (strstr(kept->options, fail) || strstr(kept->source, fail))) return "played: refused\n";
    return NULL;
}

/* The registers of the hungriest kernel of a program, as its options alone tell. */
static double registers_of(const kept_program *kept) {
    double most = 0;
    char problem[512];
    for (const char *at = kept->source; (at = strstr(at, "kernel void ")) != NULL;) {
        char name[PLAYED_NAME] = "";
        at += strlen("kernel void ");
        sscanf(at, "%47[A-Za-z0-9_]", name);
        played_values values = {.count = 0};
        played_work work;
        played_values_options(&values, kept->options);
        const bool image = played_signature_of(kept->source, name).image;
        if (!played_costs_of(name, image, &values, &work, problem, sizeof problem)) continue;
        if (work.registers > most) most = work.registers;
    }
    return most;
}

cl_int played_BuildProgram(cl_program program, cl_uint count, const cl_device_id *devices, const char *options,
                           cl_program_notify *notify, void *user) {
    kept_program *kept = played_object_find(program);
    (void)count, (void)devices;
    if (kept == NULL) return CL_INVALID_OPERATION;
    if (options != NULL && kept->options[0] == '\0') {
        free(kept->options);
        kept->options = strdup(options);
    }
    kept->refused = compiler_behave(kept);
    if (played.profile.max_registers > 0 && registers_of(kept) > played.profile.max_registers) {
        kept->refused = "played: out of registers\n";
    }
    if (kept->refused != NULL) return CL_BUILD_PROGRAM_FAILURE;
    const char *given = played.profile.mode == PLAYED_TIMING ? "" : options;
    return played.real.BuildProgram(program, 1, &played.real_device, given, notify, user);
}

cl_int played_GetProgramBuildInfo(cl_program program, cl_device_id device, cl_uint property, size_t room, void *target,
                                  size_t *needed) {
    const kept_program *kept = played_object_find(program);
    const cl_int failed = -2;
    (void)device;
    if (kept != NULL && kept->refused != NULL) {
        if (property == 0x1181) return played_answer(&failed, sizeof failed, room, target, needed); /* the status */
        const char *text = property == CL_PROGRAM_BUILD_LOG ? kept->refused : kept->options;
        return played_answer(text, strlen(text) + 1, room, target, needed);
    }
    return played.real.GetProgramBuildInfo(program, played.real_device, property, room, target, needed);
}

/* --- binaries --- */

/* The head of a program's binary, for free: each text ends with NUL. */
static char *head_make(const kept_program *kept, size_t *size) {
    char *head = NULL;
    FILE *file = open_memstream(&head, size);
    if (file == NULL) return NULL;
    fprintf(file, "%s%s%c%s%c%s%c", magic, played.profile.driver, 0, kept->options, 0, kept->source, 0);
    return fclose(file) == 0 ? head : NULL;
}

static cl_int binary_read(cl_program program, const char *head, size_t head_size, unsigned char *target) {
    size_t size = 0;
    cl_int code = played.real.GetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof size, &size, NULL);
    unsigned char *place = target + head_size;
    memcpy(target, head, head_size);
    return code != CL_SUCCESS ? code
                              : played.real.GetProgramInfo(program, CL_PROGRAM_BINARIES, sizeof place, &place, NULL);
}

cl_int played_GetProgramInfo(cl_program program, cl_uint property, size_t room, void *target, size_t *needed) {
    const kept_program *kept = played_object_find(program);
    const cl_device_id own = played_device();
    size_t head_size = 0, size = 0;
    if (property == 0x1163) return played_answer(&own, sizeof own, room, target, needed);
    const bool is_size = property == CL_PROGRAM_BINARY_SIZES, is_binary = property == CL_PROGRAM_BINARIES;
    if (kept == NULL || (!is_size && !is_binary)) {
        return played.real.GetProgramInfo(program, property, room, target, needed);
    }
    if (is_binary && target == NULL) return played_answer(&own, sizeof own, room, target, needed);
    char *head = head_make(kept, &head_size);
    if (head == NULL) return -6;
    cl_int code = is_binary ? binary_read(program, head, head_size, *(unsigned char **)target)
                            : played.real.GetProgramInfo(program, property, sizeof size, &size, NULL);
    free(head);
    if (code != CL_SUCCESS || is_binary) return code;
    size += size > 0 ? head_size : 0;
    return played_answer(&size, sizeof size, room, target, needed);
}

/* The text behind the NUL that ends this one; NULL where the binary ends before. */
static const char *text_after(const char *text, const char *end) {
    const char *nul = text != NULL ? memchr(text, 0, (size_t)(end - text)) : NULL;
    return nul != NULL ? nul + 1 : NULL;
}

cl_program played_CreateProgramWithBinary(cl_context context, cl_uint count, const cl_device_id *devices,
                                          const size_t *sizes, const unsigned char **binaries, cl_int *status,
                                          cl_int *code) {
    const char *begin = (const char *)binaries[0], *end = begin + sizes[0], *driver = begin + sizeof magic - 1;
    (void)count, (void)devices;
    const bool ours = sizes[0] > sizeof magic && memcmp(begin, magic, sizeof magic - 1) == 0;
    const char *options = ours ? text_after(driver, end) : NULL, *source = text_after(options, end);
    const char *rest = text_after(source, end);
    if (rest == NULL || strcmp(driver, played.profile.driver) != 0) {
        if (status != NULL) *status = CL_INVALID_BINARY;
        return played_refuse(code, CL_INVALID_BINARY);
    }
    const size_t size = (size_t)(end - rest);
    const unsigned char *own = (const unsigned char *)rest;
    cl_program made =
        played.real.CreateProgramWithBinary(context, 1, &played.real_device, &size, &own, status, code);
    return made != NULL ? program_keep(made, strdup(source), strdup(options)) : NULL;
}

/* --- kernels --- */

/* The kernel's work as far as its arguments are set. A section of the costs that cannot be read counts as no work, and
 * is told once a launch: it is a mistake in the file. */
static played_work work_of(const kept_kernel *kept) {
    char problem[1024];
    played_values values = kept->values;
    played_work work;
    if (!played_costs_of(kept->name, kept->signature.image, &values, &work, problem, sizeof problem)) {
        fprintf(stderr, "played GPU: %s\n", problem);
    }
    return work;
}

cl_kernel played_CreateKernel(cl_program program, const char *name, cl_int *code) {
    const kept_program *of = played_object_find(program);
    cl_kernel made = played_adopt(played.real.CreateKernel(program, name, code));
    kept_kernel *kept = made != NULL && of != NULL ? played_object_add(made, sizeof *kept) : NULL;
    if (kept == NULL) return made;
    kept->references = 1;
    snprintf(kept->name, sizeof kept->name, "%s", name);
    kept->signature = played_signature_of(of->source, name);
    played_values_options(&kept->values, of->options);
    const played_work work = work_of(kept);
    kept->limit = played_group_limit(&played.profile, &work);
    kept->wrong = played.profile.wrong_on[0] && strstr(of->options, played.profile.wrong_on) != NULL;
    return made;
}

PLAYED_REFERENCES(Kernel, cl_kernel, kept_kernel, (void)0)

cl_int played_SetKernelArg(cl_kernel kernel, cl_uint index, size_t size, const void *value) {
    kept_kernel *kept = played_object_find(kernel);
    if (kept != NULL && value != NULL && index < kept->signature.count) {
        const char *name = kept->signature.name[index];
        const int kind = kept->signature.kind[index];
        if (kind == PLAYED_INT && size == sizeof(cl_int)) {
            played_values_set(&kept->values, name, strlen(name), *(const cl_int *)value);
        } else if (kind >= PLAYED_POINTER && size == sizeof(cl_mem)) {
            kept->memory[index] = *(const cl_mem *)value;
        }
    }
    return played.real.SetKernelArg(kernel, index, size, value);
}

cl_int played_GetKernelWorkGroupInfo(cl_kernel kernel, cl_device_id device, cl_uint property, size_t room,
                                     void *target, size_t *needed) {
    const size_t limit = played_kernel_limit(kernel), multiple = (size_t)played.profile.wave;
    (void)device;
    if (property == CL_KERNEL_WORK_GROUP_SIZE) return played_answer(&limit, sizeof limit, room, target, needed);
    if (property == CL_KERNEL_PREFERRED_WORK_GROUP_SIZE_MULTIPLE) {
        return played_answer(&multiple, sizeof multiple, room, target, needed);
    }
    return played.real.GetKernelWorkGroupInfo(kernel, played.real_device, property, room, target, needed);
}

played_work played_kernel_work(cl_kernel kernel) {
    const kept_kernel *kept = played_object_find(kernel);
    return kept != NULL ? work_of(kept) : (played_work){.registers = 16, .access = 16};
}

size_t played_kernel_limit(cl_kernel kernel) {
    const kept_kernel *kept = played_object_find(kernel);
    return kept != NULL ? kept->limit : (size_t)played.profile.max_work_group;
}

bool played_kernel_is_wrong(cl_kernel kernel) {
    const kept_kernel *kept = played_object_find(kernel);
    return kept != NULL && kept->wrong;
}

bool played_kernel_fails(cl_kernel kernel) {
    const kept_kernel *kept = played_object_find(kernel);
    for (size_t i = 0; kept != NULL && i < kept->signature.count; i++) {
        if (kept->memory[i] != NULL && played_memory_fails(kept->memory[i])) return true;
    }
    return false;
}
