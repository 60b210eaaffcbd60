#include "opencl_places.h"

#include <dirent.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../system/file.h"

enum { MAX_PATH_BYTES = 512, MAX_ICD_FILES = 32 };

#if UINTPTR_MAX > UINT32_MAX
#define LIB "lib64"
#else
#define LIB "lib"
#endif

#if defined(__aarch64__)
#define DISTRIBUTION "/usr/lib/aarch64-linux-gnu"
#elif defined(__arm__)
#define DISTRIBUTION "/usr/lib/arm-linux-gnueabihf"
#else
#define DISTRIBUTION "/usr/lib/x86_64-linux-gnu"
#endif

#define ICD_FOLDER "/etc/OpenCL/vendors"

const char rt_opencl_places_text[] =
    "/vendor/" LIB ", /system/vendor/" LIB ", /system/" LIB ", the dynamic linker's folders, " ICD_FOLDER
    ", " DISTRIBUTION ", /usr/lib and /usr/local/lib";

/* Android: Adreno's own name, Pixel's loader, Mali's (in the OpenGL library), PowerVR's; HarmonyOS: its folder for
 * drivers, Maleoon's name. */
static const char *const phone_folders[] = {"/vendor/" LIB, "/system/vendor/" LIB, "/system/" LIB,
                                            "/vendor/" LIB "/chipsetsdk", NULL};
static const char *const phone_names[] = {"libOpenCL.so",    "libOpenCL-pixel.so", "egl/libGLES_mali.so",
                                          "libGLES_mali.so", "libmali.so",         "libPVROCL.so",
                                          "libhvgr_v200.so", NULL};

/* Linux: a loader, then a driver alone; boards' images keep the latter where the dynamic linker does not look. */
static const char *const linked_names[] = {"libOpenCL.so.1", "libOpenCL.so", "libmali.so.1",
                                           "libmali.so",     "libPVROCL.so", NULL};
static const char *const board_folders[] = {DISTRIBUTION,    DISTRIBUTION "/mali", "/usr/lib",
                                            "/usr/lib/mali", "/usr/local/lib",     NULL};
static const char *const board_names[] = {"libOpenCL.so.1", "libOpenCL.so", "libmali.so.1", "libmali.so", NULL};

/* Every name in every folder, names first: a loader anywhere is better than a driver alone. */
static bool folders_visit(const char *const *folders, const char *const *names, rt_place_visit *visit, void *context) {
    char path[MAX_PATH_BYTES];
    for (; *names != NULL; names++) {
        for (size_t i = 0; folders[i] != NULL; i++) {
            snprintf(path, sizeof path, "%s/%s", folders[i], *names);
            if (visit(context, path)) return true;
        }
    }
    return false;
}

/* Names alone, which the dynamic linker looks for. */
static bool names_visit(const char *const *names, rt_place_visit *visit, void *context) {
    for (; *names != NULL; names++) {
        if (visit(context, *names)) return true;
    }
    return false;
}

static int names_compare(const void *a, const void *b) { return strcmp(a, b); }

/* The driver that a file of the vendors' folder names in its first line. */
static bool icd_file_visit(const char *folder, const char *name, rt_place_visit *visit, void *context) {
    char path[MAX_PATH_BYTES], library[MAX_PATH_BYTES];
    int length = snprintf(path, sizeof path, "%s/%s", folder, name);
    if (length < 0 || (size_t)length >= sizeof path || !rt_file_read_text(path, library, sizeof library)) return false;
    library[strcspn(library, " \t\r\n")] = '\0';
    return library[0] != '\0' && visit(context, library);
}

/* Whether a file of the vendors' folder is one of those that loaders read: `*.icd`. */
static bool is_icd_name(const char *name) {
    size_t length = strlen(name);
    return length > 4 && length < NAME_MAX && strcmp(name + length - 4, ".icd") == 0;
}

/* Drivers that register for a loader, which may be missing; in the order of their names, as loaders take them. */
static bool icd_folder_visit(const char *folder, rt_place_visit *visit, void *context) {
    char names[MAX_ICD_FILES][NAME_MAX + 1];
    size_t count = 0;
    DIR *listing = opendir(folder);
    if (listing == NULL) return false;
    for (struct dirent *entry; count < MAX_ICD_FILES && (entry = readdir(listing)) != NULL;) {
        if (is_icd_name(entry->d_name)) snprintf(names[count++], sizeof names[0], "%s", entry->d_name);
    }
    closedir(listing);
    qsort(names, count, sizeof names[0], names_compare);
    for (size_t i = 0; i < count; i++) {
        if (icd_file_visit(folder, names[i], visit, context)) return true;
    }
    return false;
}

bool rt_opencl_places_visit(rt_place_visit *visit, void *context) {
    const char *vendors = getenv("OCL_ICD_VENDORS");
    return folders_visit(phone_folders, phone_names, visit, context) || names_visit(linked_names, visit, context) ||
           icd_folder_visit(vendors != NULL && vendors[0] == '/' ? vendors : ICD_FOLDER, visit, context) ||
           folders_visit(board_folders, board_names, visit, context) || visit(context, "libpocl.so.2");
}
