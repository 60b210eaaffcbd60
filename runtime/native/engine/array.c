/* The format (numpy.lib.format): "\x93NUMPY", the version's two bytes, the length of the header in two, a Python
 * dictionary as text that ends where a multiple of 64 bytes does, and the elements. */
#include "array.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../src/system/arithmetic.h"
#include "../src/system/errors.h"

enum { PREFIX = 10, ALIGNMENT = 64, HEADER = 1024 };

static const char magic[] = "\x93NUMPY\x01";

/* ONNXTensorElementDataType and TfLiteType. */
static const rt_element elements[] = {
    {"<f4", 4, 1, 1}, {"|u1", 1, 2, 3},   {"|i1", 1, 3, 9},   {"<u2", 2, 4, 17},  {"<i2", 2, 5, 7},   {"<i4", 4, 6, 2},
    {"<i8", 8, 7, 4}, {"|b1", 1, 9, 6},   {"<f2", 2, 10, 10}, {"<f8", 8, 11, 11}, {"<u4", 4, 12, 16}, {"<u8", 8, 13, 13},
};

const rt_element *rt_element_find(int onnxruntime, int litert) {
    for (size_t i = 0; i < RT_COUNT(elements); i++) {
        if (onnxruntime < 0 ? elements[i].litert == litert : elements[i].onnxruntime == onnxruntime) return elements + i;
    }
    return NULL;
}

size_t rt_array_bytes(const rt_array *array) {
    uint64_t bytes = array->element->bytes;
    for (size_t i = 0; i < array->rank; i++) bytes = rt_product(bytes, (uint64_t)array->shape[i]);
    return (size_t)bytes;
}

/* What stands behind a key of the dictionary; an empty text where it is missing. */
static const char *value_find(const char *header, const char *key) {
    const char *found = strstr(header, key);
    return found != NULL ? found + strlen(key) : "";
}

/* Reads the dictionary; false where it is not of a row-major array of a known type and rank. */
static bool header_parse(const char *header, rt_array *array) {
    const char *type = value_find(header, "'descr': '"), *end = value_find(header, "'shape': (");
    for (size_t i = 0; i < RT_COUNT(elements); i++) {
        if (strncmp(type, elements[i].word, strlen(elements[i].word)) == 0) array->element = elements + i;
    }
    if (array->element == NULL || strncmp(value_find(header, "'fortran_order': "), "False", 5) != 0) return false;
    for (char *next; *end >= '0' && *end <= '9'; end = next + strspn(next, ", ")) {
        if (array->rank == RT_ARRAY_RANK) return false;
        array->shape[array->rank++] = strtoll(end, &next, 10);
    }
    return *end == ')';
}

rt_status rt_array_read(const char *path, const rt_bytes **file, rt_array *array, rt_error *error) {
    char header[HEADER] = "";
    rt_status status = rt_bytes_open(file, &(rt_source){.path = path}, RT_READING_COPY, error);
    if (status != RT_OK) return status;
    const uint8_t *data = (*file)->data;
    size_t size = (*file)->size, length = size > PREFIX ? data[8] | (size_t)data[9] << 8 : HEADER;
    *array = (rt_array){0};
    if (length < HEADER && PREFIX + length <= size && memcmp(data, magic, sizeof magic - 1) == 0) {
        memcpy(header, data + PREFIX, length);
        array->data = data + PREFIX + length;
        if (header_parse(header, array) && rt_array_bytes(array) == size - PREFIX - length) return RT_OK;
    }
    return rt_error_set(error, RT_BAD_FILE, "%s: no row-major array of a type that engines have", path);
}

rt_status rt_array_write(const char *path, const rt_array *array, rt_error *error) {
    char header[HEADER], shape[RT_ARRAY_RANK * 24] = "";
    for (size_t i = 0, used = 0; i < array->rank; i++) {
        used += (size_t)snprintf(shape + used, sizeof shape - used, "%lld,", (long long)array->shape[i]);
    }
    const char *text = "{'descr': '%s', 'fortran_order': False, 'shape': (%s), }";
    size_t length = (size_t)snprintf(header, sizeof header, text, array->element->word, shape);
    size_t padded = rt_ceil_div(PREFIX + length + 1, ALIGNMENT) * ALIGNMENT - PREFIX, bytes = rt_array_bytes(array);
    memset(header + length, ' ', padded - length);
    header[padded - 1] = '\n';
    FILE *file = fopen(path, "wb");
    if (file == NULL) return rt_error_set(error, RT_IO, "%s: cannot be written", path);
    const char lengths[] = {'\0', (char)(padded & 0xff), (char)(padded >> 8)}; /* behind the version's second byte */
    bool written = fwrite(magic, 1, sizeof magic - 1, file) == sizeof magic - 1 &&
                   fwrite(lengths, 1, sizeof lengths, file) == sizeof lengths &&
                   fwrite(header, 1, padded, file) == padded && fwrite(array->data, 1, bytes, file) == bytes;
    if (fclose(file) != 0 || !written) return rt_error_set(error, RT_IO, "%s: cannot be written whole", path);
    return RT_OK;
}
