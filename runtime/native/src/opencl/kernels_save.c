/* The file is put together in memory and written whole (rt_file_write), so that a reader never finds half of one. */
#include "kernels_save.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "../system/allocation.h"
#include "../system/arithmetic.h"
#include "../plan/crc32.h"
#include "../system/errors.h"
#include "../system/file.h"
#include "format.h"

enum { SECTIONS = 4 };

/* Sections of the file while it is made, in the order of their ids. */
typedef struct {
    rt_set_record set;
    rt_binary_record *entries;
    uint8_t *blob;
    uint64_t blob_size;
    char *strings;
    uint64_t strings_size;
    bool failed;
} writer;

/* Adds the three in one string and returns its offset. Without memory it sets `failed` and returns 0, which is a valid
 * offset, so that callers look once, at the end. */
static uint32_t string_add(writer *file, const char *first, const char *separator, const char *second) {
    size_t length = strlen(first) + strlen(separator) + strlen(second) + 1;
    if (file->strings_size == 0) length++; /* offset 0 is the empty string */
    char *grown = rt_memory_grow(file->strings, file->strings_size + length, 1);
    if (grown == NULL || file->strings_size + length > UINT32_MAX) {
        file->failed = true;
        if (grown != NULL) file->strings = grown;
        return 0;
    }
    file->strings = grown;
    if (file->strings_size == 0) grown[file->strings_size++] = '\0', length--;
    uint32_t offset = (uint32_t)file->strings_size;
    snprintf(grown + offset, length, "%s%s%s", first, separator, second);
    file->strings_size += length;
    return offset;
}

/* The fingerprint that rt_fingerprint_choose compares. */
static void set_fill(writer *file, const rt_parts *parts) {
    const rt_plan *plan = parts->plan;
    file->set = (rt_set_record){
        .soc = string_add(file, parts->soc, "", ""),
        .gpu = string_add(file, parts->device->name, "", ""),
        .driver = string_add(file, parts->device->driver, "", ""),
        .opencl = string_add(file, parts->device->version, "", ""),
        .gpu_family = string_add(file, rt_plan_string(plan, plan->meta->gpu_family), "", ""),
        .source_hash = string_add(file, rt_plan_string(plan, plan->meta->source_hash), "", ""),
        .runtime_version = string_add(file, RT_VERSION, "", ""),
    };
}

/* Whether a step is launched from this program; trials build many more. */
static bool program_is_used(const rt_parts *parts, const rt_program *program) {
    const rt_plan *plan = parts->plan;
    for (uint32_t i = 0; i < plan->step_count; i++) {
        if (plan->steps[i].kind != RT_STEP_KIND_OPENCL) continue;
        const char *source_hash = rt_plan_string(plan, plan->programs[plan->steps[i].program].source_hash);
        bool same = strcmp(source_hash, program->source_hash) == 0;
        if (same && strcmp(rt_steps_launch(parts->steps, i)->options, program->options) == 0) return true;
    }
    return false;
}

/* Adds the driver's binary of a program, and its entry, for which there is room. RT_OPENCL or RT_NO_MEMORY. */
static rt_status binary_add(writer *file, const rt_opencl_functions *cl, const rt_program *program, rt_error *error) {
    size_t size = 0;
    cl_int code = cl->GetProgramInfo(program->object, CL_PROGRAM_BINARY_SIZES, sizeof size, &size, NULL);
    if (code != CL_SUCCESS) return rt_opencl_check(error, "clGetProgramInfo", code, RT_NO_STEP);
    uint8_t *grown = rt_memory_grow(file->blob, file->blob_size + size, 1);
    if (grown == NULL) return rt_error_no_memory(error, "compiled kernels");
    file->blob = grown;
    uint8_t *target = grown + file->blob_size;
    code = cl->GetProgramInfo(program->object, CL_PROGRAM_BINARIES, sizeof target, &target, NULL);
    if (code != CL_SUCCESS) return rt_opencl_check(error, "clGetProgramInfo", code, RT_NO_STEP);
    file->entries[file->set.entry_count++] = (rt_binary_record){
        .offset = file->blob_size, .size = size, .key = string_add(file, program->source_hash, "|", program->options)};
    file->blob_size += size;
    return file->failed ? rt_error_no_memory(error, "compiled kernels") : RT_OK;
}

