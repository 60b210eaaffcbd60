/* Buffers and images within the profile's limits. */
#include "played.h"

#include <stdbool.h>

#include "memory.h"
#include "objects.h"

/* What is kept for a memory object. */
typedef struct {
    int references;
    size_t size;
    bool fails_late;
} kept_memory;

static size_t used_bytes; /* changed atomically: programs are built, and memory made, in several threads */

static cl_mem memory_keep(cl_mem made, size_t size, bool fails_late) {
    kept_memory *kept = made != NULL ? played_object_add(played_adopt(made), sizeof *kept) : NULL;
    if (kept != NULL) *kept = (kept_memory){1, size, fails_late};
    if (kept != NULL) __atomic_add_fetch(&used_bytes, size, __ATOMIC_SEQ_CST);
    return made;
}

/* CL_SUCCESS where there is room for so many bytes more. */
static cl_int room_check(double size) {
    const double mb = 1024 * 1024;
    if (size > played.profile.max_allocation_mb * mb) return CL_INVALID_BUFFER_SIZE;
    const double used = (double)__atomic_load_n(&used_bytes, __ATOMIC_SEQ_CST);
    return used + size > played.profile.memory_mb * mb ? CL_MEM_OBJECT_ALLOCATION_FAILURE : CL_SUCCESS;
}

/* The flags that the driver behind is given: on some GPUs memory of the host is copied when the object is made. */
static cl_bitfield flags_of(cl_bitfield flags) {
    if (!(flags & CL_MEM_USE_HOST_PTR) || played.profile.host_ptr == PLAYED_IN_PLACE) return flags;
    return (flags & ~(cl_bitfield)CL_MEM_USE_HOST_PTR) | CL_MEM_COPY_HOST_PTR;
}

static bool fails_late(cl_bitfield flags) {
    return (flags & CL_MEM_USE_HOST_PTR) && played.profile.host_ptr == PLAYED_FAILS_LATE;
}

cl_mem played_CreateBuffer(cl_context context, cl_bitfield flags, size_t size, void *host, cl_int *code) {
    const cl_int refused = room_check((double)size);
    if (refused != CL_SUCCESS) return played_refuse(code, refused);
    cl_mem made = played.real.CreateBuffer(context, flags_of(flags), size, host, code);
    return memory_keep(made, size, fails_late(flags));
}

cl_mem played_CreateSubBuffer(cl_mem whole, cl_bitfield flags, cl_uint type, const void *region, cl_int *code) {
    return memory_keep(played.real.CreateSubBuffer(whole, flags, type, region, code), 0, false);
}

/* Bytes of a pixel: four channels of float or half, which is what kernels here use; others count as floats. */
static double pixel_bytes(const cl_image_format *format) {
    return format->type == CL_SIGNED_INT8 ? 4 : format->type == CL_HALF_FLOAT ? 8 : 16;
}

/* CL_SUCCESS for an image within the limits. */
static cl_int image_check(const cl_image_format *format, double width, double height) {
    const played_profile *p = &played.profile;
    if (p->image_width == 0) return CL_INVALID_OPERATION;
    if (width > p->image_width || height > p->image_height) return CL_INVALID_IMAGE_SIZE;
    const cl_int refused = room_check(width * height * pixel_bytes(format));
    return refused == CL_INVALID_BUFFER_SIZE ? CL_MEM_OBJECT_ALLOCATION_FAILURE : refused;
}

cl_mem played_CreateImage2D(cl_context context, cl_bitfield flags, const cl_image_format *format, size_t width,
                            size_t height, size_t pitch, void *host, cl_int *code) {
    const cl_int refused = image_check(format, (double)width, (double)height);
    if (refused != CL_SUCCESS) return played_refuse(code, refused);
    cl_mem made = played.real.CreateImage2D(context, flags_of(flags), format, width, height, pitch, host, code);
    return memory_keep(made, width * height * (size_t)pixel_bytes(format), fails_late(flags));
}

cl_mem played_CreateImage(cl_context context, cl_bitfield flags, const cl_image_format *format,
                          const played_image_desc *desc, void *host, cl_int *code) {
    const size_t height = desc->height ? desc->height : 1;
    const double pitch = played.profile.image_pitch * pixel_bytes(format);
    cl_int refused = image_check(format, (double)desc->width, (double)height);
    if (desc->buffer != NULL && pitch > 0 && desc->row_pitch % (size_t)pitch != 0) {
        refused = CL_INVALID_IMAGE_FORMAT_DESCRIPTOR;
    }
    if (refused != CL_SUCCESS) return played_refuse(code, refused);
    cl_mem made = played.real.CreateImage(context, flags_of(flags), format, desc, host, code);
    const size_t own = desc->buffer != NULL ? 0 : desc->width * height * (size_t)pixel_bytes(format);
    return memory_keep(made, own, fails_late(flags));
}

PLAYED_REFERENCES(MemObject, cl_mem, kept_memory, __atomic_sub_fetch(&used_bytes, kept->size, __ATOMIC_SEQ_CST))

bool played_memory_fails(cl_mem object) {
    const kept_memory *kept = played_object_find(object);
    return kept != NULL && kept->fails_late;
}
