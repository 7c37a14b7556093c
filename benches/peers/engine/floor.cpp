// What no runtime can beat: METG of a schedule fixed by hand, the peak of the kernel, the round trip of a cache line.
#include <sched.h>

#include <thread>

#include "harness.h"

#if defined(__x86_64__)
static void pause_cpu() { __builtin_ia32_pause(); }
#else
static void pause_cpu() {}
#endif

struct alignas(128) Counter {
  std::atomic<uint64_t> value = 0;

  void wait_for(uint64_t least) const {
    while (value.load(std::memory_order_acquire) < least) pause_cpu();
  }
};

// Runs `body(thread)` on each of `threads` threads, every one pinned to a CPU of its own.
template <class Body>
static void on_threads(uint32_t threads, Body body) {
  cpu_set_t allowed;
  sched_getaffinity(0, sizeof allowed, &allowed);
  if (static_cast<uint32_t>(CPU_COUNT(&allowed)) < threads) refuse("fewer CPUs than threads");
  std::vector<std::thread> started;
  for (uint32_t thread = 0, cpu = 0; thread < threads; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed)) continue;
    started.emplace_back([=] {
      cpu_set_t one;
      CPU_ZERO(&one);
      CPU_SET(cpu, &one);
      sched_setaffinity(0, sizeof one, &one);
      body(thread);
    });
    ++thread;
  }
  for (auto& one : started) one.join();
}

// Each thread owns a block of columns and spins on the counters of its two neighbours. The threads stay alive over the
// repeats, as a runtime's pool does.
static int metg(const Options& options) {
  const uint32_t threads = options.threads;
  if (options.width % threads != 0) refuse("the width must be a multiple of the threads");
  std::vector<Counter> done(threads);
  std::vector<double> times;
  on_threads(threads, [&](uint32_t me) {
    const uint32_t left = me == 0 ? me : me - 1, right = std::min(me + 1, threads - 1);
    uint64_t step = 0;
    const auto once = [&] {
      for (uint32_t i = 0; i < options.steps; ++i) {
        done[left].wait_for(step);
        done[right].wait_for(step);
        for (uint32_t column = me; column < options.width; column += threads) kernel(options.iterations);
        done[me].value.store(++step, std::memory_order_release);
      }
      for (const Counter& other : done) other.wait_for(step);
    };
    const double ns = median_ns(options.repeats, once, [] {});
    if (me == 0) times.push_back(ns);
  });
  print_cost(options, "static", times[0] / options.steps / options.width);
  return 0;
}

constexpr uint64_t PEAK_ITERATIONS = 1 << 16;

// Iterations of the kernel a second, on all threads at once, without any runtime: the best of the repeats. As in `line`,
// the pieces are so short that a pause of a thread spoils few of them.
static int peak(const Options& options) {
  double best = 0;
  for (uint32_t repeat = 0; repeat < options.repeats; ++repeat) {
    std::vector<double> rates(options.threads);
    Counter arrived;
    on_threads(options.threads, [&](uint32_t me) {
      ++arrived.value;
      arrived.wait_for(options.threads);
      rates[me] = PEAK_ITERATIONS * 1e9 / median_ns(41, [] { kernel(PEAK_ITERATIONS); }, [] {});
    });
    double sum = 0;
    for (const double rate : rates) sum += rate;
    best = std::max(best, sum);
  }
  std::printf("{\"threads\":%u,\"iterations_per_s\":%.0f}\n", options.threads, best);
  return 0;
}

// Nanoseconds for a line to go to another core and back: the median over many short batches.
static int line() {
  constexpr uint64_t BATCH = 100, BATCHES = 201;
  Counter ping, pong;
  double ns = 0;
  on_threads(2, [&](uint32_t me) {
    uint64_t turn = 0;
    const auto batch = [&] {
      for (uint64_t i = 0; i < BATCH; ++i) {
        ++turn;
        if (me == 0) ping.value.store(turn, std::memory_order_release);
        (me == 0 ? pong : ping).wait_for(turn);
        if (me == 1) pong.value.store(turn, std::memory_order_release);
      }
    };
    const double took = median_ns(BATCHES, batch, [] {});
    if (me == 0) ns = took / BATCH;
  });
  std::printf("{\"line_ns\":%.1f}\n", ns);
  return 0;
}

int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  if (options.mode == "metg") return metg(options);
  if (options.mode == "peak") return peak(options);
  if (options.mode == "line") return line();
  refuse("expected `metg`, `peak` or `line`, not `" + options.mode + "`");
}
