// Taskflow: a graph with its edges given, built and run once.
#include <taskflow/taskflow.hpp>

#include "harness.h"

class Static {
 public:
  static constexpr const char* NAME = "taskflow-graph";

  Static(uint32_t threads, const Graph& graph) : executor(threads), tasks(graph.size()) {}

  template <class Body>
  void run(const Graph& graph, Body& body) {
    for (uint32_t i = 0; i < graph.size(); ++i) {
      tasks[i] = flow.emplace([&body, i] { body(i); });
      for (const uint32_t producer : graph.tasks[i].follows()) tasks[producer].precede(tasks[i]);
    }
    executor.run(flow).wait();
  }

  void reset() { flow.clear(); }

 private:
  tf::Executor executor;
  tf::Taskflow flow;
  std::vector<tf::Task> tasks;
};

int main(int argc, char** argv) { return bench<Static>(argc, argv); }
