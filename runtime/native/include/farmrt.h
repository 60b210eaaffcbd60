/* farmrt: executes plans that `farm convert` writes.
 *
 * An engine is one loaded plan on one device; it owns all that it makes, and the caller owns what it passes in. Calls
 * on one engine must not overlap, but may come from different threads; different engines are independent. Every call
 * returns RT_OK or fills `error` (which may be NULL) and returns what it says. Nothing is printed, nothing aborts.
 *
 * A plan's OpenCL source is code that runs on the device: load plans only from where you would load a program.
 */
#ifndef FARMRT_H
#define FARMRT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define RT_API __attribute__((visibility("default")))
#else
#define RT_API
#endif

/* What became of a call. */
typedef enum {
    RT_OK = 0,
    RT_BAD_COMMAND,  /* an argument is wrong */
    RT_BAD_FILE,     /* damaged, or of another version */
    RT_NO_OPENCL,    /* no OpenCL library, platform or device */
    RT_UNSUPPORTED,  /* the device or this runtime cannot do what the plan asks */
    RT_BUILD_FAILED, /* the device's compiler refused a program */
    RT_OPENCL,       /* an OpenCL call failed: see `call` and `code` */
    RT_CPU,          /* a CPU operator failed */
    RT_HANG,         /* a launch did not end within watchdog_ms */
    RT_IO,           /* a file could not be read or written */
    RT_NO_MEMORY
} rt_status;

#define RT_NO_STEP (-1)

/* Why a call failed; filled only then. A value. */
typedef struct {
    rt_status status;
    int32_t step;       /* index of the step, RT_NO_STEP where none is known */
    int32_t code;       /* OpenCL error code, 0 otherwise */
    char call[40];      /* OpenCL function, empty otherwise */
    char message[2000]; /* one line for a person; a build log may follow */
} rt_error;

/* The cores that CPU operators run on: all, or those of the highest or lowest frequency; rt_options.cores names them
 * one by one. */
typedef enum { RT_AFFINITY_NONE = 0, RT_AFFINITY_BIG, RT_AFFINITY_LITTLE } rt_affinity;

/* What a GPU's driver is asked for, where it takes such a hint. */
typedef enum { RT_HINT_DEFAULT = 0, RT_HINT_LOW, RT_HINT_NORMAL, RT_HINT_HIGH } rt_hint;

/* Zero is a good value for every member but the plan and its data. Bytes given here, and what `on_hang` uses, must
 * outlive the engine; texts need not outlive the call. A value. */
typedef struct {
    const char *plan_path;
    const void *plan_bytes; /* instead of plan_path */
    size_t plan_size;
    const char *data_path;
    const void *data_bytes; /* instead of data_path */
    size_t data_size;
    const char *tuned_path;  /* tuned parameters, or NULL */
    const void *tuned_bytes; /* instead of tuned_path */
    size_t tuned_size;
    const char *kernels_path;  /* compiled kernels, or NULL */
    const void *kernels_bytes; /* instead of kernels_path */
    size_t kernels_size;
    const char *soc;            /* SoC key that the two files go by; NULL matches any */
    const char *opencl_library; /* NULL: FARM_OPENCL, then the usual places */
    uint32_t threads;           /* for CPU operators; 0: as many as the affinity allows */
    rt_affinity affinity;       /* which cores CPU operators run on */
    const char *isa;            /* instruction set of CPU operators; NULL: the best of this CPU */
    double limit_kernel_ms;     /* 0: none; else launches are split so that each part stays below */
    uint32_t watchdog_ms;       /* 0: none; else on_hang is called when nothing ends for longer, or for five rounds */
    void (*on_hang)(void *user, const rt_error *error); /* from another thread; should end the process */
    void *on_hang_user;
    void (*on_progress)(void *user); /* NULL, or called often by the thread that runs, as steps end */
    void *on_progress_user;
    uint64_t max_cpu_work; /* 0: none; else plans whose CPU operators do more inner operations a run are refused */
    int lazy;              /* build programs at their first use, not at load */
    const char *cores;     /* list of CPUs for CPU operators (`4-7` or `0,2`), instead of affinity */
    rt_hint perf_hint;     /* how high the GPU should clock */
    rt_hint priority_hint; /* whose work goes first on the GPU */
    const char *operators_path; /* library of custom CPU operators, which is loaded as code; NULL: none */
    const void *operators;      /* instead of operators_path: the rt_operator_table of a program that links them */
    uint32_t flush_every;       /* launches after which the queue is flushed; 0: as the GPU's family needs it */
    int zero_copy;              /* 1: a GPU reads weights in the host's memory; 0: copies them (a CPU never does) */
    int record;                 /* 1: launches are recorded once, and then enqueued together, where the driver can */
    int host_times;             /* 1: times launches one by one by the host's clock, since the GPU's is not right */
} rt_options;

