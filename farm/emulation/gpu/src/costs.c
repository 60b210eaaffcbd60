#include "costs.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text.h"

enum { LINES = 1024, TEXT = 256 };

/* A line of the file behind its section. */
typedef struct {
    char section[64], key[TEXT], value[TEXT];
    int number;
} cost_line;

static cost_line lines[LINES];
static size_t line_count;
static const double barrier_macs = 16;
static char file_path[512];

/* Keeps a line; false where it is neither a section, nor a cost. */
static bool line_keep(char *text, int number, char *section) {
    const size_t length = strlen(text);
    char *equals = strchr(text, '=');
    if (text[0] == '[' && text[length - 1] == ']') {
        snprintf(section, sizeof lines->section, "%.*s", (int)length - 2, text + 1);
        return true;
    }
    if (equals == NULL || *section == '\0' || line_count == LINES) return false;
    *equals = '\0';
    cost_line *line = &lines[line_count++];
    line->number = number;
    strcpy(line->section, section);
    snprintf(line->key, sizeof line->key, "%s", played_trim(text));
    snprintf(line->value, sizeof line->value, "%s", played_trim(equals + 1));
    return true;
}

bool played_costs_read(const char *path, char *error, size_t size) {
    char text[2 * TEXT], section[sizeof lines->section] = "";
    bool good = true;
    FILE *file = fopen(path, "r");
    snprintf(file_path, sizeof file_path, "%s", path);
    line_count = 0;
    if (file == NULL) return snprintf(error, size, "%s: %s", path, strerror(errno)), false;
    for (int number = 1; good && fgets(text, sizeof text, file) != NULL; number++) {
        text[strcspn(text, "#\n")] = '\0';
        char *line = played_trim(text);
        good = *line == '\0' || line_keep(line, number, section);
        if (!good) snprintf(error, size, "%s:%d: '[kernel memory]' or 'key = expression' is wanted", path, number);
    }
    fclose(file);
    return good;
}

/* What is stored in fewer bits than the program's numbers, over those: inputs and results in bytes, packed weights. */
static double stored_share(const played_values *values, bool weights, bool write) {
    const double element = played_values_get(values, "element", 7, 4);
    const double bits = weights ? played_values_get(values, "WEIGHT_BITS", 11, 0) : 8;
    const bool in_bytes = (int)played_values_get(values, "BYTES", 5, 0) & (write ? 1 : 4);
    return bits > 0 && (weights || in_bytes) ? bits / 8 / element : 1;
}

/* Reads `read near 1-ORDER,2`: axes are expressions, separated by commas. */
static bool operand_read(const char *key, const played_values *values, played_operand *operand) {
    char axes[TEXT], *rest = NULL, way[8], place[8];
    if (sscanf(key, "%7s %7s %255[^\n]", way, place, axes) != 3) return false;
    operand->write = strcmp(way, "write") == 0;
    operand->near = strcmp(place, "near") == 0;
    operand->weights = strcmp(way, "weights") == 0;
    operand->first_axis = -1;
    operand->bytes *= stored_share(values, operand->weights, operand->write);
    if (!operand->write && !operand->weights && strcmp(way, "read") != 0) return false;
    if (!operand->near && strcmp(place, "far") != 0) return false;
    for (char *word = strtok_r(axes, ",", &rest); word != NULL; word = strtok_r(NULL, ",", &rest)) {
        double axis;
        if (!played_evaluate(word, values, &axis) || axis < 0 || axis > 2) return false;
        operand->axis[(int)axis] = true;
        if (operand->first_axis < 0) operand->first_axis = (int)axis;
    }
    return true;
}

static bool line_apply(const cost_line *line, const played_values *values, played_work *work) {
    double value;
    if (!played_evaluate(line->value, values, &value)) return false;
    if (strcmp(line->key, "macs") == 0) return work->macs = value, true;
    if (strcmp(line->key, "registers") == 0) return work->registers = value, true;
    if (strcmp(line->key, "access") == 0) return work->access = value * stored_share(values, false, false), true;
    if (work->count == PLAYED_OPERANDS) return false;
    played_operand *operand = &work->operands[work->count++];
    *operand = (played_operand){.bytes = value};
    return operand_read(line->key, values, operand);
}

/* Applies all lines of a section; `found` tells whether it has any. */
static bool section_apply(const char *name, const played_values *values, played_work *work, bool *found, char *error,
                          size_t size) {
    for (size_t i = 0; i < line_count; i++) {
        if (strcmp(lines[i].section, name) != 0) continue;
        *found = true;
        if (line_apply(&lines[i], values, work)) continue;
        return snprintf(error, size, "%s:%d: cannot be read", file_path, lines[i].number), false;
    }
    return true;
}

bool played_costs_of(const char *kernel, bool image, played_values *values, played_work *work, char *error,
                     size_t size) {
    char section[sizeof lines->section];
    bool found = false;
    const double precision = played_values_get(values, "PRECISION", 9, 0);
    played_values_set(values, "element", 7, precision > 0 ? 2 : 4);
    played_values_set(values, "real", 4, precision > 1 ? 2 : 4);
    const double lanes = played_values_get(values, "LANES", 5, 1);
    const bool by_waves = played_values_get(values, "SUBGROUPS", 9, 0) > 0;
    played_values_set(values, "joining", 7, lanes <= 1 ? 0 : by_waves ? log2(lanes) : lanes + 2 * barrier_macs);
    played_values_set(values, "dots", 4, played_values_get(values, "DOT", 3, 0) > 0 ? 4 : 1);
    *work = (played_work){.image = image, .half = precision > 1, .registers = 16, .access = 16};
    work->constant = played_values_get(values, "CONSTANT", 8, 0) > 0;
    work->fma = (int)played_values_get(values, "FMA", 3, 0);
    snprintf(section, sizeof section, "%s %s", kernel, image ? "image" : "buffer");
    if (!section_apply(section, values, work, &found, error, size)) return false;
    if (found) return true;
    return section_apply(image ? "* image" : "* buffer", values, work, &found, error, size);
}
