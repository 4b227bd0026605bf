/* SPDX-License-Identifier: BSD-3-Clause */
/* The handles whose contents are looked at again. */
#ifndef NDI_HANDLES_H
#define NDI_HANDLES_H

#include "standin.h"

struct ndi_tensor {
    int type;
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

#endif
