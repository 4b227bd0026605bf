/* SPDX-License-Identifier: BSD-3-Clause */
/* The two 16-bit floating point types, which C compilers do not all know. */
#ifndef NDI_HALVES_H
#define NDI_HALVES_H

#include <stdint.h>
#include <string.h>

static inline uint32_t float_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float bits_float(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline float from_bf16(uint16_t half)
{
    return bits_float((uint32_t)half << 16);
}

static inline uint16_t to_bf16(float value)
{
    uint32_t bits = float_bits(value);
    if (value != value)
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static inline float from_fp16(uint16_t half)
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

static inline uint16_t to_fp16(float value)
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

#endif
