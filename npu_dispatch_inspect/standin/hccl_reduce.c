/* SPDX-License-Identifier: BSD-3-Clause */
/* Element types of the collectives and how two elements are reduced to one. */
#include "hccl.h"

#include <string.h>

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

static uint32_t float_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static float bits_float(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static float from_bf16(uint16_t half)
{
    return bits_float((uint32_t)half << 16);
}

static uint16_t to_bf16(float value)
{
    uint32_t bits = float_bits(value);
    if (value != value)
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static float from_fp16(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000) << 16;
    uint32_t exponent = half >> 10 & 0x1f;
    uint32_t mantissa = half & 0x3ff;
    if (exponent == 0) /* zero and subnormal: mantissa * 2^-24 */
        return bits_float(sign | float_bits((float)mantissa * 0x1p-24f));
    if (exponent == 0x1f)
        return bits_float(sign | 0x7f800000 | mantissa << 13);
    return bits_float(sign | (exponent + 112) << 23 | mantissa << 13);
}

static uint16_t to_fp16(float value)
{
    uint32_t bits = float_bits(value);
    uint16_t sign = (uint16_t)(bits >> 16 & 0x8000);
    uint32_t magnitude = bits & 0x7fffffff;
    if (magnitude > 0x7f800000)
        return sign | 0x7e00;
    if (magnitude >= 0x477ff000) /* rounds to 65536 or more */
        return sign | 0x7c00;
    if (magnitude < 0x38800000) /* subnormal: adding 0.5 rounds at 2^-24 */
        return sign | (uint16_t)(float_bits(bits_float(magnitude) + 0.5f) - 0x3f000000);
    magnitude += 0xfff + (magnitude >> 13 & 1);
    return sign | (uint16_t)((magnitude - (112u << 23)) >> 13);
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
