// What a task does: nothing, a check of the order, or work for METG.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "graph.h"
#include "kernel.h"

struct Nothing {
  void operator()(uint32_t) const {}
};

struct Work {
  uint64_t iterations;
  void operator()(uint32_t) const { kernel(iterations); }
};

// Every datum holds the task that wrote it last. A task that finds another than in program order
// ran before its producer, or after somebody overwrote what it reads.
class Check {
 public:
  explicit Check(const Graph& graph) : graph(graph), cells(graph.data), previous(graph.size()) {
    std::vector<uint32_t> last(graph.data, NOBODY);
    for (uint32_t i = 0; i < graph.size(); ++i) {
      uint32_t& writer = last[graph.tasks[i].writes];
      previous[i] = writer;
      writer = i;
    }
    for (auto& cell : cells) cell = NOBODY;
  }

  void operator()(uint32_t i) {
    const Task& task = graph.tasks[i];
    uint32_t violations = cells[task.writes].exchange(i) != previous[i];
    for (uint32_t k = 0; k < task.data_count; ++k) violations += cells[task.data[k]] != task.producers[k];
    wrong += violations;
    ++ran;
  }

  uint32_t violations() const { return wrong + (ran == graph.size() ? 0 : 1); }

 private:
  static constexpr uint32_t NOBODY = UINT32_MAX;
  const Graph& graph;
  std::vector<std::atomic<uint32_t>> cells;
  std::vector<uint32_t> previous;
  std::atomic<uint32_t> wrong = 0;
  std::atomic<uint32_t> ran = 0;
};
