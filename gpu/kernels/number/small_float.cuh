// Floating-point numbers of 16 bits. CPU: codec/src/number/small_float.rs, which explains the rounding.
//
// The hardware has no conversion from f64 to bfloat16, and two conversions would round twice.
#pragma once

#include "constants.cuh"

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef int i32;
typedef long long i64;

/// Adding this to |p| < 2^51 leaves p, rounded half to even, in the low bits of the mantissa.
constexpr double ROUNDING = 6755399441055744.0;  // 1.5 * 2^52

template <u32 MANTISSA>
struct SmallFloat {
  static constexpr i32 BIAS = (1 << (14 - MANTISSA)) - 1, WIDE_BIAS = 1023;
  static constexpr u32 WIDE_MANTISSA = 52, LARGEST_EXPONENT = (1u << (15 - MANTISSA)) - 1;
  u16 bits;

  SmallFloat() = default;
  static __device__ __forceinline__ SmallFloat from_bits(u16 bits) {
    SmallFloat result;
    result.bits = bits;
    return result;
  }

  /// 2^exponent, for exponents of normal numbers.
  static __device__ __forceinline__ double power(i32 exponent) { return __longlong_as_double(i64(exponent + WIDE_BIAS) << WIDE_MANTISSA); }

  /// The number in f64, exactly; NaNs keep their payload.
  __device__ __forceinline__ explicit operator double() const {
    const u64 sign = u64(bits >> 15) << 63;
    const u32 exponent = bits >> MANTISSA & LARGEST_EXPONENT, mantissa = bits & ((1u << MANTISSA) - 1);
    u64 magnitude;
    if (exponent == 0) {
      magnitude = u64(__double_as_longlong(double(mantissa) * power(1 - BIAS - i32(MANTISSA))));
    } else {
      const u32 wide = exponent == LARGEST_EXPONENT ? 0x7ff : exponent + u32(WIDE_BIAS - BIAS);
      magnitude = u64(wide) << WIDE_MANTISSA | u64(mantissa) << (WIDE_MANTISSA - MANTISSA);
    }
    return __longlong_as_double(i64(sign | magnitude));
  }

  /// The nearest number, ties to even; infinity beyond the range. Every NaN becomes a quiet NaN with its sign and no payload.
  __device__ __forceinline__ explicit SmallFloat(double value) {
    const u32 sign = u32(u64(__double_as_longlong(value)) >> 63) << 15, infinity = LARGEST_EXPONENT << MANTISSA;
    const double magnitude = fabs(value);
    const i32 exponent = max(i32(u64(__double_as_longlong(magnitude)) >> WIDE_MANTISSA) - WIDE_BIAS, 1 - BIAS);
    if (value != value) {
      bits = u16(sign | infinity | 1u << (MANTISSA - 1));
    } else if (exponent > BIAS) {
      bits = u16(sign | infinity);
    } else {
      // The sum rounds to whole units of the last place and has them in its lowest bits. The implied bit among them adds one to the exponent.
      const double rounding = ROUNDING * power(exponent - i32(MANTISSA));
      const u32 units = u32(__double2loint(magnitude + rounding)) & ((1u << (MANTISSA + 2)) - 1);
      bits = u16(sign | ((u32(exponent + BIAS - 1) << MANTISSA) + units));
    }
  }
};

typedef SmallFloat<10> Binary16;
typedef SmallFloat<7> BFloat16;
