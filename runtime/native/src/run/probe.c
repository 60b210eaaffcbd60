/* Every figure is asked anew and none is interpreted, but for names that differ between systems: the host decides. */
#include "probe.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/auxv.h>

#include "../system/arithmetic.h"
#include "../opencl/device.h"
#include "../system/file.h"
#include "../system/topology.h"

/* The CPU features that matter to kernels, of those that the program may use: under an emulator /proc/cpuinfo has the
 * features of another CPU. */
#if defined(__aarch64__) || defined(__arm__)

/* A bit of AT_HWCAP or AT_HWCAP2, as Linux documents it for ARM. */
typedef struct {
    const char *name;
    unsigned long type;
    int bit;
} feature;

#ifdef __aarch64__
static const feature known_features[] = {
    {"asimd", AT_HWCAP, 1},    {"fphp", AT_HWCAP, 9},   {"asimdhp", AT_HWCAP, 10},
    {"asimddp", AT_HWCAP, 20}, {"sve", AT_HWCAP, 22},   {"asimdfhm", AT_HWCAP, 23},
    {"sve2", AT_HWCAP2, 1},    {"i8mm", AT_HWCAP2, 13}, {"bf16", AT_HWCAP2, 14},
};
#else
static const feature known_features[] = {{"neon", AT_HWCAP, 12}, {"vfpv4", AT_HWCAP, 16}};
#endif

static void features_write(rt_json *json) {
    rt_json_array_begin(json, "features");
    for (size_t i = 0; i < RT_COUNT(known_features); i++) {
        const feature *each = &known_features[i];
        if (getauxval(each->type) >> each->bit & 1) rt_json_string(json, NULL, each->name);
    }
    rt_json_array_end(json);
}

#else

static const char *const known_features[] = {"sse4_2",   "avx",         "f16c",        "fma",     "avx2", "avx512f",
                                             "avx512bw", "avx512_vnni", "avx512_bf16", "amx_int8"};

static void features_write(rt_json *json) {
    char text[8192];
    char *rest = NULL;
    rt_json_array_begin(json, "features");
    rt_topology_cpuinfo("flags", text, sizeof text);
    for (char *word = strtok_r(text, " ", &rest); word != NULL; word = strtok_r(NULL, " ", &rest)) {
        for (size_t i = 0; i < RT_COUNT(known_features); i++) {
            if (strcmp(word, known_features[i]) == 0) rt_json_string(json, NULL, word);
        }
    }
    rt_json_array_end(json);
}

#endif

/* The model stands in different places on x86, on Android and on boards. */
static void cpu_write(rt_json *json) {
    char model[256];
    uint32_t cores = rt_topology_cores();
    bool known = rt_topology_cpuinfo("model name", model, sizeof model) ||
                 rt_topology_cpuinfo("Hardware", model, sizeof model) ||
                 rt_file_read_text("/proc/device-tree/model", model, sizeof model);
    rt_json_object_begin(json, "cpu");
    rt_json_string(json, "model", known ? model : "");
    rt_json_unsigned(json, "cores", cores);
    rt_json_array_begin(json, "max_khz");
    for (uint32_t i = 0; i < cores; i++) {
        uint32_t khz = rt_topology_max_khz(i);
        if (khz > 0) rt_json_unsigned(json, NULL, khz);
    }
    rt_json_array_end(json);
    features_write(json);
    rt_json_object_end(json);
}

/* The lines of `searched`, split in a copy. */
static void searched_write(rt_json *json, const rt_opencl *opencl) {
    char *rest = NULL;
    char paths[sizeof opencl->searched];
    memcpy(paths, opencl->searched, sizeof paths);
    rt_json_array_begin(json, "searched");
    for (char *path = strtok_r(paths, "\n", &rest); path != NULL; path = strtok_r(NULL, "\n", &rest)) {
        rt_json_string(json, NULL, path);
    }
    rt_json_array_end(json);
}

/* A property of the device as a text; empty where the driver does not know it. */
static void text_write(rt_json *json, const char *key, const rt_opencl *opencl, cl_uint property) {
    char text[1024];
    rt_device_text(opencl, property, text, sizeof text);
    rt_json_string(json, key, text);
}

static void number_write(rt_json *json, const char *key, const rt_opencl *opencl, cl_uint property) {
    rt_json_unsigned(json, key, rt_device_number(opencl, property));
}

/* The first three dimensions, which launches use; drivers may answer more. */
static void item_sizes_write(rt_json *json, const rt_opencl *opencl) {
    enum { MAX_DIMENSIONS = 16 };
    size_t sizes[MAX_DIMENSIONS] = {0};
    opencl->cl.GetDeviceInfo(opencl->device, CL_DEVICE_MAX_WORK_ITEM_SIZES, sizeof sizes, sizes, NULL);
    rt_json_array_begin(json, "max_work_item_sizes");
    for (int i = 0; i < 3; i++) rt_json_unsigned(json, NULL, sizes[i]);
    rt_json_array_end(json);
}

/* The word for a device's type, of which it may have several bits. */
static const char *type_name(uint64_t type) {
    if (type & CL_DEVICE_TYPE_GPU) return "gpu";
    return type & CL_DEVICE_TYPE_CPU ? "cpu" : "accelerator";
}

