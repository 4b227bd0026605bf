/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sizes that depend on values, where values are computed on the CPU.
 *
 * torch_npu allocates the largest result there can be, launches the operator, and asks
 * for the size it came to. What is selected is in memory by then, so it can be counted.
 * Kernels such as that of index() with a mask do so inside and go on with the answer.
 */
#include "handles.h"

#include <stddef.h>

enum { FLOAT = 0, FLOAT16 = 1, DOUBLE = 11, COMPLEX64 = 16, COMPLEX128 = 17, BF16 = 27 };

/* Bytes of the numbers whose highest bit is a sign that makes no difference to zero. */
static size_t signed_part(int type)
{
    switch (type) {
    case FLOAT16:
    case BF16:
        return 2;
    case FLOAT:
    case COMPLEX64:
        return 4;
    case DOUBLE:
    case COMPLEX128:
        return 8;
    default:
        return 0;
    }
}

static int is_zero(const unsigned char *value, int type)
{
    size_t size = ndi_type_size(type);
    size_t part = signed_part(type);
    for (size_t i = 0; i < size; i++) {
        int is_top = part && i % part == part - 1;
        if (value[i] & (is_top ? 0x7f : 0xff))
            return 0;
    }
    return 1;
}

static int64_t count(struct ndi_tensor *tensor, uint64_t dim, const char *from)
{
    if (dim == tensor->dims)
        return !is_zero((const unsigned char *)from, tensor->type);
    int64_t step = ndi_strides(tensor)[dim] * (int64_t)ndi_type_size(tensor->type);
    int64_t found = 0;
    for (int64_t i = 0; i < ndi_sizes(tensor)[dim]; i++)
        found += count(tensor, dim + 1, from + i * step);
    return found;
}

static int64_t nonzero(struct ndi_tensor *tensor)
{
    return count(tensor, 0, tensor->data + tensor->offset * (int64_t)ndi_type_size(tensor->type));
}

static int64_t elements(struct ndi_tensor *tensor)
{
    int64_t product = 1;
    for (uint64_t i = 0; i < tensor->dims; i++)
        product *= ndi_sizes(tensor)[i];
    return product;
}

static int begin(uint64_t *workspace, void **executor)
{
    *workspace = 0;
    *executor = NULL;
    return NDI_OK;
}

NDI_EXPORT int aclnnNonzeroGetWorkspaceSize(const void *self, void *out, uint64_t *workspace,
                                            void **executor)
{
    if (ndi_values_are_computed() && out)
        ndi_sizes(out)[0] = nonzero((void *)self);
    return begin(workspace, executor);
}

NDI_EXPORT int aclnnNonzeroV2GetWorkspaceSize(const void *self, void *out,
                                              uint64_t *workspace, void **executor)
{
    struct ndi_tensor *found = out;
    if (ndi_values_are_computed() && found && found->dims)
        ndi_sizes(found)[found->dims - 1] = nonzero((void *)self);
    return begin(workspace, executor);
}

NDI_EXPORT int aclnnMaskedSelectGetWorkspaceSize(const void *self, const void *mask, void *out,
                                                 uint64_t *workspace, void **executor)
{
    (void)self;
    struct ndi_tensor *found = out, *chosen = (void *)mask;
    /* The result has room for everything, so it tells how often the mask is repeated. */
    int64_t all = elements(chosen);
    if (ndi_values_are_computed() && found->dims == 1 && all)
        ndi_sizes(found)[0] = ndi_sizes(found)[0] / all * nonzero(chosen);
    return begin(workspace, executor);
}
