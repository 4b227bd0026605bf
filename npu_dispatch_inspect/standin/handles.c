/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The objects torch_npu builds to describe an operator's arguments.
 *
 * They are real, small and freed by their destroy call. A tensor keeps its view's
 * sizes, because torch_npu asks for them back after an operator whose output's size
 * depends on the data (nonzero, masked_select, unique): with no data looked at, the
 * answer is the size torch_npu allocated, that is the largest possible one.
 */
#include "handles.h"

#include <stdlib.h>
#include <string.h>

struct list {
    uint64_t length;
    void *items[];
};

/* An array of plain values: nobody reads them, so only the handle exists. */
struct plain {
    uint64_t length;
};

static void *make_plain(uint64_t length)
{
    struct plain *made = malloc(sizeof *made);
    if (made)
        made->length = length;
    return made;
}

static int destroy(const void *handle)
{
    free((void *)handle);
    return NDI_OK;
}

/* ---- tensors ---- */

NDI_EXPORT void *aclCreateTensor(const int64_t *sizes, uint64_t dims, int type,
                                 const int64_t *strides, int64_t offset, int format,
                                 const int64_t *storage, uint64_t storage_dims, void *data)
{
    (void)storage, (void)storage_dims;
    struct ndi_tensor *made = malloc(sizeof *made + 2 * dims * sizeof *sizes);
    if (!made)
        return NULL;
    made->type = type;
    made->format = format;
    made->offset = offset;
    made->data = data;
    made->dims = dims;
    if (dims) {
        memcpy(ndi_sizes(made), sizes, dims * sizeof *sizes);
        memcpy(ndi_strides(made), strides, dims * sizeof *strides);
    }
    return made;
}

NDI_EXPORT int aclDestroyTensor(const void *tensor)
{
    return destroy(tensor);
}

NDI_EXPORT int aclGetViewShape(const void *handle, int64_t **sizes, uint64_t *dims)
{
    struct ndi_tensor *tensor = (void *)handle;
    if (!tensor)
        return NDI_INVALID_PARAM;
    /* The caller deletes this array; at least one element, as it may be empty. */
    *sizes = malloc((tensor->dims + 1) * sizeof **sizes);
    if (!*sizes)
        return NDI_OUT_OF_MEMORY;
    memcpy(*sizes, ndi_sizes(tensor), tensor->dims * sizeof **sizes);
    *dims = tensor->dims;
    return NDI_OK;
}

/* ---- scalars and arrays ---- */

NDI_EXPORT void *aclCreateScalar(void *value, int type)
{
    struct ndi_scalar *made = calloc(1, sizeof *made);
    if (!made)
        return NULL;
    made->type = type;
    memcpy(made->bytes, value, ndi_type_size(type));
    return made;
}

NDI_EXPORT void *aclCreateIntArray(const int64_t *values, uint64_t length)
{
    struct ndi_int_array *made = malloc(sizeof *made + length * sizeof *values);
    if (!made)
        return NULL;
    made->length = length;
    if (length)
        memcpy(made->values, values, length * sizeof *values);
    return made;
}

NDI_EXPORT void *aclCreateFloatArray(const float *values, uint64_t length)
{
    (void)values;
    return make_plain(length);
}

NDI_EXPORT void *aclCreateBoolArray(const _Bool *values, uint64_t length)
{
    (void)values;
    return make_plain(length);
}

NDI_EXPORT int aclDestroyScalar(const void *scalar)
{
    return destroy(scalar);
}

NDI_EXPORT int aclDestroyIntArray(const void *array)
{
    return destroy(array);
}

NDI_EXPORT int aclDestroyFloatArray(const void *array)
{
    return destroy(array);
}

NDI_EXPORT int aclDestroyBoolArray(const void *array)
{
    return destroy(array);
}

/* ---- lists own what they hold ---- */

static void *make_list(const void *const *items, uint64_t length)
{
    struct list *made = malloc(sizeof *made + length * sizeof *items);
    if (!made)
        return NULL;
    made->length = length;
    if (length)
        memcpy(made->items, items, length * sizeof *items);
    return made;
}

static int destroy_list(const void *handle)
{
    const struct list *list = handle;
    if (!list)
        return NDI_OK;
    for (uint64_t i = 0; i < list->length; i++)
        free(list->items[i]);
    return destroy(list);
}

NDI_EXPORT void *aclCreateTensorList(const void *const *tensors, uint64_t length)
{
    return make_list(tensors, length);
}

NDI_EXPORT void *aclCreateScalarList(const void *const *scalars, uint64_t length)
{
    return make_list(scalars, length);
}

NDI_EXPORT int aclDestroyTensorList(const void *list)
{
    return destroy_list(list);
}

NDI_EXPORT int aclDestroyScalarList(const void *list)
{
    return destroy_list(list);
}

/* ---- descriptions for the older operator interface (aclop) ---- */

struct description {
    int type;
    int format;
    struct {
        int count;
        int64_t *sizes;
    } dims;
};

static int set_sizes(struct description *to, int count, const int64_t *sizes)
{
    int64_t *copy = malloc(((size_t)count + 1) * sizeof *copy);
    if (!copy)
        return NDI_OUT_OF_MEMORY;
    if (count)
        memcpy(copy, sizes, (size_t)count * sizeof *copy);
    free(to->dims.sizes);
    to->dims.sizes = copy;
    to->dims.count = count;
    return NDI_OK;
}

NDI_EXPORT void *aclCreateTensorDesc(int type, int count, const int64_t *sizes, int format)
{
    struct description *made = calloc(1, sizeof *made);
    if (!made)
        return NULL;
    made->type = type;
    made->format = format;
    if (set_sizes(made, count, sizes) != NDI_OK) {
        free(made);
        return NULL;
    }
    return made;
}

NDI_EXPORT void aclDestroyTensorDesc(const void *handle)
{
    struct description *description = (void *)handle;
    if (!description)
        return;
    free(description->dims.sizes);
    free(description);
}

NDI_EXPORT int aclGetTensorDescType(const void *description)
{
    return ((const struct description *)description)->type;
}

NDI_EXPORT int aclGetTensorDescFormat(const void *description)
{
    return ((const struct description *)description)->format;
}

NDI_EXPORT size_t aclGetTensorDescNumDims(const void *description)
{
    return (size_t)((const struct description *)description)->dims.count;
}

NDI_EXPORT int aclGetTensorDescDimV2(const void *handle, size_t index, int64_t *size)
{
    const struct description *description = handle;
    if (index >= (size_t)description->dims.count)
        return NDI_INVALID_PARAM;
    *size = description->dims.sizes[index];
    return NDI_OK;
}

NDI_EXPORT int aclSetTensorFormat(void *description, int format)
{
    ((struct description *)description)->format = format;
    return NDI_OK;
}

NDI_EXPORT int aclSetTensorShape(void *description, int count, const int64_t *sizes)
{
    return set_sizes(description, count, sizes);
}

NDI_EXPORT void *aclCreateDataBuffer(void *data, size_t size)
{
    (void)data;
    return make_plain(size);
}

NDI_EXPORT int aclDestroyDataBuffer(const void *buffer)
{
    return destroy(buffer);
}

NDI_EXPORT void *aclopCreateAttr(void)
{
    return make_plain(0);
}

NDI_EXPORT void aclopDestroyAttr(const void *attributes)
{
    destroy(attributes);
}

NDI_EXPORT void *aclCreateGraphDumpOpt(void)
{
    return make_plain(0);
}

NDI_EXPORT int aclDestroyGraphDumpOpt(const void *options)
{
    return destroy(options);
}