/* Whether images of four half components can be read and written. */
static bool has_half_images(const rt_device *device) {
    enum { MAX_FORMATS = 512 };
    cl_image_format formats[MAX_FORMATS];
    cl_uint count = 0;
    cl_int code = device->opencl.cl.GetSupportedImageFormats(device->context, CL_MEM_READ_WRITE, CL_MEM_OBJECT_IMAGE2D,
                                                             MAX_FORMATS, formats, &count);
    for (cl_uint i = 0; code == CL_SUCCESS && i < count && i < MAX_FORMATS; i++) {
        if (formats[i].order == CL_RGBA && formats[i].type == CL_HALF_FLOAT) return true;
    }
    return false;
}

/* Numbers that the host's choices depend on; 0 where the driver does not tell. */
static void limits_write(rt_json *json, const rt_opencl *opencl) {
    number_write(json, "compute_units", opencl, CL_DEVICE_MAX_COMPUTE_UNITS);
    number_write(json, "max_clock_mhz", opencl, CL_DEVICE_MAX_CLOCK_FREQUENCY);
    number_write(json, "max_work_group_size", opencl, CL_DEVICE_MAX_WORK_GROUP_SIZE);
    item_sizes_write(json, opencl);
    number_write(json, "local_memory_bytes", opencl, CL_DEVICE_LOCAL_MEM_SIZE);
    number_write(json, "global_memory_bytes", opencl, CL_DEVICE_GLOBAL_MEM_SIZE);
    number_write(json, "max_allocation_bytes", opencl, CL_DEVICE_MAX_MEM_ALLOC_SIZE);
    rt_json_bool(json, "images", rt_device_number(opencl, CL_DEVICE_IMAGE_SUPPORT) != 0);
    number_write(json, "image2d_max_width", opencl, CL_DEVICE_IMAGE2D_MAX_WIDTH);
    number_write(json, "image2d_max_height", opencl, CL_DEVICE_IMAGE2D_MAX_HEIGHT);
    number_write(json, "preferred_float_width", opencl, CL_DEVICE_PREFERRED_VECTOR_WIDTH_FLOAT);
    rt_json_bool(json, "unified_memory", rt_device_number(opencl, CL_DEVICE_HOST_UNIFIED_MEMORY) != 0);
    number_write(json, "profiling_resolution_ns", opencl, CL_DEVICE_PROFILING_TIMER_RESOLUTION);
}

/* The list as the driver has it, and whether kernels may compute in half precision. */
static void extensions_write(rt_json *json, const rt_opencl *opencl) {
    char text[8192];
    char *rest = NULL;
    bool fp16 = false;
    rt_device_text(opencl, CL_DEVICE_EXTENSIONS, text, sizeof text);
    rt_json_array_begin(json, "extensions");
    for (char *word = strtok_r(text, " ", &rest); word != NULL; word = strtok_r(NULL, " ", &rest)) {
        fp16 = fp16 || strcmp(word, "cl_khr_fp16") == 0;
        rt_json_string(json, NULL, word);
    }
    rt_json_array_end(json);
    rt_json_bool(json, "fp16", fp16);
}

/* The platform's members and the device's object. */
static void device_write(rt_json *json, const rt_device *device) {
    const rt_opencl *opencl = &device->opencl;
    char text[1024];
    rt_platform_text(opencl, CL_PLATFORM_NAME, text, sizeof text);
    rt_json_string(json, "platform", text);
    rt_platform_text(opencl, CL_PLATFORM_VERSION, text, sizeof text);
    rt_json_string(json, "platform_version", text);
    rt_json_object_begin(json, "device");
    rt_json_string(json, "name", device->name);
    text_write(json, "vendor", opencl, CL_DEVICE_VENDOR);
    rt_json_string(json, "type", type_name(rt_device_number(opencl, CL_DEVICE_TYPE)));
    rt_json_string(json, "version", device->version);
    rt_json_string(json, "driver", device->driver);
    limits_write(json, opencl);
    rt_json_bool(json, "half_images", has_half_images(device));
    extensions_write(json, opencl);
    rt_json_object_end(json);
}

/* The library that was found, or why none was; with a context too, since some drivers fail only there. */
static void opencl_write(rt_json *json, const char *library) {
    rt_opencl opencl;
    const rt_device *device = NULL;
    rt_error error = {0};
    const rt_device_use use = {.perf = RT_HINT_DEFAULT, .priority = RT_HINT_DEFAULT};
    rt_status status = rt_opencl_open(&opencl, library, &error);
    if (status == RT_OK) status = rt_device_open(&device, &opencl, &use, &error);
    rt_json_object_begin(json, "opencl");
    rt_json_string(json, "library", status == RT_OK ? opencl.path : "");
    if (status == RT_OK) rt_json_string(json, "origin", opencl.is_driver ? "driver" : "loader");
    searched_write(json, &opencl);
    rt_json_string(json, "error", status == RT_OK ? "" : error.message);
    if (status == RT_OK) device_write(json, device);
    rt_device_close(device);
    rt_json_object_end(json);
}

void rt_probe_write(rt_json *json, const char *opencl_library) {
    rt_json_string(json, "runtime_version", RT_VERSION);
    rt_json_string(json, "abi", RT_ABI);
    cpu_write(json);
    rt_json_unsigned(json, "memory_bytes", rt_topology_memory_bytes());
    rt_json_unsigned(json, "page_bytes", rt_topology_page_bytes());
    opencl_write(json, opencl_library);
}
