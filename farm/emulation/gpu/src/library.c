/* Opens profile and driver, and tells platforms, device and context. */
#include "played.h"

#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "costs.h"
#include "model.h"

#define EXPORT __attribute__((visibility("default")))

/* An object that the loader knows: it begins with the dispatch table. */
typedef struct {
    void **table;
    int has_device;
} own_object;

played_state played;
static own_object platforms[2] = {{played.table, 0}, {played.table, 1}}, device = {played.table, 1};
static pthread_once_t once = PTHREAD_ONCE_INIT;
static char failure[1024];

cl_device_id played_device(void) { return (cl_device_id)(void *)&device; }

void *played_adopt(void *object) {
    if (object != NULL) *(void **)object = played.table;
    return object;
}

cl_int played_answer(const void *value, size_t size, size_t room, void *target, size_t *needed) {
    if (needed != NULL) *needed = size;
    if (target == NULL) return CL_SUCCESS;
    if (room < size) return CL_INVALID_VALUE;
    memcpy(target, value, size);
    return CL_SUCCESS;
}

static cl_int answer_text(const char *text, size_t room, void *target, size_t *needed) {
    return played_answer(text, strlen(text) + 1, room, target, needed);
}

void *played_refuse(cl_int *target, cl_int code) {
    if (target != NULL) *target = code;
    return NULL;
}

cl_ulong played_now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (cl_ulong)now.tv_sec * 1000000000u + (cl_ulong)now.tv_nsec + 1000000000000000u;
}

/* --- the driver behind --- */

typedef cl_int platform_ids_function(cl_uint, cl_platform_id *, cl_uint *);

/* Stores a symbol in a function pointer; C has no conversion between the two. */
static void symbol_store(void *slot, void *symbol) { memcpy(slot, &symbol, sizeof symbol); }

static cl_int real_platform_find(void *library) {
    void *(*extension)(const char *) = NULL;
    platform_ids_function *ids = NULL;
    symbol_store(&extension, dlsym(library, "clGetExtensionFunctionAddress"));
    if (extension != NULL) symbol_store(&ids, extension("clIcdGetPlatformIDsKHR"));
    return ids != NULL ? ids(1, &played.real_platform, NULL) : CL_PLATFORM_NOT_FOUND_KHR;
}

/* Functions that would be given our platform or device without knowing them, or that no mobile driver has. */
static cl_int not_offered(void) { return CL_INVALID_OPERATION; }
static void *not_made(void) { return NULL; }

/* Our table is the driver's with our functions in place of some. */
static void table_fill(void) {
    void *const *own = *(void *const *const *)(const void *)played.real_platform;
    static const int codes[] = {93, 100}, objects[] = {5, 97, 98, 99, 107};
    memcpy(played.table, own, sizeof played.table);
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        cl_int (*none)(void) = not_offered;
        memcpy(&played.table[codes[i]], &none, sizeof none);
    }
    for (size_t i = 0; i < sizeof objects / sizeof *objects; i++) {
        void *(*none)(void) = not_made;
        memcpy(&played.table[objects[i]], &none, sizeof none);
    }
#define PUT(index, name, result, parameters)                                 \
    {                                                                        \
        result(*ours) parameters = played_##name;                            \
        symbol_store(&played.real.name, own[index]);                         \
        memcpy(&played.table[index], &ours, sizeof ours);                    \
    }
    RT_OPENCL_FUNCTIONS(PUT) PLAYED_MORE(PUT)
#undef PUT
}

int played_has_word(const char *list, const char *word) {
    const size_t length = strlen(word);
    for (const char *at = list; (at = strstr(at, word)) != NULL; at += length) {
        if ((at == list || at[-1] == ' ') && (at[length] == ' ' || at[length] == '\0')) return 1;
    }
    return 0;
}

/* The extensions of the profile, without what kernels would use of them where a driver computes that has it not. */
static void extensions_fill(void) {
    char own[8192] = "", list[PLAYED_TEXT], *rest = NULL;
    played.real.GetDeviceInfo(played.real_device, CL_DEVICE_EXTENSIONS, sizeof own, own, NULL);
    const int computes = played.profile.mode == PLAYED_COMPUTING;
    strcpy(list, played.profile.extensions);
    for (char *word = strtok_r(list, " ", &rest); word != NULL; word = strtok_r(NULL, " ", &rest)) {
        const int used = strcmp(word, "cl_khr_fp16") == 0 || strcmp(word, "cl_khr_subgroups") == 0;
        if (computes && used && !played_has_word(own, word)) continue;
        if (played.extensions[0] != '\0') strcat(played.extensions, " ");
        strcat(played.extensions, word);
    }
}

