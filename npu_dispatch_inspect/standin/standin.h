/* SPDX-License-Identifier: BSD-3-Clause */
/* What the parts of the stand-in's runtime share with each other. */
#ifndef NDI_STANDIN_H
#define NDI_STANDIN_H

#include <stddef.h>
#include <stdint.h>

/* Everything is compiled with hidden visibility; what CANN would export says so. */
#define NDI_EXPORT __attribute__((visibility("default")))

/* The error codes of CANN that torch_npu tells apart from a plain failure. */
enum {
    NDI_OK = 0,
    NDI_INVALID_PARAM = 107000,
    NDI_CONTEXT_NULL = 107002,
    NDI_OUT_OF_MEMORY = 207001,
    NDI_AICORE_ERROR = 507015, /* an operator failed on the device */
};

/* What kind of device the process was told it has; filled in when loaded. */
struct ndi_device_model {
    char soc_name[64];
    uint32_t device_count;
    int64_t cube_cores;
    int64_t vector_cores;
    size_t memory_bytes;
    int jit_compile;  /* what CANN answers for this family when nobody chose */
    int newer_family; /* 910B and later: bf16, and overflow gives inf and nan */
    char cann_version[32];
    char driver_version[32];
};

extern struct ndi_device_model ndi_model;

/* The message aclGetRecentErrMsg() hands out once. */
void ndi_set_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The device the calling thread works on. */
int32_t ndi_current_device(void);

/* Whether somebody else puts values into memory: standin.load(values="cpu"). */
int ndi_values_are_computed(void);

/* Whether the calling thread is to move no data: what it would write is there already. */
int ndi_leaves_memory(void);

/* From now on, say which names libtorch_npu.so looks up in vain. */
void ndi_watch_lookups(void);

#endif
