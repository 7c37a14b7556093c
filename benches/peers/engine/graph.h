// The task graphs every runtime runs: which data a task reads and writes, and which tasks it must follow.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

struct Task {
  std::array<uint32_t, 3> data{};       // read, for runtimes that infer edges from data
  std::array<uint32_t, 3> producers{};  // the same edges, for runtimes that are told
  uint8_t data_count = 0;
  uint8_t producer_count = 0;
  uint32_t writes = 0;

  std::span<const uint32_t> reads() const { return {data.data(), data_count}; }
  std::span<const uint32_t> follows() const { return {producers.data(), producer_count}; }

  void read(uint32_t datum, uint32_t producer) {
    data[data_count++] = datum;
    producers[producer_count++] = producer;
  }
};

struct Graph {
  std::vector<Task> tasks;
  uint32_t data = 0;

  uint32_t size() const { return static_cast<uint32_t>(tasks.size()); }
};

// No task follows one that is further back than this.
constexpr uint32_t REACH = 256;

inline Graph independent(uint32_t count) {
  Graph graph{std::vector<Task>(count), count};
  for (uint32_t i = 0; i < count; ++i) graph.tasks[i].writes = i;
  return graph;
}

// Every task reads and writes the one datum.
inline Graph chain(uint32_t count) {
  Graph graph{std::vector<Task>(count), 1};
  for (uint32_t i = 1; i < count; ++i) {
    graph.tasks[i].producers[0] = i - 1;
    graph.tasks[i].producer_count = 1;
  }
  return graph;
}

// Two rows of data; a step reads three neighbours of one row and writes the other.
// Who read the overwritten datum is who wrote those three, so the producers are all the edges.
inline Graph stencil(uint32_t width, uint32_t steps) {
  Graph graph{std::vector<Task>(width * steps), 2 * width};
  for (uint32_t i = 0; i < graph.size(); ++i) {
    Task& task = graph.tasks[i];
    const uint32_t step = i / width, column = i % width;
    const uint32_t here = step % 2 * width, there = (step + 1) % 2 * width;
    task.writes = here + column;
    if (step == 0) continue;
    const uint32_t last = std::min(column + 1, width - 1);
    for (uint32_t near = column == 0 ? 0 : column - 1; near <= last; ++near)
      task.read(there + near, (step - 1) * width + near);
  }
  return graph;
}

// A cell reads the one above and the one to the left.
inline Graph wavefront(uint32_t width, uint32_t rows) {
  Graph graph = independent(width * rows);
  for (uint32_t i = 0; i < graph.size(); ++i) {
    if (i >= width) graph.tasks[i].read(i - width, i - width);
    if (i % width != 0) graph.tasks[i].read(i - 1, i - 1);
  }
  return graph;
}

// Three different producers among the last REACH tasks.
inline Graph random_dag(uint32_t count) {
  Graph graph = independent(count);
  uint64_t state = 1;
  for (uint32_t i = 0; i < count; ++i) {
    Task& task = graph.tasks[i];
    const uint32_t reach = std::min(i, REACH);
    while (task.producer_count < std::min(reach, 3u)) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      const uint32_t producer = i - 1 - static_cast<uint32_t>((state >> 33) % reach);
      if (std::ranges::find(task.follows(), producer) == task.follows().end()) task.read(producer, producer);
    }
  }
  return graph;
}

// The pattern by name, with `count` tasks or a little less; no task for an unknown name.
inline Graph pattern(std::string_view name, uint32_t count) {
  if (name == "independent") return independent(count);
  if (name == "chain") return chain(count);
  if (name == "stencil") return stencil(64, count / 64);
  if (name == "wavefront") return wavefront(250, count / 250);
  if (name == "random") return random_dag(count);
  return {};
}
