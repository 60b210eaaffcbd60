/* The loaded plan: what the files of this folder share. Each group of members has one owner, named behind it. */
#ifndef RT_ENGINE_H
#define RT_ENGINE_H

#include "device.h"
#include "kernels_cache.h"
#include "plan.h"
#include "tuned.h"
#include "watchdog.h"
#include "workers.h"

/* A plan's pool. Scratch: on the device, or host memory where no step needs OpenCL. Weights: always readable in the
 * mapped data file, and a memory object besides where OpenCL is used. */
typedef struct {
    cl_mem object;
    uint8_t *host; /* weights: the data file; scratch: own memory, or mapped while CPU steps run */
    uint64_t size;
} rt_pool;

typedef struct {
    cl_mem object;
} rt_image;

/* Weights in another block size. */
typedef struct {
    uint32_t pack; /* index of the plan's record */
    uint32_t block;
    bool on_host;
    cl_mem object; /* not on the host */
    float *host;   /* on the host */
    uint64_t elements;
} rt_repacked;

/* A program that was built: key `<source hash>|<options>`. */
typedef struct {
    const char *source_hash; /* in the plan */
    char *options;
    cl_program object;
} rt_program;

/* How a step is launched. Strings live in the plan, the tuned file or the caller. */
typedef struct {
    const char *kernel;
    const char *options;
    uint32_t work_dim;
    uint32_t block; /* of packed weights, 0: as in the plan */
    uint32_t global_size[3];
    uint32_t local_size[3]; /* 0, 0, 0: the driver chooses */
} rt_launch;

typedef struct rt_cpu_call rt_cpu_call;
typedef struct rt_tile_kernels rt_tile_kernels;

typedef struct {
    rt_launch launch;
    cl_kernel kernel;  /* NULL until it is prepared */
    rt_cpu_call *call; /* CPU steps */
    uint32_t parts;    /* launches that it is split into, at least 1 */
    bool tuned;
} rt_step;

struct rt_engine {
    /* engine.c */
    rt_options options;
    char *plan_name, *data_name, *tuned_name, *kernels_name, *soc;
    rt_bytes plan_bytes, data_bytes, tuned_bytes, kernels_bytes;
    rt_plan plan;
    bool has_device;
    rt_device device;
    rt_step *steps;
    uint64_t rounds; /* since load */
    bool limited;    /* limit.c has chosen the parts of each step */
    /* storage.c */
    rt_pool *pools;
    rt_image *images;
    uint64_t scratch_bytes, weights_bytes, images_bytes;
    /* repack.c */
    rt_repacked *repacked;
    uint32_t repacked_count;
    /* program.c */
    rt_program *programs;
    uint32_t program_count, programs_loaded, programs_built;
    uint64_t build_ns;
    /* cpu.c */
    rt_workers *workers; /* NULL where no step needs the CPU */
    uint64_t cpu_work;   /* inner operations of a round */
    const rt_tile_kernels *tiles;
    /* tuned.c, kernels_cache.c */
    rt_tuned tuned;
    rt_kernels_cache kernels;
    /* watchdog.c */
    rt_watchdog *watchdog;
};

static inline const rt_opencl_functions *rt_engine_cl(const rt_engine *engine) { return &engine->device.opencl.cl; }

#endif
