"""The driver half of the plugin: what Triton asks about a device, and how it launches."""
# mypy: disable-error-code="import-untyped,import-not-found,misc,unused-ignore"

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Sequence
from typing import Any

from triton.backends.compiler import GPUTarget
from triton.backends.driver import DriverBase

from ..errors import KernelError
from . import _torch
from ._device import Loaded, current
from ._events import Interface
from ._memory import ARRAYS, Array, alignment, specialized

__all__ = ["Launcher", "PhalanxDriver", "Utilities"]

_WARP = 32


class Utilities:
    """The object that Triton calls ``driver.active.utils``."""

    def load_binary(self, name: str, binary: bytes, shared: int, device: int) -> tuple[Loaded, Loaded, int, int, int]:
        """A kernel that was compiled: module, function, registers, spills, most threads. The middle two mean nothing here."""
        kernel = Loaded(binary.decode())
        return kernel, kernel, 32, 0, 1 << 20

    def unload_module(self, module: Loaded) -> None:
        """Does nothing: memory is Python's."""

    def get_device_properties(self, device: int) -> dict[str, int]:
        """The machine in the words of a GPU: a PE is a multiprocessor, its scratch memory is the shared memory."""
        machine = current().machine
        scratch, _, cache, bandwidth, _ = machine.device()
        width = 4096
        clock = 0 if bandwidth is None else bandwidth * 8 // (2 * width * 1000)
        return {
            "max_shared_mem": (1 << 31) - 1 if scratch is None else scratch,
            "max_num_regs": 1 << 16,
            "multiprocessor_count": machine.cubes * machine.pes,
            "warpSize": _WARP,
            "sm_clock_rate": 1_000_000,
            "mem_clock_rate": clock,
            "mem_bus_width": width,
            "L2_cache_size": 0 if cache is None else cache,
        }


class Launcher:
    """Launches one compiled kernel."""

    def __init__(self, source: Any, metadata: Any) -> None:
        self._kinds = tuple(source.signature.values())
        self._plain = not any(kind == "constexpr" or isinstance(kind, tuple) or kind.startswith("tensordesc") for kind in self._kinds)
        flat = all(isinstance(kind, str) and not kind.startswith("tensordesc") for kind in self._kinds)
        self._taken = [place for place, kind in enumerate(self._kinds) if kind != "constexpr"] if flat else None

    def __call__(
        self, grid_x: int, grid_y: int, grid_z: int, stream: Any, function: Loaded, packed: tuple[int, int],
        launch_metadata: Any, enter: Callable[[Any], None] | None, leave: Callable[[Any], None] | None, *arguments: Any,
    ) -> None:  # fmt: skip
        if grid_x * grid_y * grid_z <= 0:
            return
        if self._taken is not None:
            values: list[Any] = [arguments[place] for place in self._taken]
        else:
            values = []
            for kind, argument in zip(self._kinds, arguments, strict=True):
                _flatten(kind, argument, values)
        if enter is not None:
            enter(launch_metadata)
        try:
            current().launch(function, (grid_x, grid_y, grid_z), values, *packed)
        except KernelError as error:
            _out_of_scratch(error)
            raise
        if leave is not None:
            leave(launch_metadata)


def _flatten(kind: Any, argument: Any, values: list[Any]) -> None:
    """The arguments of the compiled function that one argument of the kernel stands for."""
    if isinstance(kind, tuple):
        for inner, part in zip(kind, argument, strict=True):
            _flatten(inner, part, values)
    elif kind == "constexpr":
        return
    elif kind.startswith("tensordesc"):
        values += [argument, *argument.shape, *argument.strides]
    else:
        values.append(argument)


def _out_of_scratch(error: KernelError) -> None:
    """Raises what the autotuner expects of a configuration that does not fit."""
    text = str(error)
    if "out of scratch" in text:
        raise _out_of_scratch_error()(text) from error


