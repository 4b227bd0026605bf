/* SPDX-License-Identifier: BSD-3-Clause */
/* The handles whose contents are looked at again. */
#ifndef NDI_HANDLES_H
#define NDI_HANDLES_H

#include "standin.h"

struct ndi_tensor {
    int type;
    int format;     /* aclFormat: how the device's elements lie in memory */
    int64_t offset; /* in elements, from the start of the storage */
    char *data;     /* start of the storage */
    uint64_t dims;
    int64_t shape[]; /* sizes, then strides in elements */
};

struct ndi_scalar {
    int type;
    char bytes[16];
};

struct ndi_int_array {
    uint64_t length;
    int64_t values[];
};

static inline int64_t *ndi_sizes(struct ndi_tensor *tensor)
{
    return tensor->shape;
}

static inline int64_t *ndi_strides(struct ndi_tensor *tensor)
{
    return tensor->shape + tensor->dims;
}

/* Bytes of an element of this aclDataType, 0 if it is not known. */
size_t ndi_type_size(int type);

/* Make an executor that copies a tensor's elements into another, whatever their formats. */
int ndi_begin_copy(void *to, const void *from, uint64_t *workspace, void **executor);

/* Run an executor, and free it. */
int ndi_finish(void *executor);

#endif
