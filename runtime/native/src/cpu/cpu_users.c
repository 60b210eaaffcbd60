/* A step's ints are: the items, the elements of each tensor (0 for one that is absent), then those of the function. */
#include "cpu_users.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "../../include/farmrt_operators.h"
#include "../system/allocation.h"
#include "../system/arithmetic.h"
#include "../system/errors.h"

enum { MAX_OPERATORS = 1024, TURNS_A_WORKER = 8, MAX_PATH = 4096 };

/* A row with what stands behind it; the row is the first member, so that its address is this one's. */
typedef struct {
    rt_cpu_operator row;
    const rt_user_operator *user;
} user_row;

struct rt_cpu_users {
    void *library; /* NULL for a table of the program */
    uint32_t count;
    user_row *rows;
};

static const rt_user_operator *user_of(const rt_cpu_call *call) { return ((const user_row *)call->operator)->user; }

/* --- a call --- */

static const char *user_check(const rt_cpu_call *call, rt_cpu_needs *needs) {
    const rt_user_operator *user = user_of(call);
    size_t tensors = strlen(user->tensors);
    if (call->ints[0] < 1 || call->ints[tensors] < 1) return "a size is out of range";
    for (size_t i = 0; i < tensors; i++) {
        const rt_cpu_tensor *tensor = &call->tensors[i];
        if (call->ints[1 + i] < 0) return "a size is out of range";
        if ((uint64_t)call->ints[1 + i] > tensor->count) return "a tensor exceeds its pool";
        needs->work = rt_sum(needs->work, (uint64_t)call->ints[1 + i]);
    }
    return NULL;
}

/* A share of the items. */
typedef struct {
    const rt_user_operator *user;
    rt_operator_arguments arguments;
    int64_t items, items_a_turn;
} job;

/* A turn: some neighbouring items. */
static void turn_run(const void *context, uint32_t turn, uint32_t worker) {
    const job *all = context;
    (void)worker;
    int64_t first = turn * all->items_a_turn, end = first + all->items_a_turn;
    all->user->run(&all->arguments, first, end < all->items ? end : all->items);
}

static void user_run(const rt_cpu_call *call, rt_workers *workers) {
    const rt_user_operator *user = user_of(call);
    size_t tensors = strlen(user->tensors);
    void *data[RT_CPU_MAX_TENSORS];
    for (size_t i = 0; i < tensors; i++) {
        data[i] = call->ints[1 + i] > 0 ? call->tensors[i].data : NULL;
    }
    int64_t items = call->ints[0];
    int64_t turns = (int64_t)rt_workers_count(workers) * TURNS_A_WORKER;
    int64_t items_a_turn = (int64_t)rt_ceil_div((uint64_t)items, (uint64_t)turns);
    job all = {user, {data, call->ints + 1 + tensors, call->floats}, items, items_a_turn};
    rt_workers_run(workers, (uint32_t)rt_ceil_div((uint64_t)items, (uint64_t)items_a_turn), turn_run, &all);
}

/* --- the table --- */

/* Whether an entry is one that a row can stand for. */
static bool is_usable(const rt_user_operator *user) {
    if (user == NULL || user->name == NULL || user->tensors == NULL || user->run == NULL) return false;
    size_t tensors = strlen(user->tensors);
    if (tensors == 0 || tensors > RT_CPU_MAX_TENSORS || strspn(user->tensors, "1248") != tensors) return false;
    return user->int_count <= RT_CPU_MAX_INTS - 1 - tensors && user->float_count <= RT_CPU_MAX_FLOATS;
}

static void row_fill(user_row *row, const rt_user_operator *user) {
    size_t tensors = strlen(user->tensors);
    row->user = user;
    row->row = (rt_cpu_operator){.name = user->name,
                                 .tensors = user->tensors,
                                 .int_count = (uint32_t)(1 + tensors) + user->int_count,
                                 .float_count = user->float_count,
                                 .check = user_check,
                                 .run = user_run};
}

/* Makes a row of each entry; `what` has the table, for messages. */
static rt_status rows_fill(rt_cpu_users *users, const rt_operator_table *table, const char *what, rt_error *error) {
    if (table->version != RT_OPERATOR_TABLE_VERSION || table->count > MAX_OPERATORS || table->operators == NULL) {
        return rt_error_set(error, RT_UNSUPPORTED, "%s: a table of operators that this farmrt does not know", what);
    }
    users->rows = rt_memory_allocate(table->count + (size_t)1, sizeof *users->rows);
    if (users->rows == NULL) return rt_error_no_memory(error, "the operators of a library");
    for (; users->count < table->count; users->count++) {
        const rt_user_operator *user = table->operators[users->count];
        if (!is_usable(user)) return rt_error_set(error, RT_UNSUPPORTED, "%s: operator %u is damaged", what, users->count);
        row_fill(&users->rows[users->count], user);
    }
    return RT_OK;
}

/* Opens a library; a name without a slash is one in the working folder, never one that the system would find. */
static rt_status library_open(rt_cpu_users *users, const char *path, rt_error *error) {
    char local[MAX_PATH];
    int length = snprintf(local, sizeof local, "%s%s", strchr(path, '/') ? "" : "./", path);
    if (length < 0 || (size_t)length >= sizeof local) return rt_error_set(error, RT_IO, "a path that is too long");
    users->library = dlopen(local, RTLD_NOW | RTLD_LOCAL);
    if (users->library == NULL) return rt_error_set(error, RT_IO, "custom operators: %s", dlerror());
    const rt_operator_table *table = dlsym(users->library, RT_OPERATOR_TABLE_SYMBOL);
    if (table == NULL) return rt_error_set(error, RT_UNSUPPORTED, "%s: no library of custom operators", path);
    return rows_fill(users, table, path, error);
}

rt_status rt_cpu_users_open(rt_cpu_users **users, const rt_options *options, rt_error *error) {
    *users = NULL;
    if (options->operators_path == NULL && options->operators == NULL) return RT_OK;
    rt_cpu_users *made = rt_memory_allocate(1, sizeof *made);
    if (made == NULL) return rt_error_no_memory(error, "the operators of a library");
    rt_status status = options->operators_path ? library_open(made, options->operators_path, error)
                                               : rows_fill(made, options->operators, "operators", error);
    if (status == RT_OK) {
        *users = made;
    } else {
        rt_cpu_users_close(made);
    }
    return status;
}

void rt_cpu_users_close(rt_cpu_users *users) {
    if (users == NULL) return;
    rt_memory_free(users->rows);
    if (users->library != NULL) dlclose(users->library);
    rt_memory_free(users);
}

const rt_cpu_operator *rt_cpu_users_find(const rt_cpu_users *users, const char *name, size_t length) {
    for (uint32_t i = 0; users != NULL && i < users->count; i++) {
        const rt_cpu_operator *row = &users->rows[i].row;
        if (strlen(row->name) == length && memcmp(row->name, name, length) == 0) return row;
    }
    return NULL;
}
