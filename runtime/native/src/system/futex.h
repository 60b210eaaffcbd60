/* Sleeping until a word changes, without a lock. Without state; from any thread of this process. */
#ifndef RT_FUTEX_H
#define RT_FUTEX_H

#include <stdatomic.h>
#include <stdint.h>

/* Sleeps while the word is `value`, until it is woken; also returns for no reason, so the caller looks again. */
void rt_futex_wait(atomic_uint *word, uint32_t value);

/* Wakes all who sleep on the word. */
void rt_futex_wake(atomic_uint *word);

#endif
