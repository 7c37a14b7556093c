// Runs a pattern on one runtime and prints the cost of a task as one JSON object.
//
// A runtime has a NAME, a constructor (threads, graph), `run(graph, body)` that builds and runs the whole graph, and
// `reset()` that forgets it; thread pools, registered data and reset are not timed.
#pragma once

#include <chrono>

#include "bodies.h"
#include "options.h"

inline double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

// Median nanoseconds of `once`, after one run to warm up; `reset` comes after each, untimed.
template <class Once, class Reset>
double median_ns(uint32_t repeats, Once once, Reset reset) {
  std::vector<double> times;
  for (uint32_t i = 0; i <= repeats; ++i) {
    const auto start = std::chrono::steady_clock::now();
    once();
    const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - start;
    if (i > 0) times.push_back(took.count());
    reset();
  }
  return median(times);
}

inline void print_cost(const Options& options, const char* runtime, double ns_per_task) {
  std::printf("{\"pattern\":\"%s\",\"runtime\":\"%s\",\"threads\":%u,\"ns_per_task\":%.2f}\n", options.mode.c_str(),
              runtime, options.threads, ns_per_task);
}

template <class Runtime, class Body>
int measure(const Options& options, const Graph& graph, Body body) {
  Runtime runtime(options.threads, graph);
  const double ns = median_ns(
      options.repeats, [&] { runtime.run(graph, body); }, [&] { runtime.reset(); });
  print_cost(options, Runtime::NAME, ns / graph.size());
  return 0;
}

template <class Runtime>
int check(const Options& options, const Graph& graph) {
  Check order(graph);
  {
    Runtime runtime(options.threads, graph);
    runtime.run(graph, order);
    runtime.reset();
  }
  std::printf("{\"pattern\":\"%s\",\"runtime\":\"%s\",\"threads\":%u,\"violations\":%u}\n", options.mode.c_str(),
              Runtime::NAME, options.threads, order.violations());
  return order.violations() == 0 ? 0 : 1;
}

template <class Runtime>
int bench(int argc, char** argv) {
  const Options options = parse(argc, argv);
  const bool metg = options.mode == "metg";
  const Graph graph = metg ? stencil(options.width, options.steps) : pattern(options.mode, options.tasks);
  if (graph.size() == 0) refuse("unknown pattern, or too few tasks: " + options.mode);
  if (options.check) return check<Runtime>(options, graph);
  return metg ? measure<Runtime>(options, graph, Work{options.iterations}) : measure<Runtime>(options, graph, Nothing{});
}
