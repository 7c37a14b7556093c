#include "kernel.h"

#if defined(__x86_64__)
#define VECTOR_TARGET __attribute__((target("avx2,fma")))
#else
#define VECTOR_TARGET
#endif

typedef double Vector __attribute__((vector_size(32)));

// x * x + x stays finite and normal from this start.
static volatile double start = -0.5;

VECTOR_TARGET void kernel(uint64_t iterations) {
  Vector x[16];
#pragma GCC unroll 16
  for (int k = 0; k < 16; ++k) x[k] = Vector{start, start, start, start};
  for (uint64_t i = 0; i < iterations; ++i) {
#pragma GCC unroll 16
    for (int k = 0; k < 16; ++k) x[k] = x[k] * x[k] + x[k];
  }
  Vector sum{};
#pragma GCC unroll 16
  for (int k = 0; k < 16; ++k) sum += x[k];
  volatile double kept = sum[0] + sum[1] + sum[2] + sum[3];
  (void)kept;
}