static int driver_open(const char *path) {
    char version[64] = "";
    void *library = path != NULL ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    if (library == NULL) {
        return snprintf(failure, sizeof failure, "FARM_PLAYED_OPENCL: %s", path ? dlerror() : "names no driver");
    }
    if (real_platform_find(library) != CL_SUCCESS) {
        return snprintf(failure, sizeof failure, "FARM_PLAYED_OPENCL: %s: no OpenCL driver", path);
    }
    table_fill();
    played.real.GetPlatformInfo(played.real_platform, CL_PLATFORM_VERSION, sizeof version, version, NULL);
    if (strncmp(version, "OpenCL 1", 8) == 0) {
        return snprintf(failure, sizeof failure, "FARM_PLAYED_OPENCL: %s: OpenCL 2.0 is needed", path);
    }
    cl_int code = played.real.GetDeviceIDs(played.real_platform, CL_DEVICE_TYPE_ALL, 1, &played.real_device, NULL);
    return code == CL_SUCCESS ? 0 : snprintf(failure, sizeof failure, "FARM_PLAYED_OPENCL: %s: no device", path);
}

/* Fills `played`; what is wrong goes to `failure` and to standard error. */
static void open_all(void) {
    const char *profile = getenv("FARM_PLAYED_GPU");
    if (played_profile_read(&played.profile, profile, getenv("FARM_PLAYED_KEYS"), failure, sizeof failure) &&
        played_costs_read(PLAYED_COSTS, failure, sizeof failure) && driver_open(getenv("FARM_PLAYED_OPENCL")) == 0) {
        extensions_fill();
    }
    if (failure[0] != '\0') fprintf(stderr, "played GPU: %s\n", failure);
}

/* Reads a profile and keys as above, and nothing else. For those who start what plays it. */
EXPORT bool played_gpu_check(const char *path, const char *keys, char *error, size_t size);

bool played_gpu_check(const char *path, const char *keys, char *error, size_t size) {
    played_profile profile;
    return played_profile_read(&profile, path, keys, error, size);
}

/* The time in ns of a launch with these options and int arguments (`-DNAME=VALUE` both), infinite where the GPU refuses
 * it; a local size of 0 leaves it to the driver. `error` is left empty, or says what is wrong. */
EXPORT double played_gpu_launch(const char *path, const char *keys, const char *kernel, int image, const char *told,
                                const size_t global[3], const size_t local[3], char *error, size_t size);

double played_gpu_launch(const char *path, const char *keys, const char *kernel, int image, const char *told,
                         const size_t global[3], const size_t local[3], char *error, size_t size) {
    static played_profile profile;
    static char read[2048]; /* the profile that is in `profile` */
    char wanted[sizeof read];
    played_values values = {.count = 0};
    played_work work;
    size_t group[3] = {local[0], local[1], local[2]};
    snprintf(wanted, sizeof wanted, "%s:%s", path, keys);
    if (strcmp(wanted, read) != 0) {
        if (!played_profile_read(&profile, path, keys, error, size)) return 0;
        if (!played_costs_read(PLAYED_COSTS, error, size)) return 0;
        strcpy(read, wanted);
    }
    played_values_options(&values, told);
    if (!played_costs_of(kernel, image != 0, &values, &work, error, size)) return 0;
    const size_t limit = played_group_limit(&profile, &work);
    if (group[0] == 0) played_driver_local(&profile, limit, global, group);
    if (played_local_refused(&profile, limit, global, group) != 0) return HUGE_VAL;
    return played_launch_ns(&profile, &work, global, group);
}

/* --- platforms --- */

static cl_int platform_ids(cl_uint room, cl_platform_id *targets, cl_uint *count) {
    pthread_once(&once, open_all);
    const int offered = failure[0] != '\0' ? 0 : (int)played.profile.platforms;
    if (count != NULL) *count = (cl_uint)(offered > 2 ? 2 : offered);
    if (offered < 1) return CL_PLATFORM_NOT_FOUND_KHR;
    for (cl_uint i = 0; i < room && targets != NULL && i < (cl_uint)offered && i < 2; i++) {
        targets[i] = (cl_platform_id)(void *)&platforms[offered > 1 ? i : 1];
    }
    return CL_SUCCESS;
}

