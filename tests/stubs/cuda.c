/* A stub of libcuda.so.1 that answers from a script (script.h). */
#include "script.h"

#define SCRIPT "ENVGUARD_STUB_CUDA"
#define INVALID_VALUE 1
#define MAJOR 75
#define MINOR 76

#define TOLD(function) do { int code = obey(SCRIPT, #function); if (code) return code; } while (0)

/* A driver can die while it is being loaded. */
__attribute__((constructor)) static void loaded(void) { obey(SCRIPT, "load"); }

static int said(int device, const char *name, char *value, size_t size)
{
    char key[LINE];
    snprintf(key, sizeof key, "gpu%d.%s", device, name);
    return answer(SCRIPT, key, value, size) ? 0 : INVALID_VALUE;
}

#ifndef WITHOUT_cuDriverGetVersion
int cuDriverGetVersion(int *version)
{
    char value[LINE];
    TOLD(cuDriverGetVersion);
    *version = answer(SCRIPT, "cuda", value, sizeof value) ? atoi(value) : 0;
    return 0;
}
#endif

int cuInit(unsigned flags) { (void)flags; TOLD(cuInit); return 0; }

int cuGetErrorName(int code, const char **name)
{
    static char value[LINE];
    char key[LINE];
    snprintf(key, sizeof key, "error%d", code);
    if (!answer(SCRIPT, key, value, sizeof value))
        return INVALID_VALUE;
    *name = value;
    return 0;
}

int cuDeviceGetCount(int *count)
{
    char value[LINE];
    TOLD(cuDeviceGetCount);
    *count = answer(SCRIPT, "count", value, sizeof value) ? atoi(value) : 0;
    return 0;
}

int cuDeviceGet(int *device, int ordinal) { TOLD(cuDeviceGet); *device = ordinal; return 0; }

int cuDeviceGetName(char *name, int size, int device)
{
    TOLD(cuDeviceGetName);
    return said(device, "name", name, (size_t)size);
}

int cuDeviceTotalMem_v2(size_t *bytes, int device)
{
    char value[LINE];
    if (said(device, "memory", value, sizeof value))
        return INVALID_VALUE;
    *bytes = strtoull(value, NULL, 10);
    return 0;
}

int cuDeviceGetUuid(unsigned char *uuid, int device)
{
    char value[LINE];
    int i;
    if (said(device, "uuid", value, sizeof value))
        return INVALID_VALUE;
    for (i = 0; i < 16; i++) {
        unsigned byte;
        if (sscanf(value + 2 * i, "%2x", &byte) != 1)
            return INVALID_VALUE;
        uuid[i] = (unsigned char)byte;
    }
    return 0;
}

int cuDeviceGetAttribute(int *number, int attribute, int device)
{
    char value[LINE];
    int major = 0, minor = 0;
    if (said(device, "capability", value, sizeof value))
        return INVALID_VALUE;
    if (sscanf(value, "%d.%d", &major, &minor) != 2)
        return INVALID_VALUE;
    *number = attribute == MAJOR ? major : attribute == MINOR ? minor : 0;
    return 0;
}
