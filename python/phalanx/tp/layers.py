"""Parallel layers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .. import _core
from .._context import current_rank
from .._dtypes import f16, resolve
from .._tensor import Tensor
from ..distributed import ProcessGroup
from ..errors import ArgumentError

__all__ = [
    "MLP", "ColumnParallelLinear", "Config", "RowParallelLinear", "TransformerBlock", "VocabParallelEmbedding", "normal", "uniform", "zeros",
]

#: Initial weights: a distribution, the whole matrix as an array, or a function of its shape that returns the array.
Init = Any


def normal(deviation: float = 0.02) -> tuple[str, float]:
    """Random numbers with mean 0."""
    return "normal", deviation


def uniform(bound: float) -> tuple[str, float]:
    """Random numbers between ``-bound`` and ``bound``."""
    return "uniform", bound


def zeros() -> tuple[str, float]:
    """Zeros."""
    return "zeros", 0.0


class Config:
    """Settings that all parallel layers share.

    ``cubes`` and ``pes`` choose the PEs to compute on (all, if not given); ``group`` is the ranks that share the layer (the tensor
    parallel group, if not given); ``seed`` is that of the layer's weights (the rank's generator, if not given).
    """

    def __init__(
        self,
        dtype: Any = f16,
        sequence_parallel: bool = False,
        cubes: int | None = None,
        pes: int | None = None,
        group: ProcessGroup | None = None,
        seed: int | None = None,
    ) -> None:
        self.dtype = resolve(dtype)
        self.sequence_parallel = sequence_parallel
        self.cubes, self.pes = cubes, pes
        self.group, self.seed = group, seed

    def _options(self, rank: _core.Rank) -> dict[str, Any]:
        """The settings as the Rust side takes them."""
        compute = None
        if self.cubes is not None or self.pes is not None:
            cubes, pes = rank.sizes()
            compute = (self.cubes or cubes, self.pes or pes)
        group = None if self.group is None else self.group._core
        return {
            "dtype": self.dtype.name, "sequence_parallel": self.sequence_parallel, "compute": compute, "group": group, "seed": self.seed,
        }


def _init(init: Init, shape: tuple[int, int]) -> Any:
    """Initial weights as the Rust side takes them."""
    if init is None:
        return normal()
    if isinstance(init, tuple):
        return init
    import numpy as np

    array = np.ascontiguousarray(init(shape) if callable(init) else init, np.float32)
    if array.shape != shape:
        raise ArgumentError(f"initial weights of shape {array.shape} for a matrix of shape {shape}")
    return array.reshape(-1)


class _Layer:
    _core: _core.Layer

    @property
    def weight(self) -> Tensor | None:
        """This rank's part of the weight."""
        weight = self._core.weight()
        return None if weight is None else Tensor(weight)

    @property
    def bias(self) -> Tensor | None:
        """This rank's part of the bias."""
        bias = self._core.bias()
        return None if bias is None else Tensor(bias)


