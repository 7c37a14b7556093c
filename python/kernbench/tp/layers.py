"""Parallel layers. Weights are ``[out, in]``: ``y = x W^T + b``."""

from __future__ import annotations

from typing import Any

import numpy as np
from phalanx.errors import ArgumentError

from . import parallel_state
from .primitives import _gemm_kernel, add_bias, divide, gather_last_dim, gemm, reduce, split_last_dim

__all__ = ["ColumnParallelLinear", "RowParallelLinear", "_gemm_kernel"]


class Weight(tuple):  # type: ignore[type-arg]
    """The argument of an ``init_method``: the whole weight, to be filled in place as torch has it. It is also the shape of the array to return."""

    array: np.ndarray

    def __new__(cls, shape: tuple[int, ...]) -> Weight:
        made = super().__new__(cls, shape)
        made.array = np.zeros(shape, np.float32)
        return made

    @property
    def shape(self) -> tuple[int, ...]:
        """The dimensions: rows of outputs, columns of inputs."""
        return tuple(self)

    def size(self, dim: int | None = None) -> Any:
        """The shape, or one dimension of it."""
        return self.shape if dim is None else self[dim]

    @property
    def data(self) -> np.ndarray:
        """The elements, which can be set."""
        return self.array

    def numpy(self) -> np.ndarray:
        """The elements, which can be set."""
        return self.array

    def __setitem__(self, index: Any, value: Any) -> None:
        self.array[index] = value

    def copy_(self, source: Any) -> Weight:
        """Takes the elements of an array."""
        self.array[...] = np.asarray(source)
        return self

    def fill_(self, number: float) -> Weight:
        """Sets every element to one number."""
        self.array.fill(number)
        return self

    def zero_(self) -> Weight:
        """Sets every element to 0."""
        return self.fill_(0.0)

    def normal_(self, mean: float = 0.0, std: float = 1.0) -> Weight:
        """Draws the elements, the same on every rank."""
        return self.copy_(np.random.default_rng([*self, 1234]).normal(mean, std, self.shape))

    def uniform_(self, low: float = 0.0, high: float = 1.0) -> Weight:
        """Draws the elements, the same on every rank."""
        return self.copy_(np.random.default_rng([*self, 1234]).uniform(low, high, self.shape))


class _Parallel:
    """The common part of both layers: their group, and the making of their weights."""

    weight: Any
    bias: Any

    def __init__(self, ctx: Any, group: Any, dtype: str) -> None:
        from ..runtime_api.context import current_context

        self._ctx = current_context() if ctx is None else ctx
        self._group = list(parallel_state.get_tensor_model_parallel_group() if group is None else group)
        self._size = len(self._group)
        self._place = self._group.index(self._ctx.distributed.get_rank())
        self._dtype = dtype

    def _master(self, init: Any, shape: tuple[int, int]) -> np.ndarray:
        """The whole weight, the same on every rank: an array, what a function fills in or returns, or drawn from a generator of the layer's shape."""
        if init is None:
            return Weight(shape).normal_(0.0, 0.02).array
        if callable(init):
            weight = Weight(shape)
            made = init(weight)
            init = weight.array if made is None or made is weight else made
        array = np.asarray(init, np.float32)
        if array.shape != shape:
            raise ArgumentError(f"initial weights of shape {array.shape} for a matrix of shape {shape}")
        return array

    def _tensor(self, array: np.ndarray, name: str) -> Any:
        return self._ctx.zeros(array.shape, dtype=self._dtype, name=name).copy_(array)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.forward(*args, **kwargs)

    def forward(self, x: Any) -> Any:
        """The output, and the bias if ``skip_bias_add``."""
        raise NotImplementedError


class ColumnParallelLinear(_Parallel):
    """The rows of the weight, so the columns of the output, are spread over ranks."""

    def __init__(
        self, input_size: int, output_size: int, *, config: Any = None, init_method: Any = None, bias: bool = True, gather_output: bool = False,
        skip_bias_add: bool = False, dtype: str = "f16", ctx: Any = None, tp_group: Any = None, **_: Any,
    ) -> None:
        super().__init__(ctx, tp_group, dtype)
        self.input_size, self.output_size = input_size, output_size
        self.output_size_per_partition = divide(output_size, self._size)
        self.gather_output, self.skip_bias_add = gather_output, skip_bias_add
        first = self._place * self.output_size_per_partition
        master = self._master(init_method, (output_size, input_size))
        self.weight = self._tensor(master[first : first + self.output_size_per_partition], "column.weight")
        self.bias = self._tensor(np.zeros(self.output_size_per_partition), "column.bias") if bias else None

    def forward(self, x: Any, weight: Any = None, runtime_gather_output: bool | None = None) -> tuple[Any, Any]:
        """The output, and the bias if ``skip_bias_add``."""
        used = self.weight if weight is None else weight
        wanted = (self.output_size_per_partition, self.input_size)
        if used.shape != wanted:
            raise RuntimeError(f"supplied weight's shape is {used.shape}, not {wanted} as expected")
        y = gemm(x, used, self.output_size_per_partition)
        if self.bias is not None and not self.skip_bias_add:
            add_bias(y, self.bias)
        if self.gather_output if runtime_gather_output is None else runtime_gather_output:
            y = gather_last_dim(y, self._group)
        return y, self.bias if self.skip_bias_add else None


class RowParallelLinear(_Parallel):
    """The columns of the weight, so those of the input, are spread over ranks; the bias is added once, after the sum."""

    def __init__(
        self, input_size: int, output_size: int, *, config: Any = None, init_method: Any = None, bias: bool = True, input_is_parallel: bool = True,
        skip_bias_add: bool = False, dtype: str = "f16", ctx: Any = None, tp_group: Any = None, **_: Any,
    ) -> None:
        super().__init__(ctx, tp_group, dtype)
        self.input_size, self.output_size = input_size, output_size
        self.input_size_per_partition = divide(input_size, self._size)
        self.input_is_parallel, self.skip_bias_add = input_is_parallel, skip_bias_add
        first = self._place * self.input_size_per_partition
        master = self._master(init_method, (output_size, input_size))
        self.weight = self._tensor(master[:, first : first + self.input_size_per_partition], "row.weight")
        self.bias = self._tensor(np.zeros(output_size), "row.bias") if bias else None

    def forward(self, x: Any) -> tuple[Any, Any]:
        """The output, and the bias if ``skip_bias_add``."""
        part = x if self.input_is_parallel else split_last_dim(x, self._group)
        y = reduce(gemm(part, self.weight, self.output_size), self._group)
        if self.bias is not None and not self.skip_bias_add:
            add_bias(y, self.bias)
        return y, self.bias if self.skip_bias_add else None
