/* Texts of profiles and sources. */
#ifndef PLAYED_TEXT_H
#define PLAYED_TEXT_H

#include <ctype.h>
#include <string.h>

/* Without blanks at both ends; changes the text. */
static inline char *played_trim(char *text) {
    while (isspace((unsigned char)*text)) text++;
    size_t length = strlen(text);
    while (length > 0 && isspace((unsigned char)text[length - 1])) text[--length] = '\0';
    return text;
}

/* Whether a character may stand in a name. */
static inline int played_in_name(char character) { return isalnum((unsigned char)character) || character == '_'; }

#endif
