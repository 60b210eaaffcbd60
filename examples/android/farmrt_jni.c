/* The native half of Farmrt.kt: passes each call on to farmrt, and throws what it answers as an IllegalStateException.
 *
 * A handle is an rt_engine; Farmrt.kt passes none that is closed.
 */
#include <jni.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "farmrt.h"

enum { LONGEST_LINE = 1024 };

static rt_engine *engine_of(jlong handle) { return (rt_engine *)(intptr_t)handle; }

static void throw(JNIEnv *env, const char *status, const char *message) {
    char line[LONGEST_LINE];
    jclass type = (*env)->FindClass(env, "java/lang/IllegalStateException");
    snprintf(line, sizeof line, "%s: %s", status, message);
    if (type != NULL) (*env)->ThrowNew(env, type, line);
}

static void answer(JNIEnv *env, rt_status status, const rt_error *error) {
    if (status != RT_OK) throw(env, rt_status_name(status), error->message);
}

/* The characters of a string, for `text_free`; NULL for null. */
static const char *text_of(JNIEnv *env, jstring text) {
    return text != NULL ? (*env)->GetStringUTFChars(env, text, NULL) : NULL;
}

static void text_free(JNIEnv *env, jstring text, const char *characters) {
    if (characters != NULL) (*env)->ReleaseStringUTFChars(env, text, characters);
}

JNIEXPORT jlong JNICALL Java_farm_Farmrt_create(JNIEnv *env, jobject self, jstring plan, jstring data, jstring tuned,
                                                jstring kernels, jstring soc) {
    rt_error error;
    rt_engine *engine = NULL;
    rt_options options = {
        .plan_path = text_of(env, plan),
        .data_path = text_of(env, data),
        .tuned_path = text_of(env, tuned),
        .kernels_path = text_of(env, kernels),
        .soc = text_of(env, soc),
    };
    (void)self;
    rt_status status = rt_engine_create(&options, &engine, &error);
    text_free(env, plan, options.plan_path);
    text_free(env, data, options.data_path);
    text_free(env, tuned, options.tuned_path);
    text_free(env, kernels, options.kernels_path);
    text_free(env, soc, options.soc);
    answer(env, status, &error);
    return (jlong)(intptr_t)engine;
}

typedef rt_status tensor_asked(const rt_engine *engine, uint32_t index, rt_tensor_info *info);

/* A tensor as Farmrt.kt reads it: `float32 602112 1x3x224x224 image`; the name comes last, since it may have blanks. */
static jstring line_of(JNIEnv *env, const rt_tensor_info *tensor) {
    char line[LONGEST_LINE], shape[LONGEST_LINE / 4] = "";
    for (uint32_t axis = 0; axis < tensor->rank; axis++) {
        size_t used = strlen(shape);
        snprintf(shape + used, sizeof shape - used, axis > 0 ? "x%u" : "%u", tensor->shape[axis]);
    }
    snprintf(line, sizeof line, "%s %zu %s %s", rt_type_name(tensor->type), tensor->bytes, shape, tensor->name);
    return (*env)->NewStringUTF(env, line);
}

JNIEXPORT jobjectArray JNICALL Java_farm_Farmrt_tensors(JNIEnv *env, jobject self, jlong handle, jboolean inputs) {
    rt_tensor_info tensor;
    tensor_asked *ask = inputs ? rt_engine_input_info : rt_engine_output_info;
    uint32_t count = 0;
    (void)self;
    while (ask(engine_of(handle), count, &tensor) == RT_OK) count++;
    jclass type = (*env)->FindClass(env, "java/lang/String");
    jobjectArray lines = type != NULL ? (*env)->NewObjectArray(env, (jsize)count, type, NULL) : NULL;
    for (uint32_t i = 0; lines != NULL && i < count && ask(engine_of(handle), i, &tensor) == RT_OK; i++) {
        jstring line = line_of(env, &tensor);
        if (line == NULL) return NULL; /* an exception is on its way */
        (*env)->SetObjectArrayElement(env, lines, (jsize)i, line);
        (*env)->DeleteLocalRef(env, line);
    }
    return lines;
}

/* Moves a tensor between a direct buffer, all of it, and the engine. */
static void tensor_move(JNIEnv *env, jlong handle, jstring name, jobject buffer, int is_input) {
    rt_error error;
    void *values = (*env)->GetDirectBufferAddress(env, buffer);
    jlong bytes = (*env)->GetDirectBufferCapacity(env, buffer);
    if (values == NULL || bytes < 0) {
        throw(env, "bad_command", "the buffer is no direct one");
        return;
    }
    const char *text = text_of(env, name);
    if (text == NULL) return; /* an exception is on its way */
    rt_status status = is_input ? rt_engine_input(engine_of(handle), text, values, (size_t)bytes, &error)
                                : rt_engine_output(engine_of(handle), text, values, (size_t)bytes, &error);
    text_free(env, name, text);
    answer(env, status, &error);
}

JNIEXPORT void JNICALL Java_farm_Farmrt_write(JNIEnv *env, jobject self, jlong handle, jstring name, jobject buffer) {
    (void)self;
    tensor_move(env, handle, name, buffer, 1);
}

JNIEXPORT void JNICALL Java_farm_Farmrt_read(JNIEnv *env, jobject self, jlong handle, jstring name, jobject buffer) {
    (void)self;
    tensor_move(env, handle, name, buffer, 0);
}

JNIEXPORT void JNICALL Java_farm_Farmrt_execute(JNIEnv *env, jobject self, jlong handle) {
    rt_error error;
    (void)self;
    answer(env, rt_engine_run(engine_of(handle), &error), &error);
}

JNIEXPORT void JNICALL Java_farm_Farmrt_destroy(JNIEnv *env, jobject self, jlong handle) {
    (void)env;
    (void)self;
    rt_engine_destroy(engine_of(handle));
}
