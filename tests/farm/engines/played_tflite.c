/* The C API of TensorFlow Lite (tensorflow/lite/core/c/c_api.h, 2.16) over one model, -RELU(-x) of four numbers: three
 * nodes, of which a delegate may take the second. A file that does not begin with PLAY is no model. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { OK = 0, FLOAT32 = 1, COUNT = 4, NODES = 3, RELU = 19, NEG = 59, DELEGATE = 51 };

typedef struct {
  int size;
  int data[NODES];
} IntArray;

typedef struct {
  void (*functions[5])(void);
  int32_t builtin_code;
} Registration;

typedef struct {
  const char *name;
  float data[COUNT];
} Tensor;

typedef struct Context Context;

struct Context {
  size_t tensors_size;
  int (*GetExecutionPlan)(Context *, IntArray **);
  void *tensors, *impl;
  void (*functions[3])(void);
  int (*GetNodeAndRegistration)(Context *, int, void **, Registration **);
  int (*ReplaceNodeSubsetsWithDelegateKernels)(Context *, char *own, const IntArray *, void *);
};

typedef struct {
  void *data;
  int (*prepare)(Context *, void *);
} Delegate;

static Registration registrations[] = {{.builtin_code = NEG}, {.builtin_code = RELU}, {.builtin_code = NEG}, {.builtin_code = DELEGATE}};
static IntArray plan = {NODES, {0, 1, 2}};
static Tensor x = {.name = "serving_default_x:0"}, y = {.name = "StatefulPartitionedCall:0"};
static Delegate *delegate;
static int32_t threads = -1;

static int execution_plan(Context *context, IntArray **found) { return (void)context, *found = &plan, OK; }

static int node(Context *context, int index, void **found, Registration **registration) {
  return (void)context, *found = registrations + index, *registration = registrations + index, OK;
}

static int take_second(void) { return plan.data[1] = NODES, OK; }

const char *TfLiteVersion(void) { return "2.16.1"; }

void *TfLiteModelCreateFromFile(const char *path) {
  char begin[4] = "";
  FILE *file = fopen(path, "rb");
  if (file == NULL) return NULL;
  size_t read = fread(begin, 1, sizeof begin, file);
  fclose(file);
  if (read == sizeof begin && memcmp(begin, "PLAY", sizeof begin) == 0) return &x;
  fputs("ERROR: the model is not identified\n", stderr);
  return NULL;
}

void *TfLiteInterpreterOptionsCreate(void) { return &threads; }
void TfLiteInterpreterOptionsSetNumThreads(int32_t *options, int32_t count) { *options = count; }
void TfLiteInterpreterOptionsAddDelegate(void *options, Delegate *added) { (void)options, delegate = added; }

void *TfLiteInterpreterCreate(const void *model, const void *options) {
  Context context = {.GetExecutionPlan = execution_plan, .GetNodeAndRegistration = node};
  memcpy(&context.ReplaceNodeSubsetsWithDelegateKernels, &(int (*)(void)){take_second}, sizeof(void *));
  fprintf(stderr, "INFO: %d threads\n", threads);
  if (delegate != NULL && delegate->prepare(&context, delegate) != OK) return NULL;
  return (void)model, (void)options, &plan;
}

int TfLiteInterpreterAllocateTensors(void *interpreter) { return interpreter == &plan ? OK : 1; }
int32_t TfLiteInterpreterGetInputTensorCount(const void *interpreter) { return (void)interpreter, 1; }
int32_t TfLiteInterpreterGetOutputTensorCount(const void *interpreter) { return (void)interpreter, 1; }
void *TfLiteInterpreterGetInputTensor(const void *of, int32_t index) { return (void)of, index == 0 ? &x : NULL; }
void *TfLiteInterpreterGetOutputTensor(const void *of, int32_t index) { return (void)of, index == 0 ? &y : NULL; }

int TfLiteInterpreterInvoke(void *interpreter) {
  (void)interpreter;
  for (int i = 0; i < COUNT; ++i) y.data[i] = x.data[i] < 0 ? x.data[i] : 0;
  return OK;
}

int TfLiteTensorType(const void *tensor) { return (void)tensor, FLOAT32; }
int32_t TfLiteTensorNumDims(const void *tensor) { return (void)tensor, 2; }
int32_t TfLiteTensorDim(const void *tensor, int32_t axis) { return (void)tensor, axis == 0 ? 1 : COUNT; }
size_t TfLiteTensorByteSize(const void *tensor) { return (void)tensor, sizeof x.data; }
void *TfLiteTensorData(Tensor *tensor) { return tensor->data; }
const char *TfLiteTensorName(const Tensor *tensor) { return tensor->name; }

#ifndef WITHOUT_SIGNATURES
int32_t TfLiteInterpreterGetSignatureCount(const void *interpreter) { return (void)interpreter, 1; }
const char *TfLiteInterpreterGetSignatureKey(const void *of, int32_t index) { return (void)of, (void)index, "serving_default"; }
void *TfLiteInterpreterGetSignatureRunner(const void *of, const char *key) { return (void)of, strcmp(key, "serving_default") ? NULL : &plan; }
void *TfLiteSignatureRunnerGetInputTensor(void *runner, const char *name) { return (void)runner, strcmp(name, "x") ? NULL : &x; }
void *TfLiteSignatureRunnerGetOutputTensor(void *runner, const char *name) { return (void)runner, strcmp(name, "y") ? NULL : &y; }
#endif
