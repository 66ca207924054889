/* A stub of libnvidia-ml.so.1 that answers from a script (script.h). Each function can be left
 * out with -DWITHOUT_<function>, as in a driver that is too old to have it. */
#include "script.h"

#define SCRIPT "ENVGUARD_STUB_NVML"
#define INVALID_ARGUMENT 2
#define NOT_SUPPORTED 3
#define NOT_FOUND 6
#define MOST_INSTANCES 7

typedef void *device_t;
typedef struct { unsigned long long total, free, used; } memory_t;
typedef struct {
    char bus_id_legacy[16];
    unsigned domain, bus, device, device_id, subsystem_id;
    char bus_id[32];
} pci_t;

/* A GPU is 1000, 2000, ...; a MIG instance of it 1001, 1002, ... */
static device_t device_of(int gpu, int slot) { return (device_t)(long)((gpu + 1) * 1000 + slot); }
static int gpu_of(device_t device) { return (int)((long)device / 1000) - 1; }
static int slot_of(device_t device) { return (int)((long)device % 1000) - 1; }

static int said(const char *key, char *value, unsigned size)
{
    return answer(SCRIPT, key, value, size);
}

static long number(const char *key, long otherwise)
{
    char value[LINE];
    return said(key, value, sizeof value) ? atol(value) : otherwise;
}

/* "gpu0.name", or "gpu0.mig1.name" for an instance. */
static void key_of(device_t device, const char *field, char *key, size_t size)
{
    if (slot_of(device) < 0)
        snprintf(key, size, "gpu%d.%s", gpu_of(device), field);
    else
        snprintf(key, size, "gpu%d.mig%d.%s", gpu_of(device), slot_of(device), field);
}

static int field(device_t device, const char *name, char *value, unsigned size)
{
    char key[LINE];
    key_of(device, name, key, sizeof key);
    return said(key, value, size) ? 0 : NOT_SUPPORTED;
}

/* What "do <function>" or "do:<gpu> <function>" tells this call to do. */
static int told(const char *function, int gpu)
{
    char key[LINE];
    int code;
    snprintf(key, sizeof key, "%s:%d", function, gpu);
    code = gpu < 0 ? 0 : obey(SCRIPT, key);
    return code ? code : obey(SCRIPT, function);
}

