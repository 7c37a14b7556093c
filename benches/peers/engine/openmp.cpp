// OpenMP: `task depend` on the data, submitted by one thread of the team.
#include "harness.h"

#ifdef __clang__
#define RUNTIME_NAME "openmp-clang"
#else
#define RUNTIME_NAME "openmp-gcc"
#endif

class OpenMp {
 public:
  static constexpr const char* NAME = RUNTIME_NAME;

  OpenMp(uint32_t threads, const Graph& graph) : threads(threads), cells(graph.data) {}

  template <class Body>
  void run(const Graph& graph, Body& body) {
#pragma omp parallel num_threads(threads)
#pragma omp single
    for (uint32_t i = 0; i < graph.size(); ++i) submit(graph.tasks[i], i, body);
  }

  void reset() {}

 private:
  template <class Body>
  void submit(const Task& task, uint32_t i, Body& body) {
    double* d = cells.data();
    const uint32_t w = task.writes;
    const auto& r = task.data;
    switch (task.data_count) {
      case 0:
#pragma omp task firstprivate(i) shared(body) depend(inout : d[w])
        body(i);
        break;
      case 1:
#pragma omp task firstprivate(i) shared(body) depend(in : d[r[0]]) depend(out : d[w])
        body(i);
        break;
      case 2:
#pragma omp task firstprivate(i) shared(body) depend(in : d[r[0]], d[r[1]]) depend(out : d[w])
        body(i);
        break;
      default:
#pragma omp task firstprivate(i) shared(body) depend(in : d[r[0]], d[r[1]], d[r[2]]) depend(out : d[w])
        body(i);
    }
  }

  uint32_t threads;
  std::vector<double> cells;
};

int main(int argc, char** argv) { return bench<OpenMp>(argc, argv); }
