#include "signature.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text.h"

static const char begin[] = "kernel void ";

/* The next kernel from `source` on: its name and length; NULL behind the last. */
static const char *kernel_next(const char *source, size_t *length) {
    while ((source = strstr(source, begin)) != NULL) {
        source += sizeof begin - 1;
        for (*length = 0; played_in_name(source[*length]);) ++*length;
        if (*length > 0 && source[*length] == '(') return source;
    }
    return NULL;
}

static int kind_of(const char *declaration) {
    if (strstr(declaration, "image2d_t")) {
        return strstr(declaration, "write_only") ? PLAYED_WRITE_IMAGE : PLAYED_READ_IMAGE;
    }
    if (strchr(declaration, '*')) return strstr(declaration, "local ") ? PLAYED_LOCAL : PLAYED_POINTER;
    return strstr(declaration, "float") ? PLAYED_FLOAT : PLAYED_INT;
}

/* Reads one declaration: its last name, and what it is. */
static void argument_read(played_signature *made, char *declaration) {
    char *text = played_trim(declaration);
    size_t start = strlen(text);
    if (start == 0 || made->count == PLAYED_ARGUMENTS) return;
    while (start > 0 && played_in_name(text[start - 1])) start--;
    snprintf(made->name[made->count], PLAYED_NAME, "%s", text + start);
    made->kind[made->count] = kind_of(text);
    made->image = made->image || made->kind[made->count] >= PLAYED_READ_IMAGE;
    made->count++;
}

/* Reads what stands between the parentheses at `open`. */
static played_signature arguments_read(const char *open) {
    played_signature made = {.count = 0};
    char text[8192], *rest = NULL;
    snprintf(text, sizeof text, "%.*s", (int)strcspn(open + 1, ")"), open + 1);
    for (char *word = strtok_r(text, ",", &rest); word != NULL; word = strtok_r(NULL, ",", &rest)) {
        argument_read(&made, word);
    }
    return made;
}

played_signature played_signature_of(const char *source, const char *kernel) {
    size_t length;
    for (const char *name = source; (name = kernel_next(name, &length)) != NULL;) {
        if (length == strlen(kernel) && strncmp(name, kernel, length) == 0) return arguments_read(name + length);
    }
    return (played_signature){.count = 0};
}

/* Whether a kernel stood in the source before. */
static bool is_repeated(const char *source, const char *kernel, size_t length) {
    size_t other;
    for (const char *name = source; (name = kernel_next(name, &other)) != NULL && name < kernel;) {
        if (other == length && strncmp(name, kernel, length) == 0) return true;
    }
    return false;
}

char *played_empty_source(const char *source) {
    static const char *const words[] = {"int", "float", "global char *", "local char *", "read_only image2d_t",
                                        "write_only image2d_t"};
    char *text = NULL;
    size_t length, size = 0;
    FILE *file = open_memstream(&text, &size);
    if (file == NULL) return NULL;
    for (const char *name = source; (name = kernel_next(name, &length)) != NULL;) {
        if (is_repeated(source, name, length)) continue;
        const played_signature signature = arguments_read(name + length);
        fprintf(file, "kernel void %.*s(", (int)length, name);
        for (size_t i = 0; i < signature.count; i++) {
            fprintf(file, "%s%s a%zu", i ? ", " : "", words[signature.kind[i]], i);
        }
        fprintf(file, ") {}\n");
    }
    return fclose(file) == 0 ? text : NULL;
}
