// StarPU: tasks over registered data, edges inferred from the access modes; the main thread submits.
#include <starpu.h>

#include <filesystem>

#include "harness.h"

template <class Body>
void call(void**, void* argument);

class StarPu {
 public:
  static constexpr const char* NAME = "starpu";

  StarPu(uint32_t threads, const Graph& graph) : cells(graph.data), handles(graph.data) {
    // Its files go beside this program and not into the home directory.
    const auto home = std::filesystem::read_symlink("/proc/self/exe").parent_path();
    setenv("STARPU_HOME", home.c_str(), 0);
    setenv("STARPU_SILENT", "1", 0);
    starpu_conf conf;
    starpu_conf_init(&conf);
    conf.ncpus = static_cast<int>(threads);
    conf.ncuda = conf.nopencl = 0;
    if (starpu_init(&conf) != 0) refuse("StarPU does not start");
    for (uint32_t i = 0; i < graph.data; ++i) {
      const auto address = reinterpret_cast<uintptr_t>(&cells[i]);
      starpu_variable_data_register(&handles[i], STARPU_MAIN_RAM, address, sizeof cells[i]);
    }
  }

  ~StarPu() {
    for (auto handle : handles) starpu_data_unregister(handle);
    starpu_shutdown();
  }

  template <class Body>
  void run(const Graph& graph, Body& body) {
    static starpu_codelet codelet = codelet_of<Body>();
    calls.resize(graph.size());
    for (uint32_t i = 0; i < graph.size(); ++i) {
      calls[i] = {&body, i};
      submit(graph.tasks[i], codelet, calls[i]);
    }
    starpu_task_wait_for_all();
  }

  void reset() {}

  struct Call {
    void* body;
    uint32_t task;
  };

 private:
  template <class Body>
  static starpu_codelet codelet_of() {
    starpu_codelet codelet;
    starpu_codelet_init(&codelet);
    codelet.cpu_funcs[0] = call<Body>;
    codelet.nbuffers = STARPU_VARIABLE_NBUFFERS;
    return codelet;
  }

  void submit(const Task& task, starpu_codelet& codelet, Call& call) {
    starpu_task* submitted = starpu_task_create();
    submitted->cl = &codelet;
    submitted->cl_arg = &call;
    submitted->cl_arg_size = sizeof call;
    int count = 0;
    for (const uint32_t datum : task.reads()) {
      submitted->handles[count] = handles[datum];
      submitted->modes[count++] = STARPU_R;
    }
    submitted->handles[count] = handles[task.writes];
    submitted->modes[count] = count == 0 ? STARPU_RW : STARPU_W;
    submitted->nbuffers = count + 1;
    if (starpu_task_submit(submitted) != 0) refuse("StarPU refuses a task");
  }

  std::vector<double> cells;
  std::vector<starpu_data_handle_t> handles;
  std::vector<Call> calls;
};

template <class Body>
void call(void**, void* argument) {
  const auto* call = static_cast<StarPu::Call*>(argument);
  (*static_cast<Body*>(call->body))(call->task);
}

int main(int argc, char** argv) { return bench<StarPu>(argc, argv); }
