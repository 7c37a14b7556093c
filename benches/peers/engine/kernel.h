// The work of a METG task.
#pragma once

#include <cstdint>

// 16 fused multiply-adds of four doubles each iteration.
void kernel(uint64_t iterations);
