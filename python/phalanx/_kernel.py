"""Kernels: Python functions ``kernel(tl, ...)`` that run on PEs.

``tl`` issues the operations of a PE: loads and stores, vector and matrix operations, messages. Tensors come as *views*, which are cut by
indexing; tiles are values in a PE's scratch memory, which is free again when the last name of a tile is gone.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Sequence
from functools import partial, update_wrapper
from threading import get_ident
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

from . import _core
from ._context import current_rank
from ._core import Issued, Pending, Queue, Recordings, Tile, Tl, View
from ._dtypes import DType, resolve
from ._fibers import begin, finish, getcurrent
from ._tensor import Tensor, Work
from .errors import ArgumentError

__all__ = ["Grid", "Issued", "Kernel", "Queue", "Tile", "Tl", "View", "explain", "kernel", "launch"]


#: The fiber that runs: a kernel runs in no other greenlet.
_here: Callable[[], Any] = getcurrent


class WaitingTl(Tl):
    """The context of a kernel whose methods wait: they are Python, so that no frame of Rust stands on a stack that is suspended.

    While a kernel is recorded, no operation waits, and ``tl`` is a plain ``Tl``.
    """

    __slots__ = ()


def _wait(answer: Any) -> Any:
    if type(answer) is not Pending:
        return answer
    _here().hub.switch(answer)
    return answer.result()


def _install_waiting() -> None:
    """Gives ``WaitingTl`` the methods that wait."""

    def one(name: str) -> Callable[..., Any]:
        call = getattr(Tl, name)

        def method(self: Tl, a: Any) -> Any:
            answer = call(self, a)
            if type(answer) is not Pending:
                return answer
            _here().hub.switch(answer)
            return answer.result()

        return method

    def two(name: str) -> Callable[..., Any]:
        call = getattr(Tl, name)

        def method(self: Tl, a: Any, b: Any) -> Any:
            answer = call(self, a, b)
            if type(answer) is not Pending:
                return answer
            _here().hub.switch(answer)
            return answer.result()

        return method

    def any_number(name: str) -> Callable[..., Any]:
        call = getattr(Tl, name)

        def method(self: Tl, *args: Any, **kwargs: Any) -> Any:
            answer = call(self, *args, **kwargs)
            if type(answer) is not Pending:
                return answer
            _here().hub.switch(answer)
            return answer.result()

        return method

    unary = "neg abs recip sqrt exp log relu tanh sigmoid gelu exp2 log2 rsqrt erf sin cos floor ceil not_ wait"
    binary = (
        "add sub mul div maximum minimum eq ne lt le gt ge rem floordiv mod_ maxnum minnum pow and_ or_ xor shl shr mulhi "
        "store store_async load_pair load_pair_async send send_async"
    )
    other = "load load_async dot dot_async full zeros select where cast barrier recv recv_async"
    for names, made in ((unary, one), (binary, two), (other, any_number)):
        for name in names.split():
            method = made(name)
            method.__name__ = name
            setattr(WaitingTl, name, method)


def _install() -> None:
    """Gives ``Tl`` the methods that are more than one call."""
    raw = {name: getattr(Tl, name) for name in dir(Tl) if not name.startswith("_")}
    wait = _wait

    def reducing(name: str) -> Callable[..., Any]:
        call = raw[name]

        def method(self: Tl, tile: Tile, axis: int | None = None, keep_dims: bool = False) -> Any:
            shape = tile.shape
            if axis is None:
                made = wait(whole(self, f"reduce {name}", [tile], [], None))
                return reshape(self, made, [1] * len(shape)) if keep_dims else made
            at = axis if axis >= 0 else axis + len(shape)
            made = wait(call(self, tile, at))
            return reshape(self, made, [*shape[:at], 1, *shape[at + 1 :]]) if keep_dims else made

        return method

    whole, split, load_at, store_at, atomic = raw["whole"], raw["split"], raw["load_at"], raw["store_at"], raw["atomic"]

    def reshape(self: Tl, tile: Tile, shape: Any) -> Tile:
        wait(raw["reshape"](self, tile, _shape(shape)))
        return tile

    def at(tile: Tile, axis: int) -> int:
        return axis if axis >= 0 else axis + len(tile.shape)

    def scanning(name: str) -> Callable[..., Any]:
        return lambda self, tile, axis=0, reverse=False: wait(whole(self, f"scan {name}", [tile], [at(tile, axis), int(reverse)], None))

    def updating(name: str) -> Callable[..., Any]:
        return lambda self, view, offsets, tile, mask=None: wait(atomic(self, name, view, _offsets(offsets), [tile], mask))

    for name in ("sum", "prod", "max", "min"):
        setattr(Tl, name, reducing(name))

    opened = raw["open"]
    methods: dict[str, Callable[..., Any]] = {
        "compute": lambda self, seconds: wait(raw["compute"](self, round(seconds * 1e12))),
        "now": lambda self: wait(raw["now"](self, sys._getframe(1).f_lineno)) / 1e12,
        "item": lambda self, tile, index=0: wait(raw["item"](self, tile, index, sys._getframe(1).f_lineno)),
        "is_over": lambda self, issued: wait(raw["is_over"](self, issued, sys._getframe(1).f_lineno)),
        "range": lambda self, name: _KernelRange(self, name),
        "sender": lambda self, to, channel=0, **edge: opened(self, True, tuple(to), channel, *_edge(**edge)),
        "receiver": lambda self, source, channel=0, **edge: opened(self, False, tuple(source), channel, *_edge(**edge)),
    }

    methods["reshape"] = reshape
    methods |= {
        "where": raw["select"],
        "arange": lambda self, start, end, dtype="i32": wait(whole(self, "arange", [], [start, end], resolve(dtype).name)),
        "fma": lambda self, a, b, c: wait(whole(self, "fma", [a, b, c], [], None)),
        "bitcast": lambda self, tile, dtype: wait(whole(self, "bitcast", [tile], [], resolve(dtype).name)),
        "broadcast_to": lambda self, tile, shape: wait(whole(self, "broadcast_to", [tile], _shape(shape), None)),
        "expand_dims": lambda self, tile, axis: wait(whole(self, "expand_dims", [tile], [axis if axis >= 0 else axis + len(tile.shape) + 1], None)),
        "permute": lambda self, tile, order: wait(whole(self, "permute", [tile], list(order), None)),
        "trans": lambda self, tile: wait(whole(self, "permute", [tile], _transposed(len(tile.shape)), None)),
        "join": lambda self, left, right: wait(whole(self, "join", [left, right], [], None)),
        "split": lambda self, tile: wait(split(self, tile)),
        "cat": lambda self, left, right, axis=0: wait(whole(self, "cat", [left, right], [at(left, axis)], None)),
        "flip": lambda self, tile, axis=-1: wait(whole(self, "flip", [tile], [at(tile, axis)], None)),
        "gather": lambda self, tile, index, axis: wait(whole(self, "gather", [tile, index], [at(tile, axis)], None)),
        "argmax": lambda self, tile, axis: wait(whole(self, "argmax", [tile], [at(tile, axis)], None)),
        "argmin": lambda self, tile, axis: wait(whole(self, "argmin", [tile], [at(tile, axis)], None)),
        "cumsum": scanning("sum"),
        "cumprod": scanning("prod"),
        "cummax": scanning("max"),
        "cummin": scanning("min"),
        "xor_sum": lambda self, tile: wait(whole(self, "reduce xor", [tile], [], None)),
        "sort": lambda self, tile, axis=-1, descending=False: wait(whole(self, "sort", [tile], [at(tile, axis), int(descending)], None)),
        "topk": lambda self, tile, k: wait(whole(self, "topk", [tile], [k], None)),
        "histogram": lambda self, tile, bins: wait(whole(self, "histogram", [tile], [bins], None)),
        "randint": lambda self, seed, offsets: wait(whole(self, "randint", [offsets], [_seed(seed)], None)),
        "rand": lambda self, seed, offsets: wait(whole(self, "rand", [offsets], [_seed(seed)], None)),
        "randn": lambda self, seed, offsets: wait(whole(self, "randn", [offsets], [_seed(seed)], None)),
        "dot_tf32": lambda self, left, right, acc=None: wait(whole(self, "dot_tf32", [left, right] if acc is None else [left, right, acc], [], None)),
        "load_at": lambda self, view, offsets, mask=None, other=0.0: wait(load_at(self, view, _offsets(offsets), mask, other)),
        "store_at": lambda self, view, offsets, tile, mask=None: wait(store_at(self, view, _offsets(offsets), tile, mask)),
        "atomic_cas": lambda self, view, offsets, expected, new, mask=None: wait(
            atomic(self, "atomic_cas", view, _offsets(offsets), [expected, new], mask)
        ),
    }
    for name in ("atomic_add", "atomic_max", "atomic_min", "atomic_and", "atomic_or", "atomic_xor", "atomic_xchg"):
        methods[name] = updating(name)
    for name, method in methods.items():
        setattr(Tl, name, method)


def _offsets(offsets: Any) -> Any:
    """A tile as it is; otherwise a list of whole numbers."""
    return offsets if isinstance(offsets, Tile) else [int(offset) for offset in offsets]


def _transposed(rank: int) -> list[int]:
    """The order of dimensions with the last two exchanged."""
    order = list(range(rank))
    order[-2:] = order[-1:] + order[-2:-1]
    return order


def _seed(seed: int) -> int:
    """The lower 64 bits, as a signed number."""
    low = seed & 0xFFFF_FFFF_FFFF_FFFF
    return low - (1 << 64) if low >> 63 else low


def _shape(shape: int | Sequence[int]) -> list[int]:
    return [shape] if isinstance(shape, int) else list(shape)


def _edge(
    n_slots: int = 4,
    slot_size: int = 16 * 1024,
    buffer_kind: str = "tcm",
    poll: float | None = None,
    vc_chunk_size: int = 0,
    ipcq_credit_size_bytes: int = 0,
) -> tuple[int, int, bool, int | None, int, int]:
    """The settings of a queue; both ends have the same."""
    if buffer_kind not in ("tcm", "hbm"):
        raise ArgumentError(f"no memory `{buffer_kind}`: a queue's slots are in `tcm` or `hbm`")
    period = None if poll is None else round(poll * 1e12)
    return n_slots, slot_size, buffer_kind == "hbm", period, vc_chunk_size, ipcq_credit_size_bytes


class _KernelRange:
    """A named part of a kernel: ``with tl.range("warm up"): ...``."""

    __slots__ = ("_name", "_range", "_tl")

    def __init__(self, tl: Tl, name: str) -> None:
        self._tl, self._name = tl, name

    def __enter__(self) -> None:
        self._range = self._tl.open_range(self._name)

    def __exit__(self, *_: object) -> None:
        self._tl.close_range(self._range)


_install()
_install_waiting()

#: Functions that a kernel may call and still be replayed: they have no effect and depend on their arguments alone.
_PURE = frozenset(
    "abs all any bool dict divmod enumerate float int isinstance len list map max min pow range reversed round set slice sorted str sum "
    "tuple zip ValueError IndexError RuntimeError AssertionError".split()
)
_PURE_MODULES = frozenset(["math", "operator"])
_CONSTANT = (int, float, str, bytes, bool, type(None), DType)


class Kernel:
    """A kernel: ``kernel[grid](tensors and numbers)`` runs it on the PEs of the current rank's SIP, and returns a :class:`Work`.

    ``grid`` is a :class:`Grid`, the number of PEs, ``...`` for all, or a tuple of programs along up to three axes. Tensors named in ``reads`` are only read: kernels that
    read one tensor run side by side. ``mode`` is ``"recorded"`` or ``"greenlet"``, which mean the same.
    """

    def __init__(
        self, fn: Callable[..., Any], *, reads: Sequence[str] = (), mode: str = "recorded", replay: bool = True
    ) -> None:
        if mode not in ("recorded", "greenlet"):
            raise ArgumentError(f"no mode `{mode}`: a kernel is `recorded` or `greenlet`")
        self.fn = fn
        self.mode = mode
        self.__name__: str = getattr(fn, "__name__", "kernel")
        code: CodeType = fn.__code__
        self._parameters = code.co_varnames[1 : code.co_argcount]
        unknown = [name for name in reads if name not in self._parameters]
        if unknown:
            raise ArgumentError(f"kernel `{fn.__name__}` has no parameter `{unknown[0]}`: it has {', '.join(self._parameters)}")
        self._reads = frozenset(reads)
        self._replay = replay
        self._recordings: dict[Any, Recordings] = {}
        self._last: Recordings | None = None
        self._kept_from: str | None = None
        update_wrapper(self, fn)

    def __getitem__(self, grid: Any) -> Callable[..., Work]:
        return partial(self.launch, grid)

    def __call__(self, *args: Any) -> Any:
        """Calls the function itself, as a part of another kernel."""
        return self.fn(*args)

    def launch(self, grid: Any, *args: Any, **kwargs: Any) -> Work:
        """Runs the kernel on the PEs of ``grid``, after earlier operations on its tensors."""
        if kwargs:
            names = self._parameters[len(args) :]
            args = args + tuple(kwargs.pop(name) for name in names if name in kwargs)
            if kwargs:
                raise TypeError(f"kernel `{self.__name__}` got an unexpected argument `{next(iter(kwargs))}`")
        shape = _grid(grid)
        tensors: list[tuple[_core.Tensor, bool]] = []
        places: list[int | None] = []
        for index, arg in enumerate(args):
            if isinstance(arg, Tensor):
                places.append(len(tensors))
                name = self._parameters[index] if index < len(self._parameters) else ""
                tensors.append((arg._core, name not in self._reads))
            else:
                places.append(None)
        rank = current_rank()
        recordings = self._recordings_for(rank, shape, args)
        self._last = recordings
        fn = self.fn

        def begin_program(tl: Tl, views: list[View]) -> Callable[[], Any]:
            values = [arg if place is None else views[place] for arg, place in zip(args, places, strict=True)]
            return lambda: begin(lambda: finish(fn(tl, *values)))

        return Work(rank.launch(self.__name__, shape._parts, tensors, begin_program, recordings, self.mode == "greenlet"))

    def _recordings_for(self, rank: _core.Rank, grid: Grid, args: tuple[Any, ...]) -> Recordings:
        """The lists that were recorded with arguments of the same kinds."""
        key = None
        if self._replay and self.mode == "recorded":
            self._kept_from = None
            key = self._key(rank, grid, args)
        if key is None:
            return Recordings(False)
        found = self._recordings.get(key)
        if found is None:
            if len(self._recordings) >= 64:
                self._recordings.pop(next(iter(self._recordings)))
            found = self._recordings[key] = Recordings(True)
        return found

    def _key(self, rank: _core.Rank, grid: Grid, args: tuple[Any, ...]) -> Any:
        parts: list[Any] = [get_ident(), rank.identity(), grid._key()]
        for arg in args:
            if isinstance(arg, Tensor):
                core = arg._core
                parts.append((core.dtype, tuple(core.shape), tuple(core.strides)))
            elif isinstance(arg, _CONSTANT):
                parts.append((type(arg), arg))
            else:
                self._kept_from = f"its argument {arg!r} may change"
                return None
        outside = self._outside(self.fn, set())
        return None if outside is None else (tuple(parts), outside)

    def _outside(self, fn: Any, seen: set[Any]) -> tuple[Any, ...] | None:
        """The globals and closures that a function depends on; ``None`` if they may change, or if the function has an effect."""
        fn = fn.fn if isinstance(fn, Kernel) else fn
        if fn in seen:
            return ()
        seen.add(fn)
        values: list[Any] = [fn.__code__, fn.__defaults__]
        named = [*_globals(fn), *_cells(fn)]
        for name, value in named:
            if isinstance(value, _CONSTANT):
                values.append((name, type(value), value))
            elif isinstance(value, (FunctionType, Kernel)):
                inner = self._outside(value, seen)
                if inner is None:
                    return None
                values.append(inner)
            elif isinstance(value, ModuleType) and (value.__name__ in _PURE_MODULES or value.__name__ == __package__):
                continue
            elif (isinstance(value, (BuiltinFunctionType, type))) and name in _PURE:
                continue
            else:
                self._kept_from = f"it refers to `{name}`, which may change or have an effect"
                return None
        return tuple(values)


def _globals(fn: Any) -> list[tuple[str, Any]]:
    """The global names that a function refers to."""
    import builtins

    found = []
    names: set[str] = set()
    codes = [fn.__code__]
    while codes:
        code = codes.pop()
        names.update(_global_names(code))
        codes += [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    for name in sorted(names):
        if name in fn.__globals__:
            found.append((name, fn.__globals__[name]))
        elif hasattr(builtins, name):
            found.append((name, getattr(builtins, name)))
    return found


def _global_names(code: CodeType) -> frozenset[str]:
    found = _GLOBAL_NAMES.get(code)
    if found is None:
        import dis

        found = frozenset(
            str(instruction.argval) for instruction in dis.get_instructions(code) if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME")
        )
        _GLOBAL_NAMES[code] = found
    return found


_GLOBAL_NAMES: dict[CodeType, frozenset[str]] = {}


def _cells(fn: Any) -> list[tuple[str, Any]]:
    """The names of enclosing functions that a function refers to."""
    found = []
    for name, cell in zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True):
        try:
            found.append((name, cell.cell_contents))
        except ValueError:
            found.append((name, object()))
    return found


class Grid:
    """The programs of a launch, and the PEs of the rank's SIP that run them.

    In ``kernel[grid]`` a number means so many PEs, ``...`` all of them, and a tuple of one to three numbers that many programs along
    each axis, on all PEs; there may be more programs than PEs.
    """

    __slots__ = ("_parts",)

    def __init__(self, parts: tuple[str, list[int], list[tuple[int, int]], list[int] | None]) -> None:
        self._parts = parts

    @staticmethod
    def all() -> Grid:
        """One program on each PE."""
        return Grid(("all", [], [], None))

    @staticmethod
    def pes(count: int) -> Grid:
        """One program on each of the first PEs, cube by cube."""
        return Grid(("pes", [count], [], None))

    @staticmethod
    def cubes(cubes: int, pes: int) -> Grid:
        """One program on each of the first PEs of each of the first cubes."""
        return Grid(("cubes", [cubes, pes], [], None))

    @staticmethod
    def on(pes: Sequence[tuple[int, int]]) -> Grid:
        """One program on each of these PEs, as ``(cube, pe)``, in this order."""
        return Grid(("on", [], list(pes), None))

    @staticmethod
    def programs(*axes: int, over: Grid | None = None) -> Grid:
        """Programs in one to three axes, the first fastest. The PEs of ``over`` take them in order, each when it is free."""
        kind, numbers, chosen, _ = (over or Grid.all())._parts
        return Grid((kind, numbers, chosen, list(axes)))

    def _key(self) -> Any:
        kind, numbers, chosen, axes = self._parts
        return kind, tuple(numbers), tuple(chosen), axes and tuple(axes)

    def __repr__(self) -> str:
        return f"Grid{self._parts}"


def _grid(grid: Any) -> Grid:
    if isinstance(grid, Grid):
        return grid
    if grid is None or grid is Ellipsis:
        return Grid.all()
    try:
        numbers = [operator.index(part) for part in ((grid,) if hasattr(grid, "__index__") else grid)]
    except TypeError:
        raise ArgumentError(f"a grid is a number of PEs, ..., a tuple of one to three numbers of programs, or a Grid, not {grid!r}") from None
    if any(number < 0 for number in numbers):
        raise ArgumentError(f"a grid of {grid} programs")
    return Grid.pes(numbers[0]) if hasattr(grid, "__index__") else Grid.programs(*numbers)


def kernel(fn: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Makes a :class:`Kernel` of a function, as a decorator with or without options.

    >>> import phalanx
    >>> @phalanx.kernel(reads=["x", "y"])
    ... def add(tl, x, y, out):
    ...     start, count = tl.share(len(out))
    ...     part = slice(start, start + count)
    ...     tl.store(out[part], tl.add(tl.load(x[part]), tl.load(y[part])))
    >>> def program():
    ...     x, y, out = phalanx.arange(100.0), phalanx.ones(100), phalanx.empty(100)
    ...     add[4](x, y, out)
    ...     return out.numpy()[:3].tolist()
    >>> phalanx.Context("pair").run(program)
    [1.0, 2.0, 3.0]
    """
    if fn is None:
        return partial(_made, options)
    return _made(options, fn)


