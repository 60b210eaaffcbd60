#include "repack.h"

#include "storage.h"

/* Kernels may read this far behind the last row. */
enum { TAIL_ELEMENTS = 64 };

typedef struct {
    uint64_t rows, cols, block;
} layout;

static uint64_t element_index(const layout *form, uint64_t group, uint64_t row, uint64_t col) {
    uint64_t blocks = rt_ceil_div(form->rows, form->block);
    return ((group * blocks + row / form->block) * form->cols + col) * form->block + row % form->block;
}

static void copy_elements(uint8_t *target, const uint8_t *source, uint64_t groups, const layout *to, const layout *from,
                          uint64_t element) {
    for (uint64_t group = 0; group < groups; group++) {
        for (uint64_t row = 0; row < to->rows; row++) {
            uint8_t *out = target + element_index(to, group, row, 0) * element;
            const uint8_t *in = source + element_index(from, group, row, 0) * element;
            for (uint64_t col = 0; col < to->cols; col++) {
                memcpy(out + col * to->block * element, in + col * from->block * element, element);
            }
        }
    }
}

static const uint8_t *packed_source(const rt_engine *engine, const rt_pack_record *pack) {
    const rt_step_record *step = &engine->plan.steps[pack->step];
    const rt_arg_record *arg = rt_plan_step_args(&engine->plan, step) + pack->arg;
    return engine->pools[arg[0].value].host + arg[1].value * rt_pack_element_bytes(&engine->plan, pack);
}

static rt_status repacked_make(rt_engine *engine, rt_repacked *made, rt_error *error) {
    const rt_pack_record *pack = &engine->plan.packs[made->pack];
    uint64_t element = rt_pack_element_bytes(&engine->plan, pack);
    uint64_t elements = rt_sum(rt_pack_elements(pack, made->block), TAIL_ELEMENTS);
    made->host = rt_memory_allocate_aligned(elements, element);
    if (made->host == NULL) return rt_error_no_memory(error, "repacked weights");
    made->elements = elements;
    layout to = {pack->rows, pack->cols, made->block};
    layout from = {pack->rows, pack->cols, pack->block};
    copy_elements((uint8_t *)made->host, packed_source(engine, pack), pack->groups, &to, &from, element);
    if (made->on_host) return RT_OK;
    rt_status status = rt_storage_constant(engine, made->host, elements * element, false, &made->object, error);
    rt_memory_free_aligned(made->host);
    made->host = NULL;
    return status;
}

rt_status rt_repack_get(rt_engine *engine, uint32_t pack, uint32_t block, bool on_host, const rt_repacked **repacked,
                        rt_error *error) {
    for (uint32_t i = 0; i < engine->repacked_count; i++) {
        const rt_repacked *known = &engine->repacked[i];
        *repacked = known;
        if (known->pack == pack && known->block == block && known->on_host == on_host) return RT_OK;
    }
    rt_repacked *grown = rt_memory_grow(engine->repacked, engine->repacked_count + 1u, sizeof *grown);
    if (grown == NULL) return rt_error_no_memory(error, "repacked weights");
    engine->repacked = grown;
    rt_repacked *made = &grown[engine->repacked_count];
    *made = (rt_repacked){.pack = pack, .block = block, .on_host = on_host};
    rt_status status = repacked_make(engine, made, error);
    if (status != RT_OK) return status;
    engine->repacked_count++;
    *repacked = made;
    return RT_OK;
}

void rt_repack_release(rt_engine *engine) {
    for (uint32_t i = 0; i < engine->repacked_count; i++) {
        if (engine->repacked[i].object != NULL) rt_engine_cl(engine)->ReleaseMemObject(engine->repacked[i].object);
        rt_memory_free_aligned(engine->repacked[i].host);
    }
    rt_memory_free(engine->repacked);
    engine->repacked = NULL;
    engine->repacked_count = 0;
}
