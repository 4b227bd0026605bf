/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The few operators that do what they say: copy (with a change of type, strides and
 * broadcasting), cast, zero, one, fill and constant padding. They move data and compute
 * nothing, and without them a gathered tensor, a clone or a zeroed buffer would hold
 * whatever was in memory.
 *
 * As in CANN, the first of each pair of functions makes an executor out of the
 * arguments, and the second runs it, maybe later and in another thread.
 */
#include "halves.h"
#include "handles.h"

#include <stdlib.h>
#include <string.h>

#define MAX_DIMS 32

enum {
    FLOAT,
    FLOAT16,
    INT8,
    INT32,
    UINT8,
    INT16 = 6,
    UINT16,
    UINT32,
    INT64,
    UINT64,
    DOUBLE,
    BOOL,
    COMPLEX64 = 16,
    COMPLEX128,
    BF16 = 27,
    COMPLEX32 = 33,
    HIFLOAT8,
    FLOAT8_E5M2,
    FLOAT8_E4M3FN,
    FLOAT8_E8M0,
};

size_t ndi_type_size(int type)
{
    switch (type) {
    case INT8:
    case UINT8:
    case BOOL:
    case HIFLOAT8:
    case FLOAT8_E5M2:
    case FLOAT8_E4M3FN:
    case FLOAT8_E8M0:
        return 1;
    case FLOAT16:
    case BF16:
    case INT16:
    case UINT16:
        return 2;
    case FLOAT:
    case INT32:
    case UINT32:
    case COMPLEX32:
        return 4;
    case DOUBLE:
    case INT64:
    case UINT64:
    case COMPLEX64:
        return 8;
    case COMPLEX128:
        return 16;
    default:
        return 0;
    }
}

/* ---- one element, in a type that holds every value there is ---- */

struct value {
    int whole; /* whether `integer` holds it; else real and imaginary do */
    int64_t integer;
    double real;
    double imaginary;
};

#define WHOLE(ctype)                                                                     \
    {                                                                                    \
        ctype held;                                                                      \
        memcpy(&held, from, sizeof held);                                                \
        *value = (struct value){1, (int64_t)held, (double)held, 0};                      \
        return 1;                                                                        \
    }

#define REAL(ctype, convert)                                                             \
    {                                                                                    \
        ctype held[2];                                                                   \
        memcpy(held, from, sizeof held[0]);                                              \
        *value = (struct value){0, 0, convert(held[0]), 0};                              \
        return 1;                                                                        \
    }

#define COMPLEX(ctype)                                                                   \
    {                                                                                    \
        ctype held[2];                                                                   \
        memcpy(held, from, sizeof held);                                                 \
        *value = (struct value){0, 0, held[0], held[1]};                                 \
        return 1;                                                                        \
    }

static int load(struct value *value, const char *from, int type)
{
    switch (type) {
    case BOOL:
    case UINT8:
        WHOLE(uint8_t)
    case INT8:
        WHOLE(int8_t)
    case INT16:
        WHOLE(int16_t)
    case UINT16:
        WHOLE(uint16_t)
    case INT32:
        WHOLE(int32_t)
    case UINT32:
        WHOLE(uint32_t)
    case INT64:
        WHOLE(int64_t)
    case UINT64:
        WHOLE(uint64_t)
    case FLOAT:
        REAL(float, (double))
    case DOUBLE:
        REAL(double, (double))
    case FLOAT16:
        REAL(uint16_t, from_fp16)
    case BF16:
        REAL(uint16_t, from_bf16)
    case COMPLEX64:
        COMPLEX(float)
    case COMPLEX128:
        COMPLEX(double)
    default:
        return 0;
    }
}

/* Out of range, C leaves the result open; here it is the nearest there is. */
static int64_t to_whole(const struct value *value)
{
    if (value->whole)
        return value->integer;
    if (value->real != value->real)
        return 0;
    if (value->real >= 0x1p63)
        return INT64_MAX;
    if (value->real <= -0x1p63)
        return INT64_MIN;
    return (int64_t)value->real;
}

#define STORE(ctype, expression)                                                         \
    {                                                                                    \
        ctype held = (ctype)(expression);                                                \
        memcpy(to, &held, sizeof held);                                                  \
        return 1;                                                                        \
    }

