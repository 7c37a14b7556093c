"""Workers: graphs of Python functions on processes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import worker_functions as functions
from phalanx import runtime
from phalanx.runtime import Call, Orchestrator, RunError, Tensor, Worker, WorkerError

PATIENCE = functions.PATIENCE
ALL = [value for name, value in vars(functions).items() if getattr(value, "__module__", "") == functions.__name__ and name != "spread"]


@pytest.fixture(scope="module")
def shared() -> Iterator[Worker]:
    with Worker(ALL, sub_workers=2, ring=(64, 1 << 20), memory=1 << 24) as worker:
        yield worker


def test_tasks_follow_the_bytes_that_they_name(shared: Worker) -> None:
    x = shared.from_numpy(np.arange(8.0))
    total = shared.tensor(4, "f64")

    def graph(graph: Orchestrator) -> None:
        for begin in (0, 4):
            graph.submit_sub(functions.double, x[begin : begin + 4].in_out(), by=10)
        graph.submit_sub(functions.double, x[::2].in_out(), 2)
        graph.submit_sub("worker_functions:add", x[:4].input(), x[4:].input(), total.output())

    finished = shared.run(graph)
    assert (finished.tasks, finished.completed) == (4, 4)
    expected = np.arange(8.0) * 10
    expected[::2] *= 2
    assert shared.read(x).tolist() == expected.tolist()
    assert shared.read(total).tolist() == (expected[:4] + expected[4:]).tolist()


@pytest.mark.parametrize("dtype", ["u8", "i32", "i64", "f16", "bf16", "f32", "f64", "u32"])
def test_every_type_of_elements(shared: Worker, dtype: str) -> None:
    x = shared.tensor((3, 5), dtype)
    assert (x.shape, x.dtype, len(x)) == ((3, 5), dtype, 3)
    shared.write(x, 7)
    shared.call(functions.double, x[1:, ::2].in_out(), 3)
    expected = np.full((3, 5), 7)
    expected[1:, ::2] = 21
    assert shared.read(x).tolist() == expected.tolist()


def test_views_are_cut_as_numpy_cuts(shared: Worker) -> None:
    array = np.arange(60, dtype=np.int32).reshape(3, 4, 5)
    for cut in [np.s_[1:], np.s_[:, 1:3], np.s_[::2, :, 4:], np.s_[2:1], np.s_[-1:, ::3, 1::2]]:
        x = shared.from_numpy(array)
        assert x[cut].shape == array[cut].shape
        shared.call(functions.fill, x[cut].output_existing(), -1)
        expected = array.copy()
        expected[cut] = -1
        assert (shared.read(x) == expected).all()
    with pytest.raises(WorkerError, match="steps of 1 or more"):
        x[::-1]
    with pytest.raises(WorkerError, match="4 slices were given for 3 axes"):
        x[:, :, :, :]


def test_arguments_are_the_shared_memory_itself(shared: Worker) -> None:
    """A mebibyte is filled by one task while another reads it: what is read after the run is what was written in place."""
    x = shared.tensor(1 << 18, "f32")
    shared.run(lambda graph: [graph.submit_sub(functions.fill, x.output(), 1), graph.submit_sub(functions.double, x.in_out(), 5)])
    assert (shared.read(x) == 5).all()


def test_an_input_cannot_be_written(shared: Worker) -> None:
    x = shared.tensor(4, "f64")
    with pytest.raises(RunError, match="read-only"):
        shared.call(functions.write_input, x.input())
    assert shared.read(x).tolist() == [0] * 4


def test_the_traceback_of_the_child_is_in_the_failure(shared: Worker) -> None:
    x = shared.from_numpy([5.0])
    with pytest.raises(RunError) as caught:
        shared.call(Call(functions.fail_in_a_chain, x.input()).named("third"))
    text = str(caught.value)
    assert text.startswith("task ") and "`third` (`worker_functions:fail_in_a_chain`, member 0) on sub worker " in text
    assert text.splitlines()[0].endswith("RuntimeError: because of that")
    assert "ValueError: number 5 is wrong" in text and 'worker_functions.py", line' in text
    assert "_child.py" not in text, "only the user's own frames"
    (failure,) = caught.value.failures
    assert (failure.name, failure.function, failure.member) == ("third", "worker_functions:fail_in_a_chain", 0)
    assert (caught.value.tasks, caught.value.completed) == (1, 0)
    # The exception held arrays in its frames; the worker goes on.
    shared.call(functions.double, x.in_out())


@pytest.mark.parametrize("function", [functions.keep, functions.keep_a_part, functions.keep_in_a_thread])
def test_an_array_that_outlives_its_task_fails_the_task(shared: Worker, function: Any) -> None:
    x = shared.tensor((2, 4), "f64")
    with pytest.raises(RunError, match="argument 0 outlives its task: an array over the shared memory is still used"):
        shared.call(function, x.input())


def test_an_array_that_outlives_its_task_is_cut_off_from_the_memory() -> None:
    with Worker([functions.keep, functions.use_kept_array], sub_workers=1, memory=1 << 20) as worker:
        x, out = worker.from_numpy(np.full(1000, 2.0)), worker.tensor(4, "f64")
        for _ in range(3):
            with pytest.raises(RunError, match="the array is cut off from it"):
                worker.call(functions.keep, x.in_out())
            worker.write(x, 5)
            worker.call(functions.use_kept_array, x.in_out(), out.output())
            assert worker.read(out).tolist() == [2000, 5000, 9000, 6000], "what it showed, not what is there"
            assert (worker.read(x) == 6).all(), "what it writes is its own"
            worker.write(x, 2)


@pytest.mark.parametrize("function", [functions.keep_a_copy, functions.make_a_cycle])
def test_copies_and_cycles_of_references_are_no_harm(shared: Worker, function: Any) -> None:
    x = shared.tensor((2, 4), "f64")
    shared.call(function, x.input())


def test_what_has_no_order_is_copied(shared: Worker) -> None:
    x = shared.tensor((2, 3), "i32")
    for _ in range(2):
        shared.call(functions.change_copied, x[:, 1:].no_dep())
    assert shared.read(x).tolist() == [[0, 2, 2], [0, 2, 2]]


def test_a_copied_argument_says_that_its_task_has_ended() -> None:
    with Worker([functions.keep_copied, functions.use_kept], sub_workers=1, memory=1 << 20) as worker:
        x, said = worker.tensor(4, "i32"), worker.tensor(256, "u8")
        worker.call(functions.keep_copied, x.no_dep())
        worker.call(functions.use_kept, said.in_out())
        assert b"the task of this argument has ended" in worker.read(said).tobytes()


def test_an_argument_without_a_tag_is_refused(shared: Worker) -> None:
    with pytest.raises(WorkerError, match=r"say what the task does with argument 0: `\.input\(\)`"):
        shared.call(functions.double, shared.tensor(4))


def test_a_function_that_the_worker_does_not_know_is_refused(shared: Worker) -> None:
    with pytest.raises(runtime.FunctionError, match="did you mean `worker_functions:double`"):
        shared.call("worker_functions:duble")
    with pytest.raises(runtime.FunctionError, match="is not a function of this worker: declare it"):
        shared.call(np.linalg.norm)


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda: None, "cannot be found by its name"),
        ("worker_functions:duble", "did you mean `double`"),
        ("no_such_module:f", "there is no module `no_such_module`"),
        ("double", "expected `package.module:function`"),
        (5, "a function of tasks is a function or its name"),
    ],
)
def test_functions_that_children_cannot_find_are_refused_before_anything_starts(function: Any, words: str) -> None:
    with pytest.raises(runtime.FunctionError, match=words):
        Worker([function], sub_workers=1)


def test_the_same_exception_as_the_code_of_the_graph_raised(shared: Worker) -> None:
    x = shared.tensor(4, "f64")

    def graph(graph: Orchestrator) -> None:
        graph.submit_sub(functions.fill, x.output(), 1)
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        shared.run(graph)
    shared.call(functions.fill, x.output(), 2)
    assert shared.read(x)[0] == 2


def test_a_graph_cannot_be_used_after_its_code(shared: Worker) -> None:
    graphs: list[Orchestrator] = []
    shared.run(graphs.append)
    with pytest.raises(WorkerError, match="the code of this graph has returned"):
        graphs[0].submit_sub(functions.nothing)


def test_a_run_inside_a_graph_is_refused(shared: Worker) -> None:
    with pytest.raises(WorkerError, match="this is the code of a graph of the same worker"):
        shared.run(lambda _: shared.call(functions.nothing))
    shared.call(functions.nothing)


def test_scopes_give_memory_back(shared: Worker) -> None:
    total = shared.tensor(1 << 12, "f64")

    def graph(graph: Orchestrator) -> None:
        for step in range(100):
            with graph.scope("step"):
                scratch = graph.alloc(1 << 12, "f64")
                graph.submit_sub(functions.fill, scratch.output(), step)
                graph.submit_sub(functions.add, scratch.input(), scratch.input(), total.output())

    shared.run(graph)
    assert shared.read(total)[0] == 198

    def too_much(graph: Orchestrator) -> None:
        for _ in range(100):
            graph.alloc(1 << 12, "f64")

    with pytest.raises(WorkerError, match="only the submitter can free"):
        shared.run(too_much, "too much")


def test_explicit_order(shared: Worker) -> None:
    x = shared.tensor(1, "f64")

    def graph(graph: Orchestrator) -> None:
        with graph.scope("by hand", manual=True):
            last = graph.submit_sub(functions.fill, x.output(), 1)
            for _ in range(10):
                last = graph.submit_sub(Call(functions.double, x.in_out()).after(last).priority(3))

    finished = shared.run(graph)
    assert shared.read(x)[0] == 1024 and finished.tasks == 11


def test_groups_start_together(shared: Worker) -> None:
    x = shared.tensor((2, 4), "i32")
    with pytest.raises(WorkerError, match="a collective must be a group"):
        shared.call(functions.mark, x.output())
    calls = [Call(functions.mark, x[row : row + 1].output()) for row in range(2)]
    shared.run(lambda graph: graph.submit_sub_group(calls))
    assert shared.read(x).tolist() == [[0] * 4, [10] * 4]


def test_runs_in_the_background(shared: Worker) -> None:
    flag = shared.tensor(1, "i32")
    handle = shared.submit(lambda graph: graph.submit_sub(functions.until_told, flag.no_dep()))
    with pytest.raises(runtime.WaitTimeoutError, match="not done after"):
        handle.wait(0.01)
    assert not handle.done
    shared.write_unordered(flag, 1)
    assert handle.wait(PATIENCE).completed == 1
    assert handle.done
    shared.write(flag, 0)
    many = shared.submit(lambda graph: [graph.submit_sub(functions.until_told, flag.no_dep()) for _ in range(40)])
    many.cancel()
    shared.write_unordered(flag, 1)
    with pytest.raises(RunError):
        many.wait(PATIENCE)


def test_what_a_task_reports(shared: Worker) -> None:
    assert shared.run(lambda graph: [graph.submit_sub(functions.report_time, n) for n in (5, 7)]).simulated_ps == 12
    assert not shared.lost and not shared.replaced
    assert shared.stats()["running"] == 0
    assert [child.name for child in shared.startup.children] == ["sub worker 0", "sub worker 1"]
    with pytest.raises(WorkerError, match="no task runs here"):
        runtime.current_task()


def test_a_tensor_that_a_run_names_is_not_read(shared: Worker) -> None:
    x, flag = shared.tensor(1, "i32"), shared.tensor(1, "i32")
    handle = shared.submit(lambda graph: graph.submit_sub(functions.announce_until_told, x.no_dep(), flag.no_dep()))
    with pytest.raises(WorkerError, match="names this buffer"):
        shared.read(x)
    while shared.read_unordered(x)[0] == 0 and not handle.done:
        pass
    assert shared.read_unordered(x)[0] in [child.process for child in shared.startup.children]
    shared.write_unordered(flag, 1)
    handle.wait(PATIENCE)
    with pytest.raises(WorkerError, match=r"an array of shape \(3,\) was given for a tensor of \(1,\)"):
        shared.write(x, [1, 2, 3])


def test_a_task_may_have_a_worker_of_its_own(shared: Worker) -> None:
    x = shared.from_numpy([1.0, 2.0])
    shared.call(functions.double_below, x.in_out())
    assert shared.read(x).tolist() == [2.0, 4.0]


def test_bytes_beyond_a_mebibyte_belong_into_a_tensor(shared: Worker) -> None:
    with pytest.raises(WorkerError, match="at most 1048576 bytes of its own"):
        shared.call(functions.say, "x" * (1 << 20))


def test_chips_domains_and_bootstraps() -> None:
    chosen = [functions.look_at_device, functions.look_at_weights, functions.all_reduce, functions.fill]
    settings: dict[str, Any] = {"chips": 3, "window": 4096, "device_ids": [4, 5, 6], "recording": True, "memory": 1 << 22}
    with Worker(chosen, bootstrap=functions.set_up, setting={"words": 2}, **settings) as worker:
        contexts = worker.chip_contexts
        assert [(chip.device_id, chip.context) for chip in contexts] == [(4, 104), (5, 105), (6, 106)]
        weights = contexts[1].buffers["weights"].tensor("u8", [8])
        seen, out = worker.tensor(3, "i32"), worker.tensor(1, "i32")
        domains: list[runtime.Domain] = []

        def graph(graph: Orchestrator) -> None:
            graph.submit_next_level(1, functions.look_at_device, seen.output())
            graph.submit_next_level(1, functions.look_at_weights, weights.input(), out.output())
            with pytest.raises(WorkerError, match="chip 0 cannot see it"):
                graph.submit_next_level(0, functions.look_at_weights, weights.input(), out.output())
            with pytest.raises(WorkerError, match="there is no chip 7"):
                graph.submit_next_level(7, functions.fill, out.output(), 1)
            domain = graph.allocate_domain("all", [2, 0, 1], {"data": ("f32", 8), "inbox": ("f32", 24)}, signals=1)
            for rank in range(len(domain)):
                worker.write(domain.buffer(rank, "data"), rank + 1)
            graph.submit_next_level_group((chip, Call(functions.all_reduce).domain(domain)) for chip in domain.chips)
            domains.append(domain)

        worker.run(graph)
        assert worker.read(seen).tolist() == [1, 3, 2] and worker.read(out).tolist() == [1]
        for rank in range(3):
            assert worker.read(domains[0].buffer(rank, "data")).tolist() == [6.0] * 8
        timeline = worker.timeline()
        assert sorted({task["function"] for task in timeline["tasks"]}) == sorted(
            f"worker_functions:{function.__name__}" for function in chosen[:3]
        )
        assert timeline["workers"][0].startswith("chip 0")


def test_workers_of_workers() -> None:
    below = runtime.WorkerSpec(chips=2, memory=1 << 20, ring=(64, 1 << 16))
    with Worker([functions.fill, functions.spread], workers=[below, below], memory=1 << 20, ring=(64, 1 << 16)) as pod:
        assert pod.level == 4 and len(pod.startup.children[0].descendants) == 2
        data = pod.tensor(16, "f64")

        def graph(graph: Orchestrator) -> None:
            for node in range(2):
                graph.submit_next_level(node, functions.spread, data[node * 8 : node * 8 + 8].output(), node * 10)

        pod.run(graph)
        assert pod.read(data).tolist() == [0.0] * 4 + [1.0] * 4 + [10.0] * 4 + [11.0] * 4


def test_settings_that_cannot_be_are_refused_by_name() -> None:
    with pytest.raises(WorkerError, match="no chips and no sub workers"):
        Worker([functions.nothing])
    with pytest.raises(TypeError, match="sub_worker"):
        Worker([functions.nothing], sub_worker=1)
    with pytest.raises(WorkerError, match="`progress` must fire before"):
        Worker([functions.nothing], sub_workers=1, budgets=runtime.Budgets(progress=100))
    with pytest.raises(WorkerError, match="a time is a number of seconds"):
        Worker([functions.nothing], sub_workers=1, close_within=-1)
    with pytest.raises(WorkerError, match="`runs` is at least 1"):
        Worker([functions.nothing], sub_workers=1, runs=0)


def test_memory_that_is_not_there() -> None:
    with Worker([functions.nothing], sub_workers=1, memory=1 << 16, ring=(16, 0)) as worker:
        with pytest.raises(MemoryError, match="raise `memory`"):
            worker.tensor(1 << 20)
        tensors: list[Tensor] = [worker.tensor(1 << 12, "u8") for _ in range(16)]
        del tensors
        assert worker.tensor(1 << 16, "u8").nbytes == 1 << 16


SCRIPT = """
import sys
from phalanx import runtime
import numpy as np

