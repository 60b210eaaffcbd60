/* Arrays in NumPy's file format (.npy, version 1), which the host writes inputs in and reads outputs from.
 * Without state. */
#ifndef RT_ARRAY_H
#define RT_ARRAY_H

#include <stddef.h>
#include <stdint.h>

#include "../include/farmrt.h"
#include "../src/system/file.h"

enum { RT_ARRAY_RANK = 16 };

/* A type of elements: NumPy's word for it, its bytes, and the engines' numbers for it. A value. */
typedef struct {
    const char *word;
    size_t bytes;
    int onnxruntime, litert;
} rt_element;

/* An array, row-major. `data` is not the array's own. A value. */
typedef struct {
    const rt_element *element;
    size_t rank;
    int64_t shape[RT_ARRAY_RANK];
    const void *data;
} rt_array;

/* The type that has this number in ONNX Runtime or, where that is below 0, in LiteRT; NULL where it is none of ours. */
const rt_element *rt_element_find(int onnxruntime, int litert);

/* Bytes of all elements. */
size_t rt_array_bytes(const rt_array *array);

/* Reads a file; the array points into `*file`, which the caller closes. RT_BAD_FILE for what is no such array, else what
 * rt_bytes_open returns. */
rt_status rt_array_read(const char *path, const rt_bytes **file, rt_array *array, rt_error *error);

/* Writes a file; RT_IO. */
rt_status rt_array_write(const char *path, const rt_array *array, rt_error *error);

#endif