def _made(options: dict[str, Any], fn: Callable[..., Any]) -> Kernel:
    return Kernel(fn, **options)


def launch(fn: Callable[..., Any] | Kernel, grid: Any, *args: Any, **options: Any) -> Work:
    """Runs a function as a kernel on the PEs of ``grid``; options are those of :class:`Kernel`."""
    made = fn if isinstance(fn, Kernel) else Kernel(fn, **options)
    return made.launch(grid, *args)


def explain(made: Kernel) -> str:
    """Say how the programs of the kernel's last launch ran, and why."""
    last = made._last
    if last is None:
        return f"kernel `{made.__name__}` was not launched yet"
    if made.mode == "greenlet":
        return f"kernel `{made.__name__}` runs as greenlets, because of mode='greenlet'"
    recorded, replayed, looked = last.counts()
    lines = [f"kernel `{made.__name__}`: {recorded} programs recorded, {replayed} replayed, {looked} went on as greenlets"]
    look = last.look()
    if look is not None:
        lines.append(f"it stopped recording at {look}")
    if made._kept_from is not None:
        lines.append(f"it is not replayed: {made._kept_from}")
    return "\n".join(lines)


def _operator(name: str, swapped: bool = False) -> Callable[[Tile, Any], Any]:
    call = getattr(WaitingTl, name)

    def method(self: Tile, other: Any) -> Any:
        tl = self.tl
        if not isinstance(other, Tile):
            if not isinstance(other, (int, float)):
                return NotImplemented
            other = tl.full([1] * len(self.shape), other, self.dtype)
        return call(tl, other, self) if swapped else call(tl, self, other)

    return method


for _symbol, _name in {"add": "add", "sub": "sub", "mul": "mul", "truediv": "div"}.items():
    setattr(Tile, f"__{_symbol}__", _operator(_name))
    setattr(Tile, f"__r{_symbol}__", _operator(_name, swapped=True))
setattr(Tile, "__matmul__", lambda self, other: self.tl.dot(self, other))  # noqa: B010
setattr(Tile, "__neg__", lambda self: self.tl.neg(self))  # noqa: B010
