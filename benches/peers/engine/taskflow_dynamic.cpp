// Taskflow: asynchronous tasks that name the tasks they follow.
#include <taskflow/taskflow.hpp>

#include "harness.h"

class Dynamic {
 public:
  static constexpr const char* NAME = "taskflow-dynamic";

  Dynamic(uint32_t threads, const Graph&) : executor(threads) {}

  template <class Body>
  void run(const Graph& graph, Body& body) {
    std::array<tf::AsyncTask, 3> before;
    for (uint32_t i = 0; i < graph.size(); ++i) {
      const auto follows = graph.tasks[i].follows();
      for (size_t k = 0; k < follows.size(); ++k) before[k] = recent[follows[k] % recent.size()];
      auto task = [&body, i] { body(i); };
      recent[i % recent.size()] = executor.silent_dependent_async(task, before.data(), before.data() + follows.size());
    }
    executor.wait_for_all();
  }

  void reset() { recent.fill({}); }

 private:
  tf::Executor executor;
  std::array<tf::AsyncTask, 2 * REACH> recent;
};

int main(int argc, char** argv) { return bench<Dynamic>(argc, argv); }