/* For flush_every: the queue is flushed only when somebody waits for it. */
#define RT_FLUSH_NEVER UINT32_MAX

/* What an element is. Floats and integers are little-endian, as the CPU has them; RT_BOOL is a byte, 0 or 1. */
typedef enum {
    RT_FLOAT32 = 0,
    RT_FLOAT16,
    RT_INT32,
    RT_FLOAT64,
    RT_BFLOAT16,
    RT_INT8,
    RT_UINT8,
    RT_INT16,
    RT_UINT16,
    RT_UINT32,
    RT_INT64,
    RT_UINT64,
    RT_BOOL
} rt_type;

/* An input or output; what it points to is the engine's. A value. */
typedef struct {
    const char *name;
    const uint32_t *shape;
    uint32_t rank;
    rt_type type; /* of each element */
    size_t count; /* elements */
    size_t bytes; /* of all elements: what a buffer for them has to hold */
} rt_tensor_info;

/* A loaded plan. */
typedef struct rt_engine rt_engine;

/* Loads a plan, for rt_engine_destroy: checks the files, opens the device, builds every program (unless `lazy`). Where
 * it fails, `*engine` is NULL and nothing is left behind. */
RT_API rt_status rt_engine_create(const rt_options *options, rt_engine **engine, rt_error *error);

/* Releases an engine and all that it made; NULL is ignored. Not while a call on it runs. */
RT_API void rt_engine_destroy(rt_engine *engine);

/* The index-th input or output; RT_BAD_COMMAND past the last, and `info` is then as it was. */
RT_API rt_status rt_engine_input_info(const rt_engine *engine, uint32_t index, rt_tensor_info *info);
RT_API rt_status rt_engine_output_info(const rt_engine *engine, uint32_t index, rt_tensor_info *info);

/* What integers stand for: scale * (element - zero_point). A value. */
typedef struct {
    float scale;
    int64_t zero_point;
    int32_t axis; /* whose index-th part this holds for; -1: it holds for all elements */
} rt_quantization;

/* What the elements of an input or output stand for: at index 0, or at each index of an axis. RT_BAD_COMMAND, and
 * `found` is as it was, past the last, and where nothing is known of them or no tensor has the name. */
RT_API rt_status rt_engine_quantization(const rt_engine *engine, const char *name, uint32_t index,
                                        rt_quantization *found);

/* Copies all elements of a tensor in or out, row-major in the model's own format. `bytes` is the size of `values`:
 * RT_BAD_COMMAND, and nothing is copied, where it is not the tensor's own or no tensor has the name; RT_OPENCL. */
RT_API rt_status rt_engine_input(rt_engine *engine, const char *name, const void *values, size_t bytes,
                                 rt_error *error);
RT_API rt_status rt_engine_output(rt_engine *engine, const char *name, void *values, size_t bytes, rt_error *error);

/* Runs the plan once and waits; inputs stay as they are. After a failure outputs may be incomplete, and the engine can
 * be run again. */
RT_API rt_status rt_engine_run(rt_engine *engine, rt_error *error);

/* How the two files were used: `exact`, `family` or `none`, and how many programs came from the file; and what became of
 * the hints to the driver. A value. */
typedef struct {
    const char *tuned_match;
    uint32_t tuned_used;
    const char *kernels_match;
    uint32_t kernels_loaded;
    uint32_t kernels_built;
    const char *perf_hint; /* what became of the hints: `default`, `applied`, `not supported`, `refused` */
    const char *priority_hint;
} rt_usage;

/* Tells what has been used so far; the texts are constants. */
RT_API void rt_engine_usage(const rt_engine *engine, rt_usage *usage);

/* Writes the compiled programs of the engine, for `kernels_path` of a later start: whole, or not at all. RT_UNSUPPORTED
 * for a plan without OpenCL, RT_OPENCL, RT_NO_MEMORY, RT_IO. */
RT_API rt_status rt_engine_save_kernels(rt_engine *engine, const char *path, rt_error *error);

/* The version of this library, as `farmrt --version` says it. */
RT_API const char *rt_version(void);

/* The word for a status in farmrt's answers, `ok` for RT_OK. */
RT_API const char *rt_status_name(rt_status status);

/* The name of an element type as deployment files have it: `float32`, `int64`, ... */
RT_API const char *rt_type_name(rt_type type);

#ifdef __cplusplus
}
#endif

#endif