class PhalanxDriver(DriverBase):
    """A SIP of a simulated machine, as Triton sees it."""

    def __init__(self) -> None:
        super().__init__()
        self.utils = Utilities()
        self.launcher_cls = Launcher
        self.get_current_device = _first
        self.get_current_stream = _first
        self.set_current_device = _nothing
        _take_arrays()

    @staticmethod
    def is_active() -> bool:
        """Only if ``TRITON_DEFAULT_BACKEND=phalanx`` asks for it: a machine that exists goes first."""
        return os.environ.get("TRITON_DEFAULT_BACKEND") == "phalanx"

    def map_python_to_cpp_type(self, ty: str) -> str:
        """No C++ is made of kernels."""
        raise NotImplementedError("kernels are not compiled to C++ here")

    def get_current_target(self) -> GPUTarget:
        """The target that our compiler takes."""
        return GPUTarget("phalanx", 0, _WARP)

    def get_device_capability(self, device: int = 0) -> tuple[int, int]:
        """No capability of a GPU."""
        return 0, 0

    def get_active_torch_device(self) -> Any:
        """The CPU: its memory is treated as the SIP's."""
        return _torch.device()

    def get_device_interface(self) -> type[Interface]:
        """Events and waiting, in simulated time."""
        return Interface

    def get_benchmarker(self) -> Callable[..., Any]:
        """The function that the autotuner times configurations with."""
        return benchmark

    def get_empty_cache_for_benchmark(self) -> Any:
        """Nothing to clear: a kernel that is only timed finds the caches cold."""
        current().begin_benchmark()
        return None

    def clear_cache(self, cache: Any) -> None:
        """Nothing to clear."""


def benchmark(kernel_call: Callable[[], Any], *, quantiles: Sequence[float] | None = None, **_: Any) -> Any:
    """The simulated milliseconds of a call. One call is enough; numbers are not computed unless the kernel needs them."""
    device = current()
    before, device.benchmarking = device.benchmarking, True
    begun = device.clock_ps
    try:
        kernel_call()
    finally:
        device.benchmarking = before
    took = (device.clock_ps - begun) / 1e9
    return took if quantiles is None else [took] * len(quantiles)


def _first(*_: Any) -> int:
    return 0


def _nothing(*_: Any) -> None:
    return None


def _take_arrays() -> None:
    """Lets kernels take arrays of numpy and tensors of phalanx, which Triton itself does not know."""
    from triton.runtime import jit

    stock = jit.native_specialize_impl
    if getattr(stock, "_takes_arrays", False):
        return

    known: dict[Any, Any] = {}

    def specialize(backend: Any, argument: Any, constant: bool, special: bool, align: bool) -> Any:
        if type(argument) not in ARRAYS:
            if isinstance(argument, tuple):
                argument = _wrapped(argument)
            return stock(backend, argument, constant, special, align)
        before = specialized(argument)
        if before is not None:
            found = before.get((constant, special, align))
            if found is None:
                found = before[constant, special, align] = stock(backend, Array(argument), constant, special, align)
            return found
        key = (argument.dtype, alignment(argument), constant, special, align)
        found = known.get(key)
        if found is None:
            found = known[key] = stock(backend, Array(argument), constant, special, align)
        return found

    specialize._takes_arrays = True  # type: ignore[attr-defined]
    jit.native_specialize_impl = specialize


def _wrapped(parts: tuple[Any, ...]) -> tuple[Any, ...]:
    """The same tuple, its arrays in words that Triton knows."""
    given = (_wrapped(part) if isinstance(part, tuple) else Array(part) if type(part) in ARRAYS else part for part in parts)
    kind: Any = type(parts)
    return tuple(given) if kind is tuple else kind(*given)


@functools.cache
def _out_of_scratch_error() -> type[Exception]:
    from triton.runtime.errors import OutOfResources

    class OutOfScratch(OutOfResources, KernelError):  # type: ignore[misc]
        """A kernel whose tiles do not fit into the scratch memory of a PE. Autotuning leaves such a configuration out."""

        def __init__(self, text: str) -> None:
            Exception.__init__(self, text)
            self.text = text
            self.required, self.limit, self.name = 0, 0, "scratch memory"

        def __reduce__(self) -> Any:
            return type(self), (self.text,)

        def __str__(self) -> str:
            return self.text

    return OutOfScratch
