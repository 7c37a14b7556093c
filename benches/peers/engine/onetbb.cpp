// oneTBB: a flow graph of continue nodes, built and run once.
#include <tbb/flow_graph.h>
#include <tbb/global_control.h>

#include <deque>

#include "harness.h"

class OneTbb {
  using Message = tbb::flow::continue_msg;
  using Node = tbb::flow::continue_node<Message>;

 public:
  static constexpr const char* NAME = "onetbb";

  OneTbb(uint32_t threads, const Graph&) : limit(tbb::global_control::max_allowed_parallelism, threads) {}

  template <class Body>
  void run(const Graph& graph, Body& body) {
    for (uint32_t i = 0; i < graph.size(); ++i) {
      nodes.emplace_back(flow, [&body, i](const Message&) { body(i); });
      for (const uint32_t producer : graph.tasks[i].follows()) tbb::flow::make_edge(nodes[producer], nodes[i]);
    }
    for (uint32_t i = 0; i < graph.size(); ++i)
      if (graph.tasks[i].follows().empty()) nodes[i].try_put(Message());
    flow.wait_for_all();
  }

  void reset() { nodes.clear(); }

 private:
  tbb::global_control limit;
  tbb::flow::graph flow;
  std::deque<Node> nodes;
};

int main(int argc, char** argv) { return bench<OneTbb>(argc, argv); }
