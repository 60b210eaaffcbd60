#include "values.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "text.h"

static size_t place_of(const played_values *values, const char *name, size_t length) {
    for (size_t i = 0; i < values->count; i++) {
        if (strncmp(values->name[i], name, length) == 0 && values->name[i][length] == '\0') return i;
    }
    return values->count;
}

void played_values_set(played_values *values, const char *name, size_t length, double value) {
    if (length >= PLAYED_NAME) return;
    const size_t place = place_of(values, name, length);
    if (place == PLAYED_VALUES) return;
    if (place == values->count) {
        memcpy(values->name[place], name, length);
        values->name[place][length] = '\0';
        values->count++;
    }
    values->value[place] = value;
}

double played_values_get(const played_values *values, const char *name, size_t length, double otherwise) {
    if (length >= PLAYED_NAME) return otherwise;
    const size_t place = place_of(values, name, length);
    return place < values->count ? values->value[place] : otherwise;
}

void played_values_options(played_values *values, const char *options) {
    for (const char *next = options; next != NULL && (next = strstr(next, "-D")) != NULL;) {
        next += 2;
        size_t length = 0;
        while (played_in_name(next[length])) length++;
        const double value = next[length] == '=' ? strtod(next + length + 1, NULL) : 1;
        if (length > 0) played_values_set(values, next, length, value);
    }
}

/* --- expressions: one function a level of binding --- */

typedef struct {
    const char *text;
    const played_values *values;
    bool good;
} reader;

static double sum_read(reader *at);

static bool take(reader *at, char wanted) {
    while (isspace((unsigned char)*at->text)) at->text++;
    if (*at->text != wanted) return false;
    at->text++;
    return true;
}

static void need(reader *at, char wanted) {
    if (!take(at, wanted)) at->good = false;
}

static double call_read(reader *at, const char *name, size_t length) {
    const double a = sum_read(at);
    const double b = take(at, ',') ? sum_read(at) : 0;
    need(at, ')');
    if (length == 2 && strncmp(name, "up", 2) == 0) return ceil(a);
    if (length == 2 && strncmp(name, "or", 2) == 0) return a != 0 ? a : b;
    if (length == 5 && strncmp(name, "least", 5) == 0) return fmin(a, b);
    if (length == 4 && strncmp(name, "most", 4) == 0) return fmax(a, b);
    at->good = false;
    return 0;
}

static double atom_read(reader *at) {
    char *end;
    if (take(at, '(')) {
        const double inner = sum_read(at);
        need(at, ')');
        return inner;
    }
    const char *name = at->text;
    size_t length = 0;
    if (isdigit((unsigned char)*name)) {
        const double number = strtod(name, &end);
        at->text = end;
        return number;
    }
    while (played_in_name(name[length])) length++;
    at->text += length;
    if (length == 0) at->good = false;
    return length > 0 && take(at, '(') ? call_read(at, name, length)
                                       : played_values_get(at->values, name, length, 0);
}

static double product_read(reader *at) {
    double value = atom_read(at);
    for (;;) {
        if (take(at, '*')) {
            value *= atom_read(at);
        } else if (take(at, '/')) {
            const double by = atom_read(at);
            value = by != 0 ? value / by : 0;
        } else {
            return value;
        }
    }
}

static double sum_read(reader *at) {
    double value = product_read(at);
    for (;;) {
        if (take(at, '+')) {
            value += product_read(at);
        } else if (take(at, '-')) {
            value -= product_read(at);
        } else {
            return value;
        }
    }
}

bool played_evaluate(const char *text, const played_values *values, double *result) {
    reader at = {text, values, true};
    *result = sum_read(&at);
    return take(&at, '\0') && at.good;
}
