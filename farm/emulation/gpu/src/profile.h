/* A profile says what GPU is played: a text file of `key = value` lines, `#` begins a comment.
 *
 * PLAYED_KEYS is the list of all keys, with their types and what holds where the file says nothing. FARM_PLAYED_KEYS
 * (`mode=timing,timestamps=zero`) overrides single keys, so that a test plants a fault without a file of its own.
 */
#ifndef PLAYED_PROFILE_H
#define PLAYED_PROFILE_H

#include <stdbool.h>
#include <stddef.h>

enum { PLAYED_TEXT = 512 };
typedef char played_text[PLAYED_TEXT];
typedef int played_choice; /* index among the words of its key, which are joined by `|` */
typedef double played_number;

/* What a choice may be; the order of each is that of its words below. */
enum { PLAYED_COMPUTING, PLAYED_TIMING };
enum { PLAYED_RIGHT, PLAYED_ZERO, PLAYED_REVERSED };
enum { PLAYED_PROFILING_RIGHT, PLAYED_PROFILING_SLOW, PLAYED_PROFILING_HANGS };
enum { PLAYED_DRIVER, PLAYED_PIXEL_LOADER };
enum { PLAYED_IN_PLACE, PLAYED_COPY, PLAYED_FAILS_LATE };

/* X(type, key, words of a choice or "", value where the file has none) */
#define PLAYED_KEYS(X)                                                                                                \
    /* what the driver says */                                                                                        \
    X(text, platform_name, "", "Played GPU")                                                                          \
    X(text, platform_version, "", "OpenCL 2.0")                                                                       \
    X(text, vendor, "", "Nobody")                                                                                     \
    X(text, name, "", "Played GPU")                                                                                   \
    X(text, version, "", "OpenCL 2.0")                                                                                \
    X(text, driver, "", "1.0")                                                                                        \
    X(text, extensions, "", "cl_khr_byte_addressable_store")                                                          \
    X(choice, loader, "driver|pixel", "driver") /* pixel: a library like Pixel's, which those who start it choose */  \
    X(number, platforms, "", "1") /* 2: the second one has no device */                                               \
    /* limits */                                                                                                      \
    X(number, compute_units, "", "4")                                                                                 \
    X(number, clock_mhz, "", "600")                                                                                   \
    X(number, max_work_group, "", "256")                                                                              \
    X(number, max_items_x, "", "256")                                                                                 \
    X(number, max_items_y, "", "256")                                                                                 \
    X(number, max_items_z, "", "64")                                                                                  \
    X(number, image_width, "", "16384") /* 0: no images */                                                            \
    X(number, image_height, "", "16384")                                                                              \
    X(number, image_pitch, "", "64") /* pixels that the rows of an image of a buffer are aligned to */                \
    X(number, max_allocation_mb, "", "256")                                                                           \
    X(number, memory_mb, "", "2048")                                                                                  \
    X(number, local_memory_kb, "", "32")                                                                              \
    X(number, max_registers, "", "0") /* of one work item; its program is not built beyond. 0: any number */          \
    /* time */                                                                                                        \
    X(choice, mode, "computing|timing", "computing")                                                                  \
    X(number, macs_per_clock, "", "64") /* of a compute unit, in float */                                             \
    X(number, half_rate, "", "2") /* how many times as many in half arithmetic */                                     \
    X(number, fma_cost, "", "1") /* time of fma(a, b, c) against a*b+c */                                             \
    X(number, wave, "", "32")                                                                                         \
    X(number, registers_kb, "", "64") /* of a compute unit */                                                         \
    X(number, max_waves, "", "16")                                                                                    \
    X(number, hide_waves, "", "6") /* waves on a unit that hide the latency of memory */                              \
    X(number, cache_kb, "", "16") /* what a compute unit reads through */                                             \
    X(number, line_bytes, "", "64")                                                                                   \
    X(number, buffer_bytes_per_clock, "", "32")                                                                       \
    X(number, image_bytes_per_clock, "", "64")                                                                        \
    X(number, constant_kb, "", "0") /* of constant memory that a unit keeps; 0: it lies as any other */                \
    X(number, constant_bytes_per_clock, "", "16") /* for a wave, of one address */                                    \
    X(number, l2_bytes_per_clock, "", "64") /* of the whole GPU */                                                    \
    X(number, memory_gb_s, "", "15")                                                                                  \
    X(number, group_clocks, "", "100") /* to start a work group on a unit */                                          \
    X(number, launch_us, "", "20")                                                                                    \
    X(number, recording_us, "", "30") /* to enqueue a recording (cl_qcom_recordable_queues) */                        \
    X(number, recorded_us, "", "5") /* a launch in it */                                                              \
    X(number, slower, "", "1") /* all times, so that `pace` holds where this machine computes in less */              \
    X(number, noise_percent, "", "0")                                                                                 \
    X(number, hot_after_ms, "", "0") /* of work; 0: never */                                                          \
    X(number, hot_clock_percent, "", "60")                                                                            \
    X(choice, pace, "no|yes", "no") /* yes: who waits, waits as long as the played GPU works */                        \
    /* manners */                                                                                                     \
    X(choice, flush_needed, "no|yes", "no") /* yes: nothing runs before a flush */                                    \
    X(number, timestamp_ns, "", "1") /* their resolution */                                                           \
    X(choice, timestamps, "right|zero|reversed", "right")                                                             \
    X(choice, profiling, "right|slow|hangs", "right") /* a queue that profiles */                                     \
    X(choice, host_ptr, "in_place|copy|fails_late", "in_place") /* CL_MEM_USE_HOST_PTR */                             \
    X(choice, recordings, "right|refused", "right") /* where the extension is listed */                               \
    X(number, dies_after_launches, "", "0") /* the queue, with CL_OUT_OF_RESOURCES */                                 \
    X(number, resets_after_launches, "", "0") /* the GPU: all that the process has is lost */                         \
    X(text, once, "", "") /* a file: these two happen once, while it is not there, which makes it */                  \
    X(number, build_ms, "", "0")                                                                                      \
    X(text, build_crashes_on, "", "") /* a word of the source or of the options */                                    \
    X(text, build_fails_on, "", "")                                                                                   \
    X(text, wrong_on, "", "") /* a word of the options: launches of such programs change nothing */

#define PLAYED_MEMBER(type, key, words, value) played_##type key;
typedef struct {
    PLAYED_KEYS(PLAYED_MEMBER)
} played_profile;

/* Reads a file (NULL: none), then keys that override its own (NULL or empty: none); false with one line in `error`:
 * where, what, what to do. */
bool played_profile_read(played_profile *profile, const char *path, const char *keys, char *error, size_t size);

#endif
