/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The smallest and the largest of whole numbers, where values are computed on the CPU.
 *
 * A kernel of torch_npu may launch an operator, read its result and go on with it, all
 * without the dispatcher: bincount() does so with the least and the greatest index.
 * Nobody else computes such a result, and sizes depend on it.
 */
#include "handles.h"

#include <string.h>

enum { INT8 = 2, INT32, UINT8, INT16 = 6, INT64 = 9 };

static int is_whole(int type)
{
    return (type >= INT8 && type <= UINT8) || type == INT16 || type == INT64;
}

#define READ(ctype)                                                                      \
    {                                                                                    \
        ctype held;                                                                      \
        memcpy(&held, from, sizeof held);                                                \
        return held;                                                                     \
    }

static int64_t element(const char *from, int type)
{
    switch (type) {
    case INT8:
        READ(int8_t)
    case UINT8:
        READ(uint8_t)
    case INT16:
        READ(int16_t)
    case INT32:
        READ(int32_t)
    default:
        READ(int64_t)
    }
}

struct search {
    struct ndi_tensor *tensor;
    int sign; /* 1 for the largest, -1 for the smallest */
    const char *found;
};

static void look_through(struct search *search, uint64_t dim, const char *from)
{
    struct ndi_tensor *tensor = search->tensor;
    int type = tensor->type;
    if (dim == tensor->dims) {
        int64_t value = element(from, type), best = search->found ? element(search->found, type) : 0;
        if (!search->found || (search->sign > 0 ? value > best : value < best))
            search->found = from;
        return;
    }
    int64_t step = ndi_strides(tensor)[dim] * (int64_t)ndi_type_size(type);
    for (int64_t i = 0; i < ndi_sizes(tensor)[dim]; i++)
        look_through(search, dim + 1, from + i * step);
}

static int find(const void *self, void *out, int sign, uint64_t *workspace, void **executor)
{
    struct ndi_tensor *from = (void *)self, *to = out;
    *workspace = 0;
    *executor = NULL;
    /* The queue may come here late, when the result has another owner by now. */
    if (!ndi_values_are_computed() || ndi_leaves_memory() || !from || !to ||
        from->type != to->type || !is_whole(from->type))
        return NDI_OK;
    size_t size = ndi_type_size(from->type);
    struct search search = {from, sign, NULL};
    look_through(&search, 0, from->data + from->offset * (int64_t)size);
    if (search.found)
        memmove(to->data + to->offset * (int64_t)size, search.found, size);
    return NDI_OK;
}

NDI_EXPORT int aclnnMaxGetWorkspaceSize(const void *self, void *out, uint64_t *workspace,
                                        void **executor)
{
    return find(self, out, 1, workspace, executor);
}

NDI_EXPORT int aclnnMinGetWorkspaceSize(const void *self, void *out, uint64_t *workspace,
                                        void **executor)
{
    return find(self, out, -1, workspace, executor);
}
