"""The life of a child: an interpreter that finds the functions of its parent, and calls them as tasks.

Arguments are numpy arrays over a map of the shared memory. When the function has returned, the view under each array is
released. Python refuses that while an array still uses the view; then the task fails, and says which argument was kept.
"""

from __future__ import annotations

import gc
import importlib.util
import mmap
import os
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from pickle import PickleBuffer
from types import ModuleType
from typing import Any, NoReturn

from .. import _core
from . import _loading
from ._dtypes import NUMPY, to_numpy
from ._errors import FunctionError
from ._functions import MAIN, Known, resolve, version_of
from ._graph import Orchestrator, unpack
from ._task import Chip, Copied

__all__ = ["main"]

#: The views of each memory: to read, and to read and write.
_memories: dict[int, tuple[memoryview, memoryview]] = {}
#: The numpy types by their numbers.
_types: list[Any] = []
_known = Known(())
_bootstrap: Callable[[Chip], Any] | None = None
_setting: Any = None


class Described(Exception):
    """A failure that is in words already."""


class Kept(Described):
    """Arguments outlive their task. ``kept`` lists memories, the address of each map, and the ranges that are still used."""

    def __init__(self, words: str, ranges: dict[int, list[tuple[int, int]]]) -> None:
        import numpy as np

        super().__init__(words)
        # The maps are held until they are cut off; the memories are mapped anew when they are needed again.
        self._maps = {memory: np.frombuffer(_memories.pop(memory)[0], np.uint8) for memory in ranges}
        self.kept = [(memory, array.ctypes.data, ranges[memory]) for memory, array in self._maps.items()]


def main() -> NoReturn:
    """Serves until the parent says that it is enough."""
    # Ctrl-C is the parent's business; who sends the signal to a child means its end.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            # The output of a task is seen also if its process is killed.
            reconfigure(line_buffering=True)
    status = _core.serve_worker(sys.argv, _loading.command(), prepare)
    if status is None:
        sys.exit("this is how phalanx starts its own workers")
    sys.exit(status)


def prepare(told: bytes) -> tuple[list[tuple[_core.Function, Any]], bool]:
    """Finds the functions of the parent."""
    import pickle

    global _known, _bootstrap, _setting
    setting = pickle.loads(told)
    sys.path[:] = setting["path"]
    sys.argv[:] = setting["argv"]
    if setting["main"] is not None:
        load_main(*setting["main"])
    _types.extend(to_numpy(name) for name in NUMPY)
    functions = []
    for name, is_graph, is_collective, _ in setting["functions"]:
        function = resolve(name)
        functions.append((_core.Function(name, is_graph, is_collective, version_of(function)), function))
    _known = Known((function, core) for core, function in functions)
    if setting["bootstrap"] is not None:
        _bootstrap = resolve(setting["bootstrap"])
        _setting = pickle.loads(setting["setting"])
    return functions, _bootstrap is not None


def load_main(kind: str, where: str) -> None:
    """Loads the script of the parent, under another name, as far as its first worker."""
    name = MAIN
    if kind == "module":
        spec = importlib.util.find_spec(where)
    else:
        spec = importlib.util.spec_from_file_location(name, where)
    loader: Any = spec.loader if spec is not None else None
    if spec is None or not hasattr(loader, "get_code"):
        raise FunctionError(f"the script of the parent cannot be loaded: {where}")
    module = ModuleType(name)
    module.__file__ = spec.origin
    module.__spec__ = spec
    module.__loader__ = loader
    module.__package__ = spec.parent if kind == "module" else None
    # Values that the parent has pickled name `__main__`.
    sys.modules[name] = sys.modules["__main__"] = module
    output = sys.stdout
    _loading.is_loading = True
    try:
        # The output of a script is not repeated by each child.
        with open(os.devnull, "w") as sys.stdout:
            exec(loader.get_code(spec.name), module.__dict__)
    except _loading.Reached:
        pass
    finally:
        _loading.is_loading = False
        sys.stdout = output


def map_memory(index: int, descriptor: int, size: int) -> None:
    """Maps a memory that the parent shares."""
    whole = memoryview(mmap.mmap(descriptor, size))
    _memories[index] = (whole.toreadonly(), whole)