print("hello", sys.argv[1:])

class Scale:
    def __init__(self, by): self.by = by

@runtime.task
def scale(x, scale):
    x *= scale.by
    print("in the child")

with runtime.Worker(sub_workers=1, memory=1 << 20) as worker:
    x = worker.from_numpy([1.0, 2.0])
    worker.call(scale, x.in_out(), Scale(3))
    print(worker.read(x))
"""


def test_a_script_needs_no_guard(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    done = subprocess.run([sys.executable, str(script), "a"], capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["hello ['a']", "in the child", "[3. 6.]"]
    # The same as a module, and from elsewhere on standard input, where children cannot read it.
    done = subprocess.run([sys.executable, "-m", "script", "a"], capture_output=True, text=True, timeout=PATIENCE, check=False, cwd=tmp_path)
    assert done.stdout.splitlines()[-1:] == ["[3. 6.]"], done.stderr
    done = subprocess.run([sys.executable, "-"], input=SCRIPT, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert "is defined in an interactive session, which children cannot load" in done.stderr


def test_a_child_whose_function_differs_does_not_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = tmp_path / "changing.py"
    module.write_text("def f(x):\n    x += 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    import changing  # type: ignore[import-not-found]

    module.write_text("def f(x):\n    x += 22\n")
    with pytest.raises(runtime.StartError, match="`changing:f` is of another version or kind here"):
        Worker([changing.f], sub_workers=1, memory=1 << 16)
    module.write_text("import nothing_of_this_name\n")
    with pytest.raises(runtime.StartError, match="nothing_of_this_name"):
        Worker([changing.f], sub_workers=1, memory=1 << 16)
