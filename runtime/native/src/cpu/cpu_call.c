/* A CPU step's kernel string is `<operator> KEY=VALUE ...`; the keys are the OpenCL kernels' build options. */
#include "cpu_call.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "../system/allocation.h"
#include "../system/arithmetic.h"
#include "../system/errors.h"
#include "cpu_strided.h"

/* A build may define a shorter list (runtime/native/features.py); what is not on it, nothing refers to, and the linker
 * leaves it out. */
#ifndef RT_CPU_OPERATORS
#define RT_CPU_OPERATORS(X) RT_CPU_ALL_OPERATORS(X)
#define RT_CPU_MISSING "there is none of this name"
#else
#define RT_CPU_MISSING "this farmrt was built without it"
#endif

/* The operators of this build, ended by NULL. */
#define RT_ENTRY(name) &rt_cpu_##name,
static const rt_cpu_operator *const operators[] = {RT_CPU_OPERATORS(RT_ENTRY) NULL};
#undef RT_ENTRY

/* The operator of a name that need not end with a NUL; NULL where there is none. */
static const rt_cpu_operator *operator_find(const char *name, size_t length) {
    for (const rt_cpu_operator *const *entry = operators; *entry != NULL; entry++) {
        if (strlen((*entry)->name) == length && memcmp((*entry)->name, name, length) == 0) return *entry;
    }
    return NULL;
}

/* --- codes --- */

#define RT_KNOWN(field, key, bound) {key, &codes->field, bound},

/* Sets one code from `KEY=VALUE`; false for what is no such word, or a value that the code does not have. Keys that
 * only vary an OpenCL kernel (VECTOR, PIXELS, FMA ...) are passed over. */
static bool code_set(rt_cpu_codes *codes, const char *word, size_t length) {
    const struct {
        const char *key;
        uint32_t *value;
        uint32_t bound;
    } known[] = {RT_OPTIONS(RT_KNOWN)};
    for (size_t i = 0; i < RT_COUNT(known); i++) {
        size_t key_length = strlen(known[i].key);
        if (length < key_length || strncmp(word, known[i].key, key_length) != 0) continue;
        char *end;
        if (word[key_length] < '0' || word[key_length] > '9') return false;
        unsigned long value = strtoul(word + key_length, &end, 10);
        *known[i].value = (uint32_t)value;
        return end == word + length && value < known[i].bound;
    }
    return memchr(word, '=', length) != NULL;
}

#undef RT_KNOWN

/* Reads what follows the operator's name: any number of ` KEY=VALUE`. */
static bool codes_read(rt_cpu_codes *codes, const char *text) {
    while (*text == ' ') {
        size_t length = strcspn(++text, " ");
        if (!code_set(codes, text, length)) return false;
        text += length;
    }
    return *text == '\0';
}

/* --- arguments --- */

/* A call while it is made. */
typedef struct {
    const rt_plan *plan;
    uint32_t step;
    const rt_cpu_users *users;
    rt_repack *repack;
    rt_cpu_call *call;
    rt_error *error;
} maker;

rt_status rt_cpu_step_error(const rt_plan *plan, uint32_t step, rt_status status, const char *problem,
                            rt_error *error) {
    const rt_step_record *record = &plan->steps[step];
    rt_error_set(error, status, "%s: step %u '%s': CPU operator '%.80s': %s", plan->file.name, step,
                 rt_plan_string(plan, record->name), rt_plan_string(plan, record->kernel), problem);
    rt_error_set_step(error, step);
    return status;
}

/* The same for the call that is being made. */
static rt_status bad_step(const maker *make, rt_status status, const char *problem) {
    return rt_cpu_step_error(make->plan, make->step, status, problem, make->error);
}

/* Each of these takes the next argument if it is of its kind, and steps on; else false. */
static bool take_int(const rt_arg_record **arg, const rt_arg_record *end, int32_t *value) {
    if (*arg == end || (*arg)->kind != RT_ARG_KIND_INT) return false;
    memcpy(value, &(*arg)++->value, sizeof *value);
    return true;
}

static bool take_float(const rt_arg_record **arg, const rt_arg_record *end, float *value) {
    if (*arg == end || (*arg)->kind != RT_ARG_KIND_FLOAT) return false;
    memcpy(value, &(*arg)++->value, sizeof *value);
    return true;
}

/* Takes the arguments of a tensor: pool, offset and, for a view, stride; false where one is of another kind or
 * negative. An output must lie in a scratch pool: what is mapped of the data file is never written. */