#define TOLD(function, gpu) \
    do { int code = told(#function, gpu); if (code) return code; } while (0)

#ifndef WITHOUT_nvmlInitWithFlags
int nvmlInitWithFlags(unsigned flags) { (void)flags; TOLD(nvmlInitWithFlags, -1); return 0; }
#endif

#ifndef WITHOUT_nvmlSystemGetDriverVersion
int nvmlSystemGetDriverVersion(char *value, unsigned size)
{
    TOLD(nvmlSystemGetDriverVersion, -1);
    return said("driver", value, size) ? 0 : NOT_SUPPORTED;
}
#endif

#ifndef WITHOUT_nvmlSystemGetNVMLVersion
int nvmlSystemGetNVMLVersion(char *value, unsigned size)
{
    TOLD(nvmlSystemGetNVMLVersion, -1);
    return said("nvml", value, size) ? 0 : NOT_SUPPORTED;
}
#endif

#ifndef WITHOUT_nvmlSystemGetCudaDriverVersion_v2
int nvmlSystemGetCudaDriverVersion_v2(int *value)
{
    TOLD(nvmlSystemGetCudaDriverVersion_v2, -1);
    *value = (int)number("cuda", 0);
    return 0;
}
#endif

#ifndef WITHOUT_nvmlDeviceGetCount_v2
int nvmlDeviceGetCount_v2(unsigned *value)
{
    TOLD(nvmlDeviceGetCount_v2, -1);
    *value = (unsigned)number("count", 0);
    return 0;
}
#endif

#ifndef WITHOUT_nvmlDeviceGetHandleByIndex_v2
int nvmlDeviceGetHandleByIndex_v2(unsigned index, device_t *device)
{
    TOLD(nvmlDeviceGetHandleByIndex_v2, (int)index);
    *device = device_of((int)index, 0);
    return 0;
}
#endif

#ifndef WITHOUT_nvmlDeviceGetName
int nvmlDeviceGetName(device_t device, char *value, unsigned size)
{
    TOLD(nvmlDeviceGetName, gpu_of(device));
    return field(device, "name", value, size);
}
#endif

#ifndef WITHOUT_nvmlDeviceGetUUID
int nvmlDeviceGetUUID(device_t device, char *value, unsigned size)
{
    TOLD(nvmlDeviceGetUUID, gpu_of(device));
    return field(device, "uuid", value, size);
}
#endif

#ifndef WITHOUT_nvmlDeviceGetCudaComputeCapability
int nvmlDeviceGetCudaComputeCapability(device_t device, int *major, int *minor)
{
    char value[LINE];
    TOLD(nvmlDeviceGetCudaComputeCapability, gpu_of(device));
    if (field(device, "capability", value, sizeof value))
        return NOT_SUPPORTED;
    return sscanf(value, "%d.%d", major, minor) == 2 ? 0 : INVALID_ARGUMENT;
}
#endif

#ifndef WITHOUT_nvmlDeviceGetMemoryInfo
int nvmlDeviceGetMemoryInfo(device_t device, memory_t *memory)
{
    char value[LINE];
    TOLD(nvmlDeviceGetMemoryInfo, gpu_of(device));
    if (field(device, "memory", value, sizeof value))
        return NOT_SUPPORTED;
    memory->total = strtoull(value, NULL, 10);
    memory->free = memory->total;
    memory->used = 0;
    return 0;
}
#endif

#ifndef WITHOUT_nvmlDeviceGetPciInfo_v3
int nvmlDeviceGetPciInfo_v3(device_t device, pci_t *pci)
{
    TOLD(nvmlDeviceGetPciInfo_v3, gpu_of(device));
    memset(pci, 0, sizeof *pci);
    return field(device, "bus", pci->bus_id, sizeof pci->bus_id);
}
#endif

#ifndef WITHOUT_nvmlDeviceGetVirtualizationMode
int nvmlDeviceGetVirtualizationMode(device_t device, unsigned *mode)
{
    char value[LINE];
    TOLD(nvmlDeviceGetVirtualizationMode, gpu_of(device));
    *mode = field(device, "virtualization", value, sizeof value) ? 0 : (unsigned)atoi(value);
    return 0;
}
#endif

#ifndef WITHOUT_nvmlDeviceGetMigMode
int nvmlDeviceGetMigMode(device_t device, unsigned *current, unsigned *pending)
{
    char value[LINE];
    TOLD(nvmlDeviceGetMigMode, gpu_of(device));
    if (field(device, "mig", value, sizeof value))
        return NOT_SUPPORTED;
    *current = *pending = (unsigned)atoi(value);
    return 0;
}
#endif

/* uuid, then result, clique and state: nvmlGpuFabricInfo_t */
typedef struct { unsigned char uuid[16]; unsigned status, clique, state; } fabric_t;

#ifndef WITHOUT_nvmlDeviceGetGpuFabricInfo
int nvmlDeviceGetGpuFabricInfo(device_t device, fabric_t *fabric)
{
    char value[LINE];
    TOLD(nvmlDeviceGetGpuFabricInfo, gpu_of(device));
    if (field(device, "fabric", value, sizeof value))
        return NOT_SUPPORTED;
    return sscanf(value, "%u:%u", &fabric->state, &fabric->status) == 2 ? 0 : INVALID_ARGUMENT;
}
#endif

/* Whether a licence is needed, how many features, then each feature's code and state. */
#ifndef WITHOUT_nvmlDeviceGetGridLicensableFeatures_v4
int nvmlDeviceGetGridLicensableFeatures_v4(device_t device, unsigned *words)
{
    char value[LINE];
    TOLD(nvmlDeviceGetGridLicensableFeatures_v4, gpu_of(device));
    if (field(device, "licensed", value, sizeof value))
        return NOT_SUPPORTED;
    words[0] = 1;
    words[1] = 1;
    words[3] = (unsigned)atoi(value);
    return 0;
}
#endif

#ifndef WITHOUT_nvmlDeviceGetMaxMigDeviceCount
int nvmlDeviceGetMaxMigDeviceCount(device_t device, unsigned *count)
{
    TOLD(nvmlDeviceGetMaxMigDeviceCount, gpu_of(device));
    *count = MOST_INSTANCES;
    return 0;
}
#endif

#ifndef WITHOUT_nvmlDeviceGetMigDeviceHandleByIndex
int nvmlDeviceGetMigDeviceHandleByIndex(device_t device, unsigned slot, device_t *instance)
{
    char value[LINE];
    TOLD(nvmlDeviceGetMigDeviceHandleByIndex, gpu_of(device));
    *instance = device_of(gpu_of(device), (int)slot + 1);
    return field(*instance, "uuid", value, sizeof value) ? NOT_FOUND : 0;
}
#endif