class ColumnParallelLinear(_Layer):
    """``y = x W^T + b``; the rows of ``W``, so the columns of ``y``, are spread over ranks."""

    def __init__(
        self,
        input_size: int,
        output_size: int,
        *,
        config: Config | None = None,
        init_method: Init = None,
        bias: bool = True,
        gather_output: bool = False,
        stride: int = 1,
        skip_bias_add: bool = False,
        skip_weight_param_allocation: bool = False,
    ) -> None:
        rank = current_rank()
        self._core = rank.column_linear(input_size, output_size, {
            "bias": bias,
            "gather_output": gather_output,
            "skip_bias_add": skip_bias_add,
            "skip_weight_param_allocation": skip_weight_param_allocation,
            "stride": stride,
            "init": _init(init_method, (output_size, input_size)),
            **(config or Config())._options(rank),
        })

    def __call__(
        self, x: Tensor, weight: Tensor | None = None, runtime_gather_output: bool | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """The output, and the bias if ``skip_bias_add``."""
        given = None if weight is None else weight._core
        y, bias = self._core.forward(x._core, given, runtime_gather_output)
        return Tensor(y), None if bias is None else Tensor(bias)

    forward = __call__


class RowParallelLinear(_Layer):
    """``y = x W^T + b``; the columns of ``W``, so those of ``x``, are spread over ranks."""

    def __init__(
        self,
        input_size: int,
        output_size: int,
        *,
        config: Config | None = None,
        init_method: Init = None,
        bias: bool = True,
        input_is_parallel: bool = True,
        skip_bias_add: bool = False,
        stride: int = 1,
    ) -> None:
        rank = current_rank()
        self._core = rank.row_linear(input_size, output_size, {
            "bias": bias,
            "input_is_parallel": input_is_parallel,
            "skip_bias_add": skip_bias_add,
            "stride": stride,
            "init": _init(init_method, (output_size, input_size)),
            **(config or Config())._options(rank),
        })

    def __call__(self, x: Tensor) -> tuple[Tensor, Tensor | None]:
        """The output, and the bias if ``skip_bias_add``."""
        y, bias = self._core.forward(x._core)
        return Tensor(y), None if bias is None else Tensor(bias)

    forward = __call__


class _Whole(_Layer):
    def __call__(self, x: Tensor) -> Tensor:
        """The output."""
        return Tensor(self._core.forward(x._core)[0])

    forward = __call__


def _inits(init_method: Init | Sequence[Init], shapes: Sequence[tuple[int, int]]) -> list[Any]:
    given: Callable[[int], Any] = (lambda index: init_method[index]) if isinstance(init_method, list) else (lambda _: init_method)
    return [_init(given(index), shape) for index, shape in enumerate(shapes)]


class MLP(_Whole):
    """Two linear layers around an activation (``"gelu"``, ``"relu"`` or ``"none"``). A list gives each its initial weights."""

    def __init__(
        self,
        hidden_size: int,
        ffn_hidden_size: int,
        *,
        activation: str = "gelu",
        bias: bool = True,
        init_method: Init | Sequence[Init] = None,
        config: Config | None = None,
    ) -> None:
        rank = current_rank()
        shapes = [(ffn_hidden_size, hidden_size), (hidden_size, ffn_hidden_size)]
        options = {"activation": activation, "bias": bias, "init": _inits(init_method, shapes)}
        self._core = rank.mlp(hidden_size, ffn_hidden_size, {**options, **(config or Config())._options(rank)})


class TransformerBlock(_Whole):
    """Attention and MLP, each behind a layer norm, with residuals; ``x`` is ``[sequence, batch, hidden]``."""

    def __init__(
        self,
        hidden_size: int,
        num_attention_heads: int,
        ffn_hidden_size: int | None = None,
        *,
        activation: str = "gelu",
        causal: bool = False,
        bias: bool = True,
        epsilon: float = 1e-5,
        init_method: Init | Sequence[Init] = None,
        config: Config | None = None,
    ) -> None:
        rank = current_rank()
        ffn = 4 * hidden_size if ffn_hidden_size is None else ffn_hidden_size
        h = hidden_size
        shapes = [(3 * h, h), (h, h), (ffn, h), (h, ffn)]
        self._core = rank.transformer_block(h, num_attention_heads, ffn, {
            "activation": activation,
            "causal": causal,
            "bias": bias,
            "epsilon": epsilon,
            "init": _inits(init_method, shapes),
            **(config or Config())._options(rank),
        })


class VocabParallelEmbedding(_Whole):
    """A table of vectors, its rows spread over ranks; the input is an i32 tensor of numbers."""

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        *,
        init_method: Init = None,
        reduce_scatter_embeddings: bool = False,
        config: Config | None = None,
    ) -> None:
        rank = current_rank()
        self._core = rank.embedding(num_embeddings, embedding_dim, {
            "reduce_scatter_embeddings": reduce_scatter_embeddings,
            "init": _init(init_method, (num_embeddings, embedding_dim)),
            **(config or Config())._options(rank),
        })