static bool take_tensor(const maker *make, const rt_arg_record **arg, const rt_arg_record *end, char letter,
                        bool output, rt_cpu_tensor *tensor) {
    const rt_plan *plan = make->plan;
    int32_t offset, stride = 0;
    if (*arg == end || (*arg)->kind != RT_ARG_KIND_POOL) return false;
    tensor->pool = (*arg)++->value;
    if (!take_int(arg, end, &offset) || offset < 0) return false;
    if (letter == 'v' && (!take_int(arg, end, &stride) || stride < 0)) return false;
    tensor->offset = (uint64_t)offset;
    tensor->stride = stride;
    return !output || plan->pools[tensor->pool].kind == RT_POOL_KIND_SCRATCH;
}

/* Element type of a tensor argument; the ints are known by then. */
static uint32_t type_of(const rt_cpu_call *call, uint32_t index) {
    switch (call->operator->tensors[index]) {
        case 'e': return rt_strided_type(call, index);
        case 't': return RT_ELEMENT_TYPE_I32;
        case 'w':
            if (index != RT_CPU_WEIGHTS || !call->codes.weight_bits) return RT_ELEMENT_TYPE_F32;
            return call->codes.weight_bits == RT_HALF_BITS ? RT_ELEMENT_TYPE_F16 : RT_ELEMENT_TYPE_I8;
        case 'b':
        case '1': return RT_ELEMENT_TYPE_U8;
        case '2': return RT_ELEMENT_TYPE_U16;
        case '4': return RT_ELEMENT_TYPE_U32;
        case '8': return RT_ELEMENT_TYPE_U64;
        default: return RT_ELEMENT_TYPE_F32;
    }
}

/* Counts the elements of all tensors. An offset behind the pool is a tensor of no elements, which the operator will not
 * accept. */
static void tensors_count(const maker *make) {
    rt_cpu_call *call = make->call;
    for (uint32_t i = 0; call->operator->tensors[i] != '\0'; i++) {
        rt_cpu_tensor *tensor = &call->tensors[i];
        tensor->type = type_of(call, i);
        tensor->element_bytes = rt_element_bytes(tensor->type);
        if (tensor->element_bytes == 0) continue;
        uint64_t elements = make->plan->pools[tensor->pool].size / tensor->element_bytes;
        tensor->count = elements > tensor->offset ? elements - tensor->offset : 0;
    }
}

/* Takes all arguments in the operator's order, and sees that there are no more. */
static bool arguments_take(const maker *make) {
    const rt_plan *plan = make->plan;
    const rt_step_record *record = &plan->steps[make->step];
    const rt_arg_record *arg = rt_plan_step_args(plan, record);
    const rt_arg_record *end = arg + record->arg_count;
    rt_cpu_call *call = make->call;
    const rt_cpu_operator *row = call->operator;
    for (size_t i = 0; row->tensors[i] != '\0'; i++) {
        if (!take_tensor(make, &arg, end, row->tensors[i], row->tensors[i + 1] == '\0', &call->tensors[i]))
            return false;
    }
    for (uint32_t i = 0; i < row->int_count; i++) {
        if (!take_int(&arg, end, &call->ints[i])) return false;
    }
    for (uint32_t i = 0; i < row->float_count; i++) {
        if (!take_float(&arg, end, &call->floats[i])) return false;
    }
    tensors_count(make);
    return arg == end;
}

/* Whether each int lies within its range. */
static bool ints_in_range(const rt_cpu_call *call) {
    const rt_cpu_operator *row = call->operator;
    const int32_t *value = call->ints, *end = value + (row->ranges ? row->int_count : 0);
    for (const rt_cpu_range *range = row->ranges; value < end; range++) {
        for (uint32_t i = 0; i < range->count; i++, value++) {
            if (*value < range->least || *value > range->most) return false;
        }
    }
    return true;
}

/* --- packed weights --- */

/* Finds the first packing of a step's arguments; false where it has none. */
static bool pack_find(const rt_plan *plan, uint32_t step, uint32_t *index) {
    for (*index = 0; *index < plan->pack_count; ++*index) {
        if (plan->packs[*index].step == step) return true;
    }
    return false;
}

/* Brings weights of another block size into RT_CPU_BLOCK's; the repack owns the copy. The plan's packing must be the
 * one that the operator's sizes say, else its elements would be taken for others: RT_BAD_FILE. */
