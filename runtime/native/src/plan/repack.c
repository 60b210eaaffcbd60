/* Tuned launches may want weights in blocks of another size, and so do CPU operators. They are copied once, when a
 * kernel or call is made that wants them, so that no launch waits for it. */
#include "repack.h"

#include <stdbool.h>
#include <string.h>

#include "../system/allocation.h"
#include "../system/arithmetic.h"
#include "../system/errors.h"

/* Kernels may read this far behind the last row. */
enum { TAIL_ELEMENTS = 64 };

/* One form of weights: the key, and the result on the side that was asked for. */
typedef struct {
    uint32_t pack, block;
    bool on_host;
    cl_mem object;
    rt_repacked host;
} form;

struct rt_repack {
    const rt_plan *plan;
    const rt_device *device;
    form *forms;
    uint32_t form_count;
};

/* How the rows of a group lie: in blocks, whose elements of one column are neighbours. */
typedef struct {
    uint64_t rows, cols, block;
} layout;

/* Position of an element, in elements from the first. */
static uint64_t element_index(const layout *in, uint64_t group, uint64_t row, uint64_t col) {
    uint64_t blocks = rt_ceil_div(in->rows, in->block);
    return ((group * blocks + row / in->block) * in->cols + col) * in->block + row % in->block;
}

/* Copies every element from one layout to another; what fills the last blocks of the target is left as it is. */
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

/* The packed weights as they lie in the plan's data. */
static const uint8_t *packed_source(const rt_plan *plan, const rt_pack_record *pack) {
    const rt_arg_record *arg = rt_plan_step_args(plan, &plan->steps[pack->step]) + pack->arg;
    return plan->data + plan->pools[arg[0].value].data_offset + arg[1].value * rt_pack_element_bytes(plan, pack);
}

/* Fills the host's side of a form, then moves it to the device where it belongs there. RT_NO_MEMORY or RT_OPENCL; the
 * form then owns nothing. */
static rt_status form_make(const rt_repack *repack, form *made, rt_error *error) {
    const rt_pack_record *pack = &repack->plan->packs[made->pack];
    uint64_t element = rt_pack_element_bytes(repack->plan, pack);
    uint64_t elements = rt_sum(rt_pack_elements(pack, made->block), TAIL_ELEMENTS);
    made->host.data = rt_memory_allocate_aligned(elements, element);
    if (made->host.data == NULL) return rt_error_no_memory(error, "repacked weights");
    made->host.count = elements;
    layout to = {pack->rows, pack->cols, made->block};
    layout from = {pack->rows, pack->cols, pack->block};
    copy_elements((uint8_t *)made->host.data, packed_source(repack->plan, pack), pack->groups, &to, &from, element);
    if (made->on_host) return RT_OK;
    rt_status status =
        rt_device_constant(repack->device, made->host.data, elements * element, false, &made->object, error);
    rt_memory_free_aligned(made->host.data);
    made->host.data = NULL;
    return status;
}

/* The form of a key, made at the first request; it stays valid until the next call. */
static rt_status form_get(rt_repack *repack, uint32_t pack, uint32_t block, bool on_host, const form **found,
                          rt_error *error) {
    for (uint32_t i = 0; i < repack->form_count; i++) {
        const form *known = &repack->forms[i];
        *found = known;
        if (known->pack == pack && known->block == block && known->on_host == on_host) return RT_OK;
    }
    form *grown = rt_memory_grow(repack->forms, repack->form_count + 1u, sizeof *grown);
    if (grown == NULL) return rt_error_no_memory(error, "repacked weights");
    repack->forms = grown;
    form *made = &grown[repack->form_count];
    /* Not counted until it is made, so that a failure leaves the list as it was. */
    *made = (form){.pack = pack, .block = block, .on_host = on_host};
    rt_status status = form_make(repack, made, error);
    if (status != RT_OK) return status;
    repack->form_count++;
    *found = made;
    return RT_OK;
}

rt_status rt_repack_on_device(rt_repack *repack, uint32_t pack, uint32_t block, cl_mem *object, rt_error *error) {
    const form *found;
    rt_status status = form_get(repack, pack, block, false, &found, error);
    if (status == RT_OK) *object = found->object;
    return status;
}

rt_status rt_repack_on_host(rt_repack *repack, uint32_t pack, uint32_t block, rt_repacked *weights, rt_error *error) {
    const form *found;
    rt_status status = form_get(repack, pack, block, true, &found, error);
    if (status == RT_OK) *weights = found->host;
    return status;
}

rt_status rt_repack_create(rt_repack **repack, const rt_plan *plan, const rt_device *device, rt_error *error) {
    rt_repack *made = *repack = rt_memory_allocate(1, sizeof *made);
    if (made == NULL) return rt_error_no_memory(error, "repacked weights");
    *made = (rt_repack){.plan = plan, .device = device};
    return RT_OK;
}

void rt_repack_destroy(rt_repack *repack) {
    if (repack == NULL) return;
    for (uint32_t i = 0; i < repack->form_count; i++) {
        const form *own = &repack->forms[i];
        if (own->object != NULL) rt_device_cl(repack->device)->ReleaseMemObject(own->object);
        rt_memory_free_aligned(own->host.data);
    }
    rt_memory_free(repack->forms);
    rt_memory_free(repack);
}
