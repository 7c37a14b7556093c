"""Task graphs on processes: the task runtime, whose callables are Python functions.

A :class:`Worker` has sub workers and chips, each an interpreter of its own. A task is a call of a function on one of them; its
arguments are numpy arrays over memory that all share, without a copy. The order of tasks follows from the bytes that they name.

>>> from phalanx import runtime
>>> with runtime.Worker(["numpy:add"], sub_workers=1) as worker:
...     a, b = worker.from_numpy([1.0, 2.0]), worker.from_numpy([10.0, 20.0])
...     total = worker.tensor(2, "f64")
...     _ = worker.call("numpy:add", a.input(), b.input(), total.output())
...     worker.read(total)
array([11., 22.])

Functions are found by name in the children, so they are defined at the top level of a module, or of the script that runs:

.. code-block:: python

    from phalanx import runtime

    @runtime.task
    def double(x):
        x *= 2

    with runtime.Worker(sub_workers=2) as worker:
        x = worker.from_numpy(range(8))
        worker.run(lambda graph: [graph.submit_sub(double, x[i : i + 4].in_out()) for i in (0, 4)])
"""

from .._core import RuntimeDomain as Domain, SharedArgument as Argument, SharedBuffer as Buffer, SharedTensor as Tensor, SubmittedTask as TaskId
from ._errors import (
    CloseError,
    ClosedError,
    FunctionError,
    RunError,
    SharedMemoryError,
    StartError,
    TaskFailure,
    WaitTimeoutError,
    WorkerError,
)
from ._functions import graph, task
from ._graph import ANY, Call, Finished, Orchestrator, RunHandle
from ._task import Chip, Copied, DomainView, Task, current_task
from ._worker import Budgets, ChildStart, ChipContext, Lost, Startup, Worker, WorkerSpec

__all__ = [
    "ANY", "Argument", "Budgets", "Buffer", "Call", "ChildStart", "Chip", "ChipContext", "CloseError", "ClosedError", "Copied", "Domain",
    "DomainView", "Finished", "FunctionError", "Lost", "Orchestrator", "RunError", "RunHandle", "SharedMemoryError", "StartError", "Startup", "Task", "TaskFailure",
    "TaskId", "Tensor", "WaitTimeoutError", "Worker", "WorkerError", "WorkerSpec", "current_task", "graph", "task",
]