#define STORE_COMPLEX(ctype)                                                             \
    {                                                                                    \
        ctype held[2] = {(ctype)value->real, (ctype)value->imaginary};                   \
        memcpy(to, held, sizeof held);                                                   \
        return 1;                                                                        \
    }

static int store(char *to, const struct value *value, int type)
{
    switch (type) {
    case BOOL:
        STORE(uint8_t, value->real != 0 || value->imaginary != 0 || to_whole(value) != 0)
    case UINT8:
    case INT8:
        STORE(uint8_t, to_whole(value))
    case INT16:
    case UINT16:
        STORE(uint16_t, to_whole(value))
    case INT32:
    case UINT32:
        STORE(uint32_t, to_whole(value))
    case INT64:
    case UINT64:
        STORE(uint64_t, to_whole(value))
    case FLOAT:
        STORE(float, value->real)
    case DOUBLE:
        STORE(double, value->real)
    case FLOAT16:
        STORE(uint16_t, to_fp16((float)value->real))
    case BF16:
        STORE(uint16_t, to_bf16((float)value->real))
    case COMPLEX64:
        STORE_COMPLEX(float)
    case COMPLEX128:
        STORE_COMPLEX(double)
    default:
        return 0;
    }
}

/* ---- executors ---- */

/* A place to write and what to write there: a tensor's elements, or one value whose
 * strides are all 0. */
struct executor {
    int to_type;
    int from_type;
    uint64_t dims;
    int64_t sizes[MAX_DIMS];
    int64_t to_strides[MAX_DIMS];
    int64_t from_strides[MAX_DIMS];
    char *to;
    const char *from;
    char constant[16];
    struct executor *next; /* what to do afterwards */
};

static struct executor *new_executor(struct ndi_tensor *to)
{
    if (!to || to->dims > MAX_DIMS || !ndi_type_size(to->type))
        return NULL;
    struct executor *made = calloc(1, sizeof *made);
    if (!made)
        return NULL;
    made->to_type = to->type;
    made->to = to->data + to->offset * (int64_t)ndi_type_size(to->type);
    made->dims = to->dims;
    for (uint64_t i = 0; i < to->dims; i++) {
        made->sizes[i] = ndi_sizes(to)[i];
        made->to_strides[i] = ndi_strides(to)[i];
    }
    return made;
}

static int begin(uint64_t *workspace, void **out, struct executor *executor)
{
    *workspace = 0;
    *out = executor;
    return NDI_OK;
}

/* Go through the elements of dimension `dim` and of those behind it. */
static void run(const struct executor *executor, uint64_t dim, char *to, const char *from)
{
    size_t to_size = ndi_type_size(executor->to_type);
    size_t from_size = ndi_type_size(executor->from_type);
    if (dim == executor->dims) {
        struct value value;
        if (executor->to_type == executor->from_type)
            memmove(to, from, to_size);
        else if (load(&value, from, executor->from_type))
            store(to, &value, executor->to_type);
        return;
    }
    int64_t to_step = executor->to_strides[dim] * (int64_t)to_size;
    int64_t from_step = executor->from_strides[dim] * (int64_t)from_size;
    if (dim + 1 == executor->dims && executor->to_type == executor->from_type &&
        to_step == (int64_t)to_size && from_step == (int64_t)from_size) {
        memmove(to, from, (size_t)executor->sizes[dim] * to_size);
        return;
    }
    for (int64_t i = 0; i < executor->sizes[dim]; i++)
        run(executor, dim + 1, to + i * to_step, from + i * from_step);
}

int ndi_finish(void *handle)
{
    struct executor *executor = handle;
    int idle = ndi_leaves_memory();
    while (executor) {
        struct executor *next = executor->next;
        if (!idle)
            run(executor, 0, executor->to, executor->from);
        free(executor);
        executor = next;
    }
    return NDI_OK;
}

/* ---- the operators ---- */

static struct executor *new_copy(struct ndi_tensor *to, struct ndi_tensor *from)
{
    struct executor *made = new_executor(to);
    if (!made || !from || from->dims > made->dims || !ndi_type_size(from->type)) {
        free(made);
        return NULL;
    }
    uint64_t missing = made->dims - from->dims;
    for (uint64_t i = 0; i < from->dims; i++)
        if (ndi_sizes(from)[i] == made->sizes[missing + i])
            made->from_strides[missing + i] = ndi_strides(from)[i];
    made->from_type = from->type;
    made->from = from->data + from->offset * (int64_t)ndi_type_size(from->type);
    return made;
}

