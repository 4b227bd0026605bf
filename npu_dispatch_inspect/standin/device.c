/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Devices, contexts and capabilities.
 *
 * A device is a number and a context is the address of that number's slot, which is
 * all that torch_npu ever does with them.
 */
#include "standin.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_DEVICES 64

struct ndi_device_model ndi_model;

static int32_t contexts[MAX_DEVICES];
static __thread int32_t current_device = -1;
static __thread char last_error[512];

struct limits {
    uint32_t cores[2]; /* cube, vector; 0 = never limited */
};

static struct limits device_limits[MAX_DEVICES];

/*
 * The loader says in the environment what device to be, so that child processes, which
 * inherit it, are on the same one.
 */
__attribute__((constructor)) static void configure(void)
{
    const char *text = getenv("NPU_DISPATCH_INSPECT_STANDIN_DEVICE");
    struct ndi_device_model *model = &ndi_model;
    if (!text ||
        sscanf(text,
               "%63[^:]:%" SCNu32 ":%" SCNd64 ":%" SCNd64 ":%zu:%d:%d:%31[^:]:%31[^:]",
               model->soc_name, &model->device_count, &model->cube_cores,
               &model->vector_cores, &model->memory_bytes, &model->jit_compile,
               &model->newer_family, model->cann_version, model->driver_version) != 9) {
        fprintf(stderr, "npu_dispatch_inspect: the stand-in's libraries are to be loaded "
                        "with standin.load() only.\n");
        return;
    }
    for (int32_t i = 0; i < MAX_DEVICES; i++)
        contexts[i] = i;
}

void ndi_set_error(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(last_error, sizeof last_error, format, args);
    va_end(args);
}

int32_t ndi_current_device(void)
{
    return current_device < 0 ? 0 : current_device;
}

static int valid_device(int32_t device)
{
    if (device >= 0 && (uint32_t)device < ndi_model.device_count)
        return 1;
    ndi_set_error("device %d does not exist: the stand-in was loaded with %u device(s)",
                  device, ndi_model.device_count);
    return 0;
}

/* ---- life of the process ---- */

NDI_EXPORT int aclInit(const char *config)
{
    (void)config;
    ndi_watch_lookups();
    return NDI_OK;
}

NDI_EXPORT int aclFinalize(void)
{
    return NDI_OK;
}

NDI_EXPORT const char *aclGetRecentErrMsg(void)
{
    static __thread char handed_out[sizeof last_error];
    /* Like CANN: a message is given once, and NULL means that there is none. */
    if (last_error[0] == '\0')
        return NULL;
    strcpy(handed_out, last_error);
    last_error[0] = '\0';
    return handed_out;
}

NDI_EXPORT void aclAppLog(int level, const char *func, const char *file, uint32_t line,
                          const char *format, ...)
{
    /* CANN writes these to its own log files, never to the program's streams. */
    (void)level, (void)func, (void)file, (void)line, (void)format;
}

/* ---- devices and contexts ---- */

NDI_EXPORT int aclrtGetDeviceCount(uint32_t *count)
{
    *count = ndi_model.device_count;
    return NDI_OK;
}

NDI_EXPORT int aclrtSetDevice(int32_t device)
{
    if (!valid_device(device))
        return NDI_INVALID_PARAM;
    current_device = device;
    return NDI_OK;
}

NDI_EXPORT int aclrtGetDevice(int32_t *device)
{
    if (current_device < 0) {
        ndi_set_error("no device was set in this thread");
        return NDI_CONTEXT_NULL;
    }
    *device = current_device;
    return NDI_OK;
}

NDI_EXPORT int aclrtResetDevice(int32_t device)
{
    if (current_device == device)
        current_device = -1;
    return NDI_OK;
}

NDI_EXPORT int aclrtResetDeviceForce(int32_t device)
{
    return aclrtResetDevice(device);
}

NDI_EXPORT int aclrtGetCurrentContext(void **context)
{
    if (current_device < 0)
        return NDI_CONTEXT_NULL;
    *context = &contexts[current_device];
    return NDI_OK;
}

NDI_EXPORT int aclrtSetCurrentContext(void *context)
{
    int32_t *slot = context;
    if (slot < contexts || slot >= contexts + MAX_DEVICES)
        return NDI_INVALID_PARAM;
    current_device = *slot;
    return NDI_OK;
}

NDI_EXPORT int aclrtGetPrimaryCtxState(int32_t device, uint32_t *flags, int32_t *active)
{
    if (!valid_device(device))
        return NDI_INVALID_PARAM;
    if (flags)
        *flags = 0;
    if (active)
        *active = current_device == device;
    return NDI_OK;
}

NDI_EXPORT int aclrtGetLogicDevIdByUserDevId(int32_t user, int32_t *logic)
{
    *logic = user;
    return NDI_OK;
}

NDI_EXPORT int aclrtDeviceCanAccessPeer(int32_t *can, int32_t device, int32_t peer)
{
    *can = valid_device(device) && valid_device(peer);
    return NDI_OK;
}

