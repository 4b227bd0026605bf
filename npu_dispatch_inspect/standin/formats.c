/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Casts between NPU formats.
 *
 * A format says in which order a device keeps a tensor's elements, padded to blocks.
 * torch_npu asks what a tensor would become, allocates that much, and launches the cast.
 * The answers are CANN's: which casts there are on which family, and the storage's
 * sizes. The elements themselves stay in plain order, whatever a tensor claims.
 */
#include "handles.h"

#include <stdlib.h>
#include <string.h>

enum { NOT_SUPPORTED = 161002, NO_SUCH_CAST = 361001 }; /* aclnnStatus */

enum { NCHW = 0, ND = 2, NZ = 29, NCDHW, NDC1HWC0 = 32, FRACTAL_Z_3D, NCL = 47, NZ_16 = 50, NZ_32 };

enum { UINT32 = 8, BF16 = 27, FLOAT8_E4M3FN = 36 };

enum { BLOCK_BYTES = 32, BLOCK_ROWS = 16 };

struct answer {
    int format;
    uint64_t dims;
    int64_t *sizes;
};

static int64_t blocks(int64_t size, int64_t block)
{
    return (size + block - 1) / block;
}

static int can_be_cast(int type)
{
    enum { FLOAT, FLOAT16, INT8, INT32, UINT8 };
    return (type >= FLOAT && type <= UINT8) || type == UINT32 || type == BF16 ||
           type == FLOAT8_E4M3FN;
}

static int is_plain(int format)
{
    return format == ND || format == NCL || format == NCHW || format == NCDHW;
}

/* The 950 can pack wider elements for the type they will be computed in. */
static int packs_for_other_types(void)
{
    return strncmp(ndi_model.soc_name, "Ascend950", 9) == 0;
}

static int to_nz(struct ndi_tensor *from, int type, struct answer *to)
{
    if (from->dims < 2)
        return NOT_SUPPORTED;
    int64_t width = BLOCK_BYTES / (int64_t)ndi_type_size(from->type);
    to->format = NZ;
    if (packs_for_other_types() && type >= 0 && type != from->type) {
        if (!ndi_type_size(type))
            return NOT_SUPPORTED;
        width = BLOCK_BYTES / (int64_t)ndi_type_size(type);
        to->format = ndi_type_size(type) == 1 ? NZ_32 : NZ_16;
    }
    const int64_t *sizes = ndi_sizes(from);
    uint64_t last = from->dims - 1;
    to->dims = from->dims + 2;
    memcpy(to->sizes, sizes, (last - 1) * sizeof *sizes);
    to->sizes[last - 1] = blocks(sizes[last], width);
    to->sizes[last] = blocks(sizes[last - 1], BLOCK_ROWS);
    to->sizes[last + 1] = BLOCK_ROWS;
    to->sizes[last + 2] = width;
    return NDI_OK;
}

static int to_blocks_of_channels(struct ndi_tensor *from, int format, struct answer *to)
{
    if (from->dims != 5)
        return NOT_SUPPORTED;
    const int64_t *size = ndi_sizes(from); /* N, C, D, H, W */
    int64_t width = BLOCK_BYTES / (int64_t)ndi_type_size(from->type);
    int64_t channels = blocks(size[1], width);
    int64_t six[] = {size[0], size[2], channels, size[3], size[4], width};
    int64_t four[] = {size[2] * channels * size[3] * size[4], blocks(size[0], BLOCK_ROWS),
                      BLOCK_ROWS, width};
    to->format = format;
    to->dims = format == NDC1HWC0 ? 6 : 4;
    memcpy(to->sizes, format == NDC1HWC0 ? six : four, to->dims * sizeof *six);
    return NDI_OK;
}

static int to_plain(struct ndi_tensor *from, int format, struct answer *to)
{
    to->format = format;
    to->dims = from->dims;
    memcpy(to->sizes, ndi_sizes(from), from->dims * sizeof *to->sizes);
    return NDI_OK;
}

static int answer(struct ndi_tensor *from, int format, int type, struct answer *to)
{
    if (!ndi_model.newer_family || !from || !can_be_cast(from->type))
        return NOT_SUPPORTED;
    if (format == NZ && is_plain(from->format))
        return to_nz(from, type, to);
    if (format == ND && from->format == NZ)
        return to_plain(from, format, to);
    if (from->format == NCDHW && (format == NDC1HWC0 || format == FRACTAL_Z_3D))
        return to_blocks_of_channels(from, format, to);
    if (format == NCDHW && (from->format == NDC1HWC0 || from->format == FRACTAL_Z_3D))
        return to_plain(from, format, to);
    return NO_SUCH_CAST;
}

NDI_EXPORT int aclnnNpuFormatCastCalculateSizeAndFormat(const void *source, int format, int type,
                                                        int64_t **sizes, uint64_t *dims,
                                                        int *actual)
{
    struct ndi_tensor *from = (void *)source;
    uint64_t room = from ? from->dims + 6 : 0;
    /* The caller deletes this array, unless it gets an error. */
    struct answer to = {0, 0, malloc(room * sizeof *to.sizes)};
    if (!to.sizes)
        return NO_SUCH_CAST;
    int status = answer(from, format, type, &to);
    if (status != NDI_OK) {
        free(to.sizes);
        return status;
    }
    *sizes = to.sizes;
    *dims = to.dims;
    *actual = to.format;
    return NDI_OK;
}

NDI_EXPORT int aclnnNpuFormatCastGetWorkspaceSize(const void *source, void *to,
                                                  uint64_t *workspace, void **executor)
{
    return ndi_begin_copy(to, source, workspace, executor);
}

NDI_EXPORT int aclnnNpuFormatCast(void *workspace, uint64_t size, void *executor, void *stream)
{
    (void)workspace, (void)size, (void)stream;
    return ndi_finish(executor);
}