static rt_status weights_repack(const maker *make) {
    const rt_plan *plan = make->plan;
    rt_cpu_packing needed = make->call->operator->packing(make->call);
    rt_repacked repacked;
    uint32_t index;
    if (!pack_find(plan, make->step, &index)) return bad_step(make, RT_BAD_FILE, "its weights' packing is not told");
    const rt_pack_record *pack = &plan->packs[index];
    if (pack->groups != needed.groups || pack->rows != needed.rows || pack->cols != needed.cols ||
        pack->block != make->call->codes.block) {
        return bad_step(make, RT_BAD_FILE, "its weights' packing differs from its sizes");
    }
    rt_status status = rt_repack_on_host(make->repack, index, RT_CPU_BLOCK, &repacked, make->error);
    if (status != RT_OK) return status;
    rt_cpu_tensor *weights = &make->call->tensors[RT_CPU_WEIGHTS];
    weights->fixed = repacked.data;
    weights->count = repacked.count;
    return RT_OK;
}

/* Whether the operator reads weights of the form that the codes say. */
static bool weights_are_known(const rt_cpu_call *call) {
    uint32_t bits = call->codes.weight_bits, reads = call->operator->narrow_weights;
    if (bits == RT_HALF_BITS) return (reads & RT_READS_HALVES) != 0;
    return bits == 0 || ((reads & RT_READS_INTEGERS) && (bits == 4 || bits == 8));
}

/* --- calls --- */

/* A call with its fault, which is the one thing that runs change. */
typedef struct {
    rt_cpu_call call;
    rt_cpu_fault fault;
} faultable_call;

/* Why there is no operator of a name: a user's has an `@` in it. */
static const char *why_missing(const char *name, size_t length) {
    bool is_users = memchr(name, '@', length) != NULL;
    return is_users ? "the library of custom operators is not given, or has another version of it" : RT_CPU_MISSING;
}

/* Fills a call: its operator, the codes, the arguments, weights in the CPU's block size, then what the operator needs.
 * RT_UNSUPPORTED for an operator that is not known, RT_BAD_FILE for anything else that is wrong with the step; the call
 * is then the caller's to release. */
static rt_status call_fill(const maker *make, const rt_tile_kernels *tiles) {
    rt_cpu_call *call = make->call;
    const char *kernel = rt_plan_string(make->plan, make->plan->steps[make->step].kernel);
    size_t length = strcspn(kernel, " ");
    call->tiles = tiles;
    call->operator= operator_find(kernel, length);
    if (call->operator== NULL) call->operator= rt_cpu_users_find(make->users, kernel, length);
    if (call->operator== NULL) return bad_step(make, RT_UNSUPPORTED, why_missing(kernel, length));
    if (!codes_read(&call->codes, kernel + length)) return bad_step(make, RT_BAD_FILE, "an option is out of range");
    if (!weights_are_known(call)) return bad_step(make, RT_BAD_FILE, "its weights are of a form that it does not read");
    if (!arguments_take(make)) return bad_step(make, RT_BAD_FILE, "its arguments are not the operator's");
    if (!ints_in_range(call)) return bad_step(make, RT_BAD_FILE, "an argument is out of range");
    bool repack = call->operator->packing != NULL && call->codes.block != RT_CPU_BLOCK;
    rt_status status = repack ? weights_repack(make) : RT_OK;
    if (status != RT_OK) return status;
    const char *problem = call->operator->check(call, &call->needs);
    return problem == NULL ? RT_OK : bad_step(make, RT_BAD_FILE, problem);
}

rt_status rt_cpu_call_create(const rt_cpu_call **call, const rt_plan *plan, uint32_t step, const rt_tile_kernels *tiles,
                             const rt_cpu_users *users, rt_repack *repack, rt_error *error) {
    faultable_call *made = rt_memory_allocate(1, sizeof *made);
    *call = NULL;
    if (made == NULL) return rt_error_no_memory(error, "a CPU operator");
    maker make = {plan, step, users, repack, &made->call, error};
    made->call.fault = &made->fault;
    *call = make.call;
    rt_status status = call_fill(&make, tiles);
    if (status != RT_OK) {
        rt_cpu_call_destroy(make.call);
        *call = NULL;
    }
    return status;
}

void rt_cpu_call_destroy(const rt_cpu_call *call) { rt_memory_free((void *)(uintptr_t)call); }

const char *rt_cpu_call_run(const rt_cpu_call *call, const rt_storage *storage, rt_workers *workers) {
    rt_cpu_call *own = (rt_cpu_call *)(uintptr_t)call; /* made by rt_cpu_call_create, and const for others alone */
    for (size_t i = 0; call->operator->tensors[i] != '\0'; i++) {
        rt_cpu_tensor *tensor = &own->tensors[i];
        uint8_t *pool = rt_storage_host(storage, tensor->pool);
        tensor->data = tensor->fixed ? tensor->fixed : pool + tensor->offset * tensor->element_bytes;
    }
    *call->fault = NULL;
    call->operator->run(call, workers);
    return *call->fault;
}
