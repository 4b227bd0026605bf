/* SPDX-License-Identifier: BSD-3-Clause */
/* Element types of the collectives and how two elements are reduced to one. */
#include "halves.h"
#include "hccl.h"

enum { SUM, PROD, MAX, MIN };

enum {
    INT8,
    INT16,
    INT32,
    FP16,
    FP32,
    INT64,
    UINT64,
    UINT8,
    UINT16,
    UINT32,
    FP64,
    BF16,
    INT128,
    HIF8 = 14,
    FP8E4M3,
    FP8E5M2,
    FP8E8M0
};

size_t ndi_element_size(int type)
{
    switch (type) {
    case INT8:
    case UINT8:
    case HIF8:
    case FP8E4M3:
    case FP8E5M2:
    case FP8E8M0:
        return 1;
    case INT16:
    case UINT16:
    case FP16:
    case BF16:
        return 2;
    case INT32:
    case UINT32:
    case FP32:
        return 4;
    case INT64:
    case UINT64:
    case FP64:
        return 8;
    case INT128:
        return 16;
    default:
        return 0;
    }
}

#define COMBINE(a, b)                                                                    \
    (op == SUM ? (a) + (b) : op == PROD ? (a) * (b)                                      \
     : op == MAX ? ((a) > (b) ? (a) : (b)) : ((a) < (b) ? (a) : (b)))

#define EACH(ctype)                                                                      \
    {                                                                                    \
        ctype *to = into;                                                                \
        const ctype *add = from;                                                         \
        for (size_t i = 0; i < count; i++)                                               \
            to[i] = (ctype)COMBINE(to[i], add[i]);                                       \
        return HCCL_OK;                                                                  \
    }

#define EACH_HALF(load, store)                                                           \
    {                                                                                    \
        uint16_t *to = into;                                                             \
        const uint16_t *add = from;                                                      \
        for (size_t i = 0; i < count; i++) {                                             \
            float a = load(to[i]), b = load(add[i]);                                     \
            to[i] = store(COMBINE(a, b));                                                \
        }                                                                                \
        return HCCL_OK;                                                                  \
    }

int ndi_reduce(void *into, const void *from, size_t count, int type, int op)
{
    switch (type) {
    case INT8:
        EACH(int8_t)
    case UINT8:
        EACH(uint8_t)
    case INT16:
        EACH(int16_t)
    case UINT16:
        EACH(uint16_t)
    case INT32:
        EACH(int32_t)
    case UINT32:
        EACH(uint32_t)
    case INT64:
        EACH(int64_t)
    case UINT64:
        EACH(uint64_t)
    case FP32:
        EACH(float)
    case FP64:
        EACH(double)
    case FP16:
        EACH_HALF(from_fp16, to_fp16)
    case BF16:
        EACH_HALF(from_bf16, to_bf16)
    default:
        ndi_set_error("the stand-in cannot reduce elements of HCCL type %d", type);
        return HCCL_UNSUPPORTED;
    }
}
