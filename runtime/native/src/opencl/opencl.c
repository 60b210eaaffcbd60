/* The library is opened with dlopen and its functions called through a table: farmrt links to none, and the same
 * program runs where there is no OpenCL at all. An ICD driver exports no cl functions of its own; the table is then
 * filled from the dispatch table that all its objects begin with.
 */
#include "opencl.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../system/arithmetic.h"
#include "../system/errors.h"
#include "../system/file.h"
#include "../system/log.h"
#include "opencl_places.h"

enum { MAX_PLATFORMS = 16 };

/* Stores a symbol in a function pointer; C has no conversion between the two. */
static void symbol_store(void *slot, void *symbol) { memcpy(slot, &symbol, sizeof symbol); }

/* Enables Pixel's own loader, which gives its functions by an entry of its own; any other library has no such entry. */
static void loader_enable(rt_opencl *opencl, void *library) {
    void (*enable)(void) = NULL;
    symbol_store(&enable, dlsym(library, "enableOpenCL"));
    symbol_store(&opencl->load, enable != NULL ? dlsym(library, "loadOpenCLPointer") : NULL);
    if (opencl->load != NULL) enable();
}

/* A function of the library by its name; NULL where there is none. */
static void *function_find(const rt_opencl *opencl, void *library, const char *name) {
    void *symbol = dlsym(library, name);
    return symbol == NULL && opencl->load != NULL ? opencl->load(name) : symbol;
}

