#include "profile.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text.h"

typedef struct {
    const char *key, *words, *value;
    char kind; /* `t`ext, `c`hoice, `n`umber: the first letter of its type */
    size_t offset;
} key_row;

static const key_row rows[] = {
#define ROW(type, key, words, value) {#key, words, value, #type[0], offsetof(played_profile, key)},
    PLAYED_KEYS(ROW)
#undef ROW
};
enum { ROWS = sizeof rows / sizeof *rows };

/* The index of a word in `a|b|c`; -1 where it is none of them. */
static int word_index(const char *words, const char *word) {
    const size_t length = strlen(word);
    for (int index = 0;; index++) {
        const size_t own = strcspn(words, "|");
        if (own == length && strncmp(words, word, own) == 0) return index;
        if (words[own] == '\0') return -1;
        words += own + 1;
    }
}

static bool number_read(const char *text, double *number) {
    char *end;
    *number = strtod(text, &end);
    return end != text && *end == '\0' && isfinite(*number) && *number >= 0;
}

/* Stores a value; false with what is wrong with it. */
static bool row_set(played_profile *profile, const key_row *row, const char *value, char *error, size_t size) {
    void *member = (char *)profile + row->offset;
    if (row->kind == 't') {
        if (strlen(value) < PLAYED_TEXT) return strcpy(member, value), true;
        return snprintf(error, size, "%s: longer than %d bytes", row->key, PLAYED_TEXT - 1), false;
    }
    if (row->kind == 'n') {
        if (number_read(value, member)) return true;
        return snprintf(error, size, "%s: a number from 0 on is wanted, not '%s'", row->key, value), false;
    }
    *(played_choice *)member = word_index(row->words, value);
    if (*(played_choice *)member >= 0) return true;
    return snprintf(error, size, "%s: one of %s is wanted, not '%s'", row->key, row->words, value), false;
}

static const key_row *row_find(const char *key) {
    for (size_t i = 0; i < ROWS; i++) {
        if (strcmp(rows[i].key, key) == 0) return &rows[i];
    }
    return NULL;
}

/* Reads one `key = value`; `seen` has a flag for each key, NULL where a key may come again. */
static bool setting_read(played_profile *profile, char *line, bool *seen, char *error, size_t size) {
    char *equals = strchr(line, '=');
    if (equals == NULL) return snprintf(error, size, "'key = value' is wanted, not '%s'", line), false;
    *equals = '\0';
    const char *key = played_trim(line), *value = played_trim(equals + 1);
    const key_row *row = row_find(key);
    if (row == NULL) return snprintf(error, size, "unknown key '%s'; docs/emulation.md lists them", key), false;
    if (seen != NULL && seen[row - rows]) return snprintf(error, size, "%s: given twice", key), false;
    if (seen != NULL) seen[row - rows] = true;
    return row_set(profile, row, value, error, size);
}

static bool file_read(played_profile *profile, const char *path, char *error, size_t size) {
    char line[4 * PLAYED_TEXT], problem[4 * PLAYED_TEXT + 64];
    bool seen[ROWS] = {0}, good = true;
    FILE *file = fopen(path, "r");
    if (file == NULL) return snprintf(error, size, "%s: %s", path, strerror(errno)), false;
    for (int number = 1; good && fgets(line, sizeof line, file) != NULL; number++) {
        line[strcspn(line, "#")] = '\0';
        char *text = played_trim(line);
        good = *text == '\0' || setting_read(profile, text, seen, problem, sizeof problem);
        if (!good) snprintf(error, size, "%s:%d: %s", path, number, problem);
    }
    fclose(file);
    return good;
}

static bool overrides_read(played_profile *profile, const char *given, char *error, size_t size) {
    char text[4 * PLAYED_TEXT], problem[4 * PLAYED_TEXT + 64], *rest = NULL;
    if (snprintf(text, sizeof text, "%s", given) >= (int)sizeof text) {
        return snprintf(error, size, "keys: too long"), false;
    }
    for (char *word = strtok_r(text, ",", &rest); word != NULL; word = strtok_r(NULL, ",", &rest)) {
        if (setting_read(profile, word, NULL, problem, sizeof problem)) continue;
        return snprintf(error, size, "keys: %s", problem), false;
    }
    return true;
}

/* What the model divides by must not be 0. */
static bool whole(const played_profile *p, const char *path, char *error, size_t size) {
    const struct {
        const char *key;
        double value;
    } needed[] = {{"compute_units", p->compute_units}, {"clock_mhz", p->clock_mhz},
                  {"max_work_group", p->max_work_group}, {"max_items_x", p->max_items_x},
                  {"max_items_y", p->max_items_y}, {"max_items_z", p->max_items_z},
                  {"macs_per_clock", p->macs_per_clock}, {"half_rate", p->half_rate}, {"wave", p->wave},
                  {"registers_kb", p->registers_kb}, {"max_waves", p->max_waves}, {"hide_waves", p->hide_waves},
                  {"cache_kb", p->cache_kb}, {"line_bytes", p->line_bytes}, {"timestamp_ns", p->timestamp_ns},
                  {"buffer_bytes_per_clock", p->buffer_bytes_per_clock},
                  {"image_bytes_per_clock", p->image_bytes_per_clock},
                  {"constant_bytes_per_clock", p->constant_bytes_per_clock},
                  {"l2_bytes_per_clock", p->l2_bytes_per_clock}, {"memory_gb_s", p->memory_gb_s},
                  {"hot_clock_percent", p->hot_clock_percent}, {"slower", p->slower}};
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++) {
        if (needed[i].value <= 0) return snprintf(error, size, "%s: %s: must be above 0", path, needed[i].key), false;
    }
    return true;
}

bool played_profile_read(played_profile *profile, const char *path, const char *keys, char *error, size_t size) {
    memset(profile, 0, sizeof *profile);
    for (size_t i = 0; i < ROWS; i++) row_set(profile, &rows[i], rows[i].value, error, size);
    if (path != NULL && !file_read(profile, path, error, size)) return false;
    if (keys != NULL && !overrides_read(profile, keys, error, size)) return false;
    return whole(profile, path ? path : "keys", error, size);
}