#ifdef PLAYED_PIXEL

/* Pixel's loader has no other entries, and gives nothing before it was enabled. */
EXPORT void enableOpenCL(void);
EXPORT void *loadOpenCLPointer(const char *name);

static int enabled;

void enableOpenCL(void) {
    pthread_once(&once, open_all);
    enabled = failure[0] == '\0';
}

void *loadOpenCLPointer(const char *name) {
    static const struct {
        const char *name;
        int index;
    } entries[] = {
#define ENTRY(index, name, result, parameters) {"cl" #name, index},
        RT_OPENCL_FUNCTIONS(ENTRY) PLAYED_MORE(ENTRY)
#undef ENTRY
    };
    for (size_t i = 0; enabled && i < sizeof entries / sizeof *entries; i++) {
        if (strcmp(name, entries[i].name) == 0) return played.table[entries[i].index];
    }
    return enabled ? played_recording_function(name) : NULL;
}

#else

EXPORT void *clGetExtensionFunctionAddress(const char *name);

void *clGetExtensionFunctionAddress(const char *name) {
    platform_ids_function *ids = platform_ids;
    void *address = NULL;
    if (strcmp(name, "clIcdGetPlatformIDsKHR") == 0) memcpy(&address, &ids, sizeof ids);
    return address != NULL ? address : played_recording_function(name);
}

#endif

cl_int played_GetPlatformIDs(cl_uint room, cl_platform_id *targets, cl_uint *count) {
    return platform_ids(room, targets, count);
}

cl_int played_GetPlatformInfo(cl_platform_id platform, cl_uint property, size_t room, void *target, size_t *needed) {
    (void)platform;
    switch (property) {
        case 0x0900: return answer_text("FULL_PROFILE", room, target, needed);
        case CL_PLATFORM_VERSION: return answer_text(played.profile.platform_version, room, target, needed);
        case CL_PLATFORM_NAME: return answer_text(played.profile.platform_name, room, target, needed);
        case 0x0903: return answer_text(played.profile.vendor, room, target, needed);
        case 0x0904: return answer_text("cl_khr_icd", room, target, needed);
        case 0x0920: return answer_text("PLAYED", room, target, needed);
        default: return CL_INVALID_VALUE;
    }
}

cl_int played_GetDeviceIDs(cl_platform_id platform, cl_bitfield type, cl_uint room, cl_device_id *targets,
                           cl_uint *count) {
    const own_object *own = (const own_object *)(const void *)platform;
    const cl_uint found = own->has_device && (type & (CL_DEVICE_TYPE_GPU | 1 /* the default device */)) ? 1 : 0;
    if (count != NULL) *count = found;
    if (found == 0) return CL_DEVICE_NOT_FOUND;
    if (room > 0 && targets != NULL) targets[0] = played_device();
    return CL_SUCCESS;
}

/* --- the device --- */

static cl_int answer_int(double number, size_t room, void *target, size_t *needed) {
    const cl_uint value = (cl_uint)number;
    return played_answer(&value, sizeof value, room, target, needed);
}

static cl_int answer_long(double number, size_t room, void *target, size_t *needed) {
    const cl_ulong value = (cl_ulong)number;
    return played_answer(&value, sizeof value, room, target, needed);
}

/* What is told so that nobody takes the times for a phone's. */
static cl_int answer_driver(size_t room, void *target, size_t *needed) {
    char text[PLAYED_TEXT + 64];
    const char *mark = played.profile.mode == PLAYED_TIMING ? "played, nothing is computed" : "played";
    snprintf(text, sizeof text, "%s; %s", mark, played.profile.driver);
    return answer_text(text, room, target, needed);
}