/* Fills the table by name; false when a function is missing. */
static bool functions_by_name(rt_opencl *opencl, void *library) {
    bool complete = true;
#define LOOK_UP(index, name, result, parameters)                   \
    {                                                              \
        void *symbol = function_find(opencl, library, "cl" #name); \
        complete = complete && symbol != NULL;                     \
        symbol_store(&opencl->cl.name, symbol);                    \
    }
    RT_OPENCL_FUNCTIONS(LOOK_UP)
#undef LOOK_UP
    return complete;
}

/* Fills the table from the dispatch table of a driver's platform. */
static void functions_by_dispatch(rt_opencl *opencl, cl_platform_id platform) {
    void *const *dispatch = *(void *const *const *)(const void *)platform;
#define TAKE(index, name, result, parameters) symbol_store(&opencl->cl.name, dispatch[index]);
    RT_OPENCL_FUNCTIONS(TAKE)
#undef TAKE
}

/* The type of clIcdGetPlatformIDsKHR. */
typedef cl_int platform_ids_function(cl_uint, cl_platform_id *, cl_uint *);

/* The entry of a library that is an ICD driver itself (cl_khr_icd); NULL where it is none. */
static platform_ids_function *driver_platforms(void *library) {
    void *(*extension)(const char *) = NULL;
    platform_ids_function *platforms = NULL;
    symbol_store(&extension, dlsym(library, "clGetExtensionFunctionAddress"));
    if (extension != NULL) symbol_store(&platforms, extension("clIcdGetPlatformIDsKHR"));
    return platforms;
}

/* The platforms of a library, with the function table filled; 0 where it has none. */
static cl_uint library_platforms(rt_opencl *opencl, void *library, cl_platform_id *platforms) {
    cl_uint count = 0;
    loader_enable(opencl, library);
    opencl->is_driver = function_find(opencl, library, "clGetPlatformIDs") == NULL;
    if (!opencl->is_driver) {
        if (!functions_by_name(opencl, library)) return 0;
        if (opencl->cl.GetPlatformIDs(MAX_PLATFORMS, platforms, &count) != CL_SUCCESS) return 0;
    } else {
        platform_ids_function *ids = driver_platforms(library);
        if (ids == NULL || ids(MAX_PLATFORMS, platforms, &count) != CL_SUCCESS || count == 0) return 0;
        functions_by_dispatch(opencl, platforms[0]);
    }
    return count < MAX_PLATFORMS ? count : MAX_PLATFORMS;
}

/* Takes the first device of the best type that any platform has; false where no platform has one. */
static bool device_choose(rt_opencl *opencl, const cl_platform_id *platforms, cl_uint count) {
    static const cl_bitfield order[] = {CL_DEVICE_TYPE_GPU, CL_DEVICE_TYPE_ACCELERATOR, CL_DEVICE_TYPE_ALL};
    for (size_t type = 0; type < RT_COUNT(order); type++) {
        for (cl_uint i = 0; i < count; i++) {
            cl_uint found = 0;
            cl_int code = opencl->cl.GetDeviceIDs(platforms[i], order[type], 1, &opencl->device, &found);
            if (code != CL_SUCCESS || found == 0) continue;
            opencl->platform = platforms[i];
            return true;
        }
    }
    return false;
}

/* Whether the platform knows OpenCL 2.0: an older driver's dispatch table ends before the functions of that version. */
static bool platform_is_2(const rt_opencl *opencl) {
    char version[64] = "";
    static const char prefix[] = "OpenCL ";
    cl_int code = opencl->cl.GetPlatformInfo(opencl->platform, CL_PLATFORM_VERSION, sizeof version, version, NULL);
    return code == CL_SUCCESS && strncmp(version, prefix, sizeof prefix - 1) == 0 && version[sizeof prefix - 1] >= '2';
}

/* Looks up what Qualcomm's drivers have, which a loader may give by the entry for extensions alone. */
static void recording_find(rt_opencl *opencl, void *library) {
    static const char *const names[] = {"clNewRecordingQCOM", "clEndRecordingQCOM", "clReleaseRecordingQCOM",
                                        "clEnqueueRecordingQCOM"};
    void *const slots[] = {&opencl->recording.make, &opencl->recording.end, &opencl->recording.release,
                           &opencl->recording.enqueue};
    void *(*extension)(const char *) = NULL, *(*of_platform)(cl_platform_id, const char *) = NULL;
    symbol_store(&extension, function_find(opencl, library, "clGetExtensionFunctionAddress"));
    symbol_store(&of_platform, function_find(opencl, library, "clGetExtensionFunctionAddressForPlatform"));
    bool complete = true;
    for (size_t i = 0; i < RT_COUNT(names); i++) {
        void *symbol = function_find(opencl, library, names[i]);
        if (symbol == NULL && of_platform != NULL) symbol = of_platform(opencl->platform, names[i]);
        if (symbol == NULL && extension != NULL) symbol = extension(names[i]);
        symbol_store(slots[i], symbol);
        complete = complete && symbol != NULL;
    }
    if (!complete) opencl->recording.enqueue = NULL;
}

/* Looks up what only newer platforms have. */
static void newer_functions_find(rt_opencl *opencl, void *library) {
    if (!platform_is_2(opencl)) return;
    void *symbol = function_find(opencl, library, "clCreateCommandQueueWithProperties");
    if (opencl->is_driver) {
        symbol = (*(void **const *)(const void *)opencl->platform)[RT_QUEUE_FUNCTION_INDEX];
    }
    symbol_store(&opencl->queue_with_properties, symbol);
}

/* Notes a path that was tried; drops it when there is no room, since it is only told to people. */
static void searched_append(rt_opencl *opencl, const char *path) {
    size_t used = strlen(opencl->searched);
    snprintf(opencl->searched + used, sizeof opencl->searched - used, "%s\n", path);
}

/* The library's file, where it was opened by a bare name. */
static void path_complete(rt_opencl *opencl, void *library) {
    Dl_info info;
    void *symbol = dlsym(library, "clGetPlatformIDs");
    if (symbol == NULL) symbol = dlsym(library, "clGetExtensionFunctionAddress");
    if (opencl->path[0] == '/' || symbol == NULL || dladdr(symbol, &info) == 0 || info.dli_fname == NULL) return;
    snprintf(opencl->path, sizeof opencl->path, "%s", info.dli_fname);
}

/* Opens a library in the namespace of vendors' drivers (`sphal`), by Android's library for that: in a program's own
 * namespace a driver may not be allowed, or finds none of its other libraries, and then has no platform. NULL where
 * there are no namespaces. */
static void *vendor_open(const char *path) {
    void *(*load)(const char *, int) = NULL;
    void *support = dlopen("libvndksupport.so", RTLD_NOW | RTLD_LOCAL);
    if (support != NULL) symbol_store(&load, dlsym(support, "android_load_sphal_library"));
    return load != NULL ? load(path, RTLD_NOW | RTLD_LOCAL) : NULL;
}

/* Opens a library that exists once more, as a vendor's; returns how many platforms it has then. */
static cl_uint vendor_platforms(rt_opencl *opencl, const char *path, void **library, cl_platform_id *platforms) {
    void *opened = vendor_open(path);
    cl_uint count = opened != NULL ? library_platforms(opencl, opened, platforms) : 0;
    if (count > 0) {
        rt_log(RT_LOG_INFO, "OpenCL library %s: opened in the namespace of vendors' drivers", path);
        *library = opened;
    }
    return count;
}

/* Opens one library and chooses its device; RT_NO_OPENCL says what is missing. `exists` tells whether there is such a
 * library at all: of many places that are tried, those that do not exist are not worth a word. */
static rt_status library_open(rt_opencl *opencl, const char *path, bool *exists, rt_error *error) {
    cl_platform_id platforms[MAX_PLATFORMS];
    searched_append(opencl, path);
    snprintf(opencl->path, sizeof opencl->path, "%s", path);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    const char *reason = library == NULL ? dlerror() : NULL;
    *exists = library != NULL || rt_file_exists(path);
    rt_log(RT_LOG_DEBUG, "OpenCL library %s: %s", path, library ? "opened" : "not there, or no library");
    if (library != NULL) path_complete(opencl, library);
    rt_error_set(error, RT_NO_OPENCL, reason ? "%s" : "%s: no OpenCL platform", reason ? reason : opencl->path);
    cl_uint count = library != NULL ? library_platforms(opencl, library, platforms) : 0;
    if (count == 0 && *exists) count = vendor_platforms(opencl, path, &library, platforms);
    if (count == 0) return RT_NO_OPENCL;
    if (!device_choose(opencl, platforms, count)) {
        return rt_error_set(error, RT_NO_OPENCL, "%s: no OpenCL device", opencl->path);
    }
    newer_functions_find(opencl, library);
    recording_find(opencl, library);
    return RT_OK;
}

/* A search through the usual places; `said` is what the first library said that exists. */
typedef struct {
    rt_opencl *opencl;
    rt_error said;
    bool any;
} search;

/* Visits one place (rt_place_visit): true ends the search. */
static bool place_open(void *context, const char *path) {
    search *now = context;
    rt_error reason;
    bool exists;
    if (library_open(now->opencl, path, &exists, &reason) == RT_OK) return true;
    if (exists && !now->any) now->said = reason;
    now->any = now->any || exists;
    return false;
}

/* The first place with a device; else RT_NO_OPENCL with what the first library said that exists. */
static rt_status places_open(rt_opencl *opencl, rt_error *error) {
    search now = {.opencl = opencl};
    if (rt_opencl_places_visit(place_open, &now)) return RT_OK;
    opencl->path[0] = '\0';
    if (now.any) return rt_error_set(error, RT_NO_OPENCL, "%s", now.said.message);
    return rt_error_set(error, RT_NO_OPENCL, "no OpenCL library in %s; name one with opencl= or FARM_OPENCL",
                        rt_opencl_places_text);
}

rt_status rt_opencl_open(rt_opencl *opencl, const char *library, rt_error *error) {
    memset(opencl, 0, sizeof *opencl);
    if (library == NULL || library[0] == '\0') library = getenv("FARM_OPENCL");
    if (library == NULL || library[0] == '\0') return places_open(opencl, error);
    bool exists;
    return library_open(opencl, library, &exists, error);
}

const char *rt_opencl_code_name(cl_int code) {
    static const char *const runtime_names[] = {
        "CL_SUCCESS",
        "CL_DEVICE_NOT_FOUND",
        "CL_DEVICE_NOT_AVAILABLE",
        "CL_COMPILER_NOT_AVAILABLE",
        "CL_MEM_OBJECT_ALLOCATION_FAILURE",
        "CL_OUT_OF_RESOURCES",
        "CL_OUT_OF_HOST_MEMORY",
        "CL_PROFILING_INFO_NOT_AVAILABLE",
        "CL_MEM_COPY_OVERLAP",
        "CL_IMAGE_FORMAT_MISMATCH",
        "CL_IMAGE_FORMAT_NOT_SUPPORTED",
        "CL_BUILD_PROGRAM_FAILURE",
        "CL_MAP_FAILURE",
        "CL_MISALIGNED_SUB_BUFFER_OFFSET",
        "CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST",
        "CL_COMPILE_PROGRAM_FAILURE",
        "CL_LINKER_NOT_AVAILABLE",
        "CL_LINK_PROGRAM_FAILURE",
        "CL_DEVICE_PARTITION_FAILED",
        "CL_KERNEL_ARG_INFO_NOT_AVAILABLE",
    };
    static const char *const argument_names[] = {
        "CL_INVALID_VALUE",
        "CL_INVALID_DEVICE_TYPE",
        "CL_INVALID_PLATFORM",
        "CL_INVALID_DEVICE",
        "CL_INVALID_CONTEXT",
        "CL_INVALID_QUEUE_PROPERTIES",
        "CL_INVALID_COMMAND_QUEUE",
        "CL_INVALID_HOST_PTR",
        "CL_INVALID_MEM_OBJECT",
        "CL_INVALID_IMAGE_FORMAT_DESCRIPTOR",
        "CL_INVALID_IMAGE_SIZE",
        "CL_INVALID_SAMPLER",
        "CL_INVALID_BINARY",
        "CL_INVALID_BUILD_OPTIONS",
        "CL_INVALID_PROGRAM",
        "CL_INVALID_PROGRAM_EXECUTABLE",
        "CL_INVALID_KERNEL_NAME",
        "CL_INVALID_KERNEL_DEFINITION",
        "CL_INVALID_KERNEL",
        "CL_INVALID_ARG_INDEX",
        "CL_INVALID_ARG_VALUE",
        "CL_INVALID_ARG_SIZE",
        "CL_INVALID_KERNEL_ARGS",
        "CL_INVALID_WORK_DIMENSION",
        "CL_INVALID_WORK_GROUP_SIZE",
        "CL_INVALID_WORK_ITEM_SIZE",
        "CL_INVALID_GLOBAL_OFFSET",
        "CL_INVALID_EVENT_WAIT_LIST",
        "CL_INVALID_EVENT",
        "CL_INVALID_OPERATION",
        "CL_INVALID_GL_OBJECT",
        "CL_INVALID_BUFFER_SIZE",
        "CL_INVALID_MIP_LEVEL",
        "CL_INVALID_GLOBAL_WORK_SIZE",
        "CL_INVALID_PROPERTY",
        "CL_INVALID_IMAGE_DESCRIPTOR",
        "CL_INVALID_COMPILER_OPTIONS",
        "CL_INVALID_LINKER_OPTIONS",
        "CL_INVALID_DEVICE_PARTITION_COUNT",
    };
    if (code <= 0 && code > -(cl_int)RT_COUNT(runtime_names)) return runtime_names[-code];
    if (code <= -30 && code > -30 - (cl_int)RT_COUNT(argument_names)) return argument_names[-30 - code];
    return "unknown";
}

rt_status rt_opencl_check(rt_error *error, const char *call, cl_int code, int32_t step) {
    if (code == CL_SUCCESS) return RT_OK;
    rt_error_set(error, RT_OPENCL, "%s: %s (%d)", call, rt_opencl_code_name(code), code);
    if (error == NULL) return RT_OPENCL;
    error->code = code;
    error->step = step;
    snprintf(error->call, sizeof error->call, "%s", call);
    return RT_OPENCL;
}