/* The next multiple of the alignment that sections have. */
static uint64_t align(uint64_t size) { return rt_ceil_div(size, RT_ALIGNMENT_BYTES) * RT_ALIGNMENT_BYTES; }

/* Of all but the header's last member, which is the checksum itself. */
static uint32_t container_crc(const uint8_t *content, uint64_t size) {
    uint32_t crc = rt_crc32_update(0, content, offsetof(rt_header_record, crc32));
    return rt_crc32_update(crc, content + sizeof(rt_header_record), size - sizeof(rt_header_record));
}

/* Lays the sections out, puts the whole file together in memory and writes it; `bytes` is then its size. RT_NO_MEMORY
 * or RT_IO: the file is as it was. */
static rt_status file_write(const writer *file, const char *path, uint64_t *bytes, rt_error *error) {
    rt_section_record table[SECTIONS] = {
        {RT_SECTION_ID_STRINGS, 1, file->strings_size, 0},
        {RT_SECTION_ID_SET, sizeof file->set, 1, 0},
        {RT_SECTION_ID_BINARY, sizeof *file->entries, file->set.entry_count, 0},
        {RT_SECTION_ID_BLOB, 1, file->blob_size, 0},
    };
    const void *const contents[SECTIONS] = {file->strings, &file->set, file->entries, file->blob};
    uint64_t size = align(sizeof(rt_header_record) + sizeof table);
    for (int i = 0; i < SECTIONS; i++) {
        table[i].offset = size;
        size = align(size + table[i].count * table[i].record_size);
    }
    uint8_t *content = rt_memory_allocate_aligned(size, 1);
    if (content == NULL) return rt_error_no_memory(error, "compiled kernels");
    rt_header_record header = {.version = RT_FORMAT_VERSION, .section_count = SECTIONS, .file_size = size};
    memcpy(header.magic, RT_KERNELS_MAGIC, sizeof header.magic);
    memcpy(content, &header, sizeof header);
    memcpy(content + sizeof header, table, sizeof table);
    for (int i = 0; i < SECTIONS; i++) {
        size_t length = table[i].count * table[i].record_size;
        if (length > 0) memcpy(content + table[i].offset, contents[i], length);
    }
    header.crc32 = container_crc(content, size);
    memcpy(content, &header, sizeof header);
    rt_status status = rt_file_write(path, content, size, error);
    rt_memory_free_aligned(content);
    *bytes = size;
    return status;
}

/* Fills the writer from the engine; what it holds when this fails is released with it. */
static rt_status writer_fill(writer *file, const rt_parts *parts, bool trials, rt_error *error) {
    rt_status status = RT_OK;
    uint32_t count = rt_programs_count(parts->programs);
    file->entries = rt_memory_allocate(count, sizeof *file->entries);
    if (file->entries == NULL) return rt_error_no_memory(error, "compiled kernels");
    set_fill(file, parts);
    for (uint32_t i = 0; i < count && status == RT_OK; i++) {
        const rt_program *program = rt_programs_at(parts->programs, i);
        if (trials || program_is_used(parts, program)) status = binary_add(file, rt_device_cl(parts->device), program, error);
    }
    return status == RT_OK && file->failed ? rt_error_no_memory(error, "compiled kernels") : status;
}

rt_status rt_kernels_save(const rt_parts *parts, const char *path, bool trials, rt_saved_kernels *saved,
                          rt_error *error) {
    writer file = {0};
    if (parts->device == NULL)
        return rt_error_set(error, RT_UNSUPPORTED, "the plan has no compiled kernels: it runs on the CPU");
    rt_status status = writer_fill(&file, parts, trials, error);
    if (status == RT_OK) status = file_write(&file, path, &saved->bytes, error);
    saved->programs = file.set.entry_count;
    rt_memory_free(file.entries);
    rt_memory_free(file.blob);
    rt_memory_free(file.strings);
    return status;
}