def call(function: Callable[..., Any], places: Sequence[Any], blob: bytes) -> None:
    """Calls the function of a task with its arguments, and releases them."""
    views: list[memoryview | None] = []
    arguments: list[Any] = []
    for place in places:
        if type(place) is tuple:
            memory, start, end, dtype, shape, strides, is_written = place
            view = _memories[memory][is_written][start:end]
            views.append(view)
            arguments.append(_array(view, _types[dtype], shape, strides))
            del view
        else:
            views.append(None)
            arguments.append(Copied(place))
    named: dict[str, Any] = {}
    if blob:
        arguments, named = unpack(blob, arguments)
    failed: str | None = None
    try:
        function(*arguments, **named)
    except BaseException as error:
        failed = describe(error)
        _forget(error)
    del arguments, named
    kept = _release(views)
    if kept:
        raise Kept("\n".join(filter(None, (failed, _in_words(kept)))), _ranges(kept, places))
    if failed is not None:
        raise Described(failed)


def _array(view: memoryview, dtype: Any, shape: tuple[int, ...], strides: tuple[int, ...] | None) -> Any:
    import numpy as np

    if not len(view):
        return np.empty(shape, dtype)
    # Of a memoryview numpy would make another one beside it, which does not keep this one from being released. What is between
    # makes the array one of its users, until the last array over it is gone.
    between: Any = PickleBuffer(view)
    flat = np.frombuffer(between, dtype if strides is None else np.uint8)
    between.release()
    if strides is not None:
        return np.ndarray(shape, dtype, flat, 0, strides)
    return flat if len(shape) == 1 else flat.reshape(shape)


def _release(views: list[memoryview | None]) -> list[int]:
    """Releases the views; returns the arguments that are still in use."""
    try:
        for view in views:
            if view is not None:
                view.release()
        return []
    except BufferError:
        pass
    # An array in a cycle of references goes when the cycle does.
    gc.collect()
    kept = []
    for index, view in enumerate(views):
        try:
            if view is not None:
                view.release()
        except BufferError:
            kept.append(index)
    return kept


def _in_words(kept: list[int]) -> str:
    which = f"argument {kept[0]} outlives its task" if len(kept) == 1 else f"arguments {kept} outlive their task"
    return (
        f"{which}: an array over the shared memory is still used, by a global, a closure, an object or a thread that goes on. "
        "The memory is another task's from here on, and the array is cut off from it: keep a copy (`x.copy()`)"
    )


def _ranges(kept: list[int], places: Sequence[Any]) -> dict[int, list[tuple[int, int]]]:
    """The ranges of each memory that are kept."""
    found: dict[int, list[tuple[int, int]]] = {}
    for index in kept:
        memory, start, end, *_ = places[index]
        found.setdefault(memory, []).append((start, end))
    return found


def _forget(error: BaseException | None) -> None:
    """Lets the frames of an exception go, and the arrays in them."""
    while error is not None:
        traceback.clear_frames(error.__traceback__)
        error = error.__cause__ or error.__context__


def describe(error: BaseException) -> str:
    """An exception in words: what it says, and its traceback. ``SystemExit`` ends the process."""
    if isinstance(error, Described):
        return str(error)
    if isinstance(error, SystemExit):
        _exit(error.code)
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__ and trace.tb_next is not None:
        trace = trace.tb_next
    first = traceback.format_exception_only(error)[-1].strip()
    if isinstance(error, FunctionError):
        return str(error)
    return f"{first}\n{''.join(traceback.format_exception(type(error), error, trace)).rstrip()}"


def _exit(code: Any) -> NoReturn:
    """Ends the process as ``sys.exit`` does."""
    import atexit

    if code is None:
        status = 0
    elif isinstance(code, int):
        status = code & 0xFF
    else:
        print(code, file=sys.stderr)
        status = 1
    try:
        run = getattr(atexit, "_run_exitfuncs")
        run()
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(status)


def call_graph(function: Callable[..., Any], graph: _core.RuntimeGraph, tensors: Sequence[_core.SharedTensor], blob: bytes) -> None:
    """Lets the function of a graph submit to the workers of this one."""
    arguments, named = unpack(blob, tensors) if blob else (list(tensors), {})
    function(Orchestrator(graph, _known), *arguments, **named)


def bootstrap(device_id: int, rank: int, nranks: int, window_bytes: int) -> tuple[Any, int, list[tuple[str, int, bytes | None]]]:
    """Sets a chip up."""
    assert _bootstrap is not None, "the parent has said so"
    chip = Chip(device_id, rank, nranks, window_bytes, _setting)
    device = _bootstrap(chip)
    return device, chip.context, chip._named