cl_int played_GetDeviceInfo(cl_device_id asked, cl_uint property, size_t room, void *target, size_t *needed) {
    const played_profile *p = &played.profile;
    const size_t sizes[3] = {(size_t)p->max_items_x, (size_t)p->max_items_y, (size_t)p->max_items_z};
    const cl_platform_id platform = (cl_platform_id)(void *)&platforms[1];
    const double kb = 1024, mb = 1024 * 1024;
    (void)asked;
    switch (property) {
        case CL_DEVICE_TYPE: return answer_long(CL_DEVICE_TYPE_GPU, room, target, needed);
        case CL_DEVICE_MAX_COMPUTE_UNITS: return answer_int(p->compute_units, room, target, needed);
        case CL_DEVICE_MAX_WORK_ITEM_DIMENSIONS: return answer_int(3, room, target, needed);
        case CL_DEVICE_MAX_WORK_GROUP_SIZE: return answer_long(p->max_work_group, room, target, needed);
        case CL_DEVICE_MAX_WORK_ITEM_SIZES: return played_answer(sizes, sizeof sizes, room, target, needed);
        case CL_DEVICE_MAX_CLOCK_FREQUENCY: return answer_int(p->clock_mhz, room, target, needed);
        case CL_DEVICE_MAX_MEM_ALLOC_SIZE: return answer_long(p->max_allocation_mb * mb, room, target, needed);
        case CL_DEVICE_IMAGE_SUPPORT: return answer_int(p->image_width > 0, room, target, needed);
        case CL_DEVICE_IMAGE2D_MAX_WIDTH: return answer_long(p->image_width, room, target, needed);
        case CL_DEVICE_IMAGE2D_MAX_HEIGHT: return answer_long(p->image_height, room, target, needed);
        case 0x104A: return answer_int(p->image_pitch, room, target, needed);
        case CL_DEVICE_GLOBAL_MEM_SIZE: return answer_long(p->memory_mb * mb, room, target, needed);
        case CL_DEVICE_LOCAL_MEM_SIZE: return answer_long(p->local_memory_kb * kb, room, target, needed);
        case CL_DEVICE_PROFILING_TIMER_RESOLUTION: return answer_long(p->timestamp_ns, room, target, needed);
        case CL_DEVICE_NAME: return answer_text(p->name, room, target, needed);
        case CL_DEVICE_VENDOR: return answer_text(p->vendor, room, target, needed);
        case CL_DRIVER_VERSION: return answer_driver(room, target, needed);
        case CL_DEVICE_VERSION: return answer_text(p->version, room, target, needed);
        case CL_DEVICE_EXTENSIONS: return answer_text(played.extensions, room, target, needed);
        case 0x1031: return played_answer(&platform, sizeof platform, room, target, needed);
        case CL_DEVICE_HOST_UNIFIED_MEMORY: return answer_int(1, room, target, needed);
        default: return played.real.GetDeviceInfo(played.real_device, property, room, target, needed);
    }
}

cl_int played_RetainDevice(cl_device_id asked) { return (void)asked, CL_SUCCESS; }

cl_int played_ReleaseDevice(cl_device_id asked) { return (void)asked, CL_SUCCESS; }

/* --- contexts --- */

/* Hints, which only a driver with their extension takes, end here: that behind knows none. */
static int properties_known(const intptr_t *properties) {
    for (; properties != NULL && properties[0] != 0; properties += 2) {
        if (properties[0] == 0x1084) continue; /* the platform */
        const char *extension = properties[0] == 0x40C2 ? "cl_qcom_perf_hint" : "cl_qcom_priority_hint";
        if (!played_has_word(played.extensions, extension)) return 0;
    }
    return 1;
}

cl_context played_CreateContext(const intptr_t *properties, cl_uint count, const cl_device_id *devices,
                                cl_context_notify *notify, void *user, cl_int *code) {
    const intptr_t own[] = {0x1084, (intptr_t)played.real_platform, 0};
    if (count != 1 || devices == NULL) return played_refuse(code, CL_INVALID_VALUE);
    if (!properties_known(properties)) return played_refuse(code, CL_INVALID_PROPERTY);
    played.context_number++;
    return played_adopt(played.real.CreateContext(own, 1, &played.real_device, notify, user, code));
}

cl_int played_ReleaseContext(cl_context context) { return played.real.ReleaseContext(context); }

cl_int played_GetContextInfo(cl_context context, cl_uint property, size_t room, void *target, size_t *needed) {
    const cl_device_id own = played_device();
    const intptr_t properties[] = {0x1084, (intptr_t)&platforms[1], 0};
    if (property == 0x1081) return played_answer(&own, sizeof own, room, target, needed);
    if (property == 0x1082) return played_answer(properties, sizeof properties, room, target, needed);
    return played.real.GetContextInfo(context, property, room, target, needed);
}

cl_int played_GetSupportedImageFormats(cl_context context, cl_bitfield flags, cl_uint type, cl_uint room,
                                       cl_image_format *formats, cl_uint *count) {
    if (played.profile.image_width > 0) {
        return played.real.GetSupportedImageFormats(context, flags, type, room, formats, count);
    }
    if (count != NULL) *count = 0;
    return CL_SUCCESS;
}