/* ---- what the device is ---- */

NDI_EXPORT const char *aclrtGetSocName(void)
{
    return ndi_model.soc_name;
}

NDI_EXPORT int aclGetDeviceCapability(uint32_t device, int info, int64_t *value)
{
    (void)device;
    switch (info) {
    case 0: /* AI_CORE_NUM */
        *value = ndi_model.cube_cores;
        return NDI_OK;
    case 1: /* VECTOR_CORE_NUM */
        *value = ndi_model.vector_cores;
        return NDI_OK;
    case 2: /* L2_SIZE */
        *value = (int64_t)192 << 20;
        return NDI_OK;
    default:
        return NDI_INVALID_PARAM;
    }
}

NDI_EXPORT int aclrtGetDeviceInfo(uint32_t device, int attribute, int64_t *value)
{
    (void)device;
    switch (attribute) {
    case 101: /* AICORE_CORE_NUM */
    case 102: /* CUBE_CORE_NUM */
        *value = ndi_model.cube_cores;
        return NDI_OK;
    case 201: /* VECTOR_CORE_NUM */
        *value = ndi_model.vector_cores;
        return NDI_OK;
    case 301: /* TOTAL_GLOBAL_MEM_SIZE */
        *value = (int64_t)ndi_model.memory_bytes;
        return NDI_OK;
    case 302: /* L2_CACHE_SIZE */
        *value = (int64_t)192 << 20;
        return NDI_OK;
    default:
        *value = 0;
        return NDI_OK;
    }
}

NDI_EXPORT int aclrtDeviceGetUuid(int32_t device, void *uuid)
{
    unsigned char bytes[16] = "ndi-stand-in-";
    bytes[15] = (unsigned char)device;
    memcpy(uuid, bytes, sizeof bytes);
    return NDI_OK;
}

NDI_EXPORT int aclrtGetDeviceUtilizationRate(int32_t device, int32_t *rates)
{
    (void)device;
    /* cube, vector, AI CPU, memory: nothing ever runs here */
    memset(rates, 0, 4 * sizeof *rates);
    return NDI_OK;
}

NDI_EXPORT int aclGetCannAttributeList(const int **attributes, size_t *count)
{
    static const int all[] = {0, 1, 2};
    *attributes = all;
    *count = 3;
    return NDI_OK;
}

NDI_EXPORT int aclGetCannAttribute(int attribute, int32_t *value)
{
    switch (attribute) {
    case 0:
        *value = ndi_model.newer_family;
        return NDI_OK;
    case 1:
        *value = ndi_model.newer_family;
        return NDI_OK;
    case 2:
        /* "the operator binaries are there", which is so in every current CANN */
        *value = 1;
        return NDI_OK;
    default:
        return NDI_INVALID_PARAM;
    }
}

/* ---- core limits: settable, and back to the whole device ---- */

static uint32_t whole_device(int kind)
{
    return (uint32_t)(kind == 0 ? ndi_model.cube_cores : ndi_model.vector_cores);
}

static int read_limit(int kind, uint32_t *value)
{
    if (kind != 0 && kind != 1)
        return NDI_INVALID_PARAM;
    uint32_t limit = device_limits[ndi_current_device()].cores[kind];
    *value = limit ? limit : whole_device(kind);
    return NDI_OK;
}

NDI_EXPORT int aclrtGetDeviceResLimit(int32_t device, int kind, uint32_t *value)
{
    if (!valid_device(device) || (kind != 0 && kind != 1))
        return NDI_INVALID_PARAM;
    uint32_t limit = device_limits[device].cores[kind];
    *value = limit ? limit : whole_device(kind);
    return NDI_OK;
}

NDI_EXPORT int aclrtSetDeviceResLimit(int32_t device, int kind, uint32_t value)
{
    if (!valid_device(device) || (kind != 0 && kind != 1))
        return NDI_INVALID_PARAM;
    device_limits[device].cores[kind] = value;
    return NDI_OK;
}

NDI_EXPORT int aclrtResetDeviceResLimit(int32_t device)
{
    if (!valid_device(device))
        return NDI_INVALID_PARAM;
    memset(&device_limits[device], 0, sizeof device_limits[device]);
    return NDI_OK;
}

NDI_EXPORT int aclrtGetResInCurrentThread(int kind, uint32_t *value)
{
    return read_limit(kind, value);
}

/* ---- the driver's own library ---- */

NDI_EXPORT int halGetAPIVersion(int *version)
{
    *version = 0x072219;
    return NDI_OK;
}

NDI_EXPORT int halGetDeviceInfo(uint32_t device, int32_t module, int32_t kind, int64_t *value)
{
    (void)device, (void)module, (void)kind;
    *value = 0;
    return NDI_OK;
}

NDI_EXPORT int drvGetDevNum(uint32_t *count)
{
    return aclrtGetDeviceCount(count);
}
