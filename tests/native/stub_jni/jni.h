/* What examples/android/farmrt_jni.c uses of Java's native interface, with the types that it has there. */
#ifndef JNI_H
#define JNI_H

#include <stdint.h>

#define JNIEXPORT __attribute__((visibility("default")))
#define JNICALL

typedef uint8_t jboolean;
typedef int32_t jint;
typedef int64_t jlong;
typedef jint jsize;
typedef struct jobject_ *jobject;
typedef jobject jclass, jstring, jobjectArray;

typedef struct JNINativeInterface_ JNINativeInterface;
typedef const JNINativeInterface *JNIEnv;

struct JNINativeInterface_ {
    jclass (*FindClass)(JNIEnv *, const char *);
    jint (*ThrowNew)(JNIEnv *, jclass, const char *);
    const char *(*GetStringUTFChars)(JNIEnv *, jstring, jboolean *);
    void (*ReleaseStringUTFChars)(JNIEnv *, jstring, const char *);
    jstring (*NewStringUTF)(JNIEnv *, const char *);
    jobjectArray (*NewObjectArray)(JNIEnv *, jsize, jclass, jobject);
    void (*SetObjectArrayElement)(JNIEnv *, jobjectArray, jsize, jobject);
    void (*DeleteLocalRef)(JNIEnv *, jobject);
    void *(*GetDirectBufferAddress)(JNIEnv *, jobject);
    jlong (*GetDirectBufferCapacity)(JNIEnv *, jobject);
};

#endif
