#include "objects.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

enum { CHAINS = 4096 };

typedef struct entry {
    struct entry *next;
    const void *object;
    _Alignas(16) char kept[];
} entry;

static entry *chains[CHAINS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* The link that leads to an object's entry, or the end of its chain. */
static entry **link_of(const void *object) {
    entry **link = &chains[((uintptr_t)object >> 4) % CHAINS];
    while (*link != NULL && (*link)->object != object) link = &(*link)->next;
    return link;
}

static void unlink_entry(entry **link) {
    entry *gone = *link;
    if (gone == NULL) return;
    *link = gone->next;
    free(gone);
}

void *played_object_add(const void *object, size_t size) {
    entry *made = calloc(1, sizeof *made + size);
    if (made == NULL) return NULL;
    pthread_mutex_lock(&lock);
    unlink_entry(link_of(object));
    entry **link = link_of(object);
    made->object = object;
    *link = made;
    pthread_mutex_unlock(&lock);
    return made->kept;
}

void *played_object_find(const void *object) {
    pthread_mutex_lock(&lock);
    entry *found = *link_of(object);
    pthread_mutex_unlock(&lock);
    return found != NULL ? found->kept : NULL;
}

void played_object_remove(const void *object) {
    pthread_mutex_lock(&lock);
    unlink_entry(link_of(object));
    pthread_mutex_unlock(&lock);
}