static struct executor *new_fill(struct ndi_tensor *to, const struct ndi_scalar *scalar)
{
    struct executor *made = new_executor(to);
    if (!made)
        return NULL;
    made->from_type = scalar->type;
    memcpy(made->constant, scalar->bytes, sizeof made->constant);
    made->from = made->constant;
    return made;
}

int ndi_begin_copy(void *to, const void *from, uint64_t *workspace, void **out)
{
    return begin(workspace, out, new_copy(to, (void *)from));
}

NDI_EXPORT int aclnnInplaceCopyGetWorkspaceSize(void *self, const void *source,
                                                uint64_t *workspace, void **out)
{
    return ndi_begin_copy(self, source, workspace, out);
}

NDI_EXPORT int aclnnCastGetWorkspaceSize(const void *self, int type, void *to,
                                         uint64_t *workspace, void **out)
{
    (void)type; /* the same as that of `to` */
    return begin(workspace, out, new_copy(to, (void *)self));
}

NDI_EXPORT int aclnnInplaceFillScalarGetWorkspaceSize(void *self, const void *scalar,
                                                      uint64_t *workspace, void **out)
{
    return begin(workspace, out, new_fill(self, scalar));
}

NDI_EXPORT int aclnnInplaceZeroGetWorkspaceSize(void *self, uint64_t *workspace, void **out)
{
    static const struct ndi_scalar zero = {UINT8, {0}};
    return begin(workspace, out, new_fill(self, &zero));
}

NDI_EXPORT int aclnnInplaceOneGetWorkspaceSize(void *self, uint64_t *workspace, void **out)
{
    static const struct ndi_scalar one = {UINT8, {1}};
    return begin(workspace, out, new_fill(self, &one));
}

/* Make a copy leave out what lies outside the padded tensor, and begin where it does. */
static void shift(struct executor *copy, struct ndi_tensor *from,
                  const struct ndi_int_array *padding)
{
    int64_t to_size = (int64_t)ndi_type_size(copy->to_type);
    int64_t from_size = (int64_t)ndi_type_size(copy->from_type);
    for (uint64_t dim = 0; dim < copy->dims; dim++) {
        uint64_t pair = 2 * (copy->dims - 1 - dim); /* the last dimension comes first */
        int64_t before = pair < padding->length ? padding->values[pair] : 0;
        int64_t end = ndi_sizes(from)[dim] + before;
        int64_t start = before > 0 ? before : 0;
        copy->from_strides[dim] = ndi_strides(from)[dim];
        copy->to += start * copy->to_strides[dim] * to_size;
        copy->from += (start - before) * copy->from_strides[dim] * from_size;
        if (end > copy->sizes[dim])
            end = copy->sizes[dim];
        copy->sizes[dim] = end > start ? end - start : 0;
    }
}

NDI_EXPORT int aclnnConstantPadNdGetWorkspaceSize(const void *self, const void *padding,
                                                  const void *scalar, void *to,
                                                  uint64_t *workspace, void **out)
{
    struct ndi_tensor *from = (void *)self;
    struct executor *fill = new_fill(to, scalar);
    struct executor *copy = new_copy(to, from);
    if (!fill || !copy || from->dims != copy->dims) {
        free(fill);
        free(copy);
        return begin(workspace, out, NULL);
    }
    shift(copy, from, padding);
    fill->next = copy;
    return begin(workspace, out, fill);
}

#define RUNS(name)                                                                       \
    NDI_EXPORT int name(void *workspace, uint64_t size, void *executor, void *stream)    \
    {                                                                                    \
        (void)workspace, (void)size, (void)stream;                                       \
        return ndi_finish(executor);                                                         \
    }

RUNS(aclnnCast)
RUNS(aclnnConstantPadNd)
RUNS(aclnnInplaceCopy)
RUNS(aclnnInplaceFillScalar)
RUNS(aclnnInplaceZero)
RUNS(aclnnInplaceOne)
