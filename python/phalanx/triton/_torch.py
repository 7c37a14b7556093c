"""The behaviour of torch when its CPU stands for the device.

Tensors of kernels live on torch's CPU. Torch's own functions on them are what programs check kernels against, and two differ from any accelerator's:
sums of half precision are rounded to half precision on their way, and products are added up in an order of the processor's. While Triton's device is
a simulated one, such functions are computed as accelerators do: sums in single precision, and products by ascending ``k``.
"""
# mypy: disable-error-code="import-untyped,import-not-found,misc,unused-ignore"

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from .. import _core

__all__ = ["device"]

#: Products of more multiplications are left to torch: it has all cores.
_LARGEST_PRODUCT = 1 << 32


@functools.cache
def device() -> Any:
    """The device of torch that programs put their tensors on: the CPU, made ready to stand for an accelerator."""
    import torch
    from torch.overrides import TorchFunctionMode

    names = {torch.float16: "f16", torch.bfloat16: "bf16"}

    def is_half(tensor: Any) -> bool:
        return isinstance(tensor, torch.Tensor) and tensor.is_cpu and tensor.dtype in names

    def product(a: Any, b: Any, *rest: Any, **options: Any) -> Any:
        is_matrix = is_half(a) and is_half(b) and a.dtype == b.dtype and a.dim() == b.dim() == 2
        if not is_matrix or rest or options or a.shape[1] != b.shape[0]:
            return None
        if (a.requires_grad or b.requires_grad) and torch.is_grad_enabled():
            return None
        (m, k), n = a.shape, b.shape[1]
        if not 0 < m * n * k <= _LARGEST_PRODUCT:
            return None
        out = torch.empty((m, n), dtype=a.dtype)
        left, right, sums = (tensor.detach().contiguous().view(torch.uint16).numpy().reshape(-1) for tensor in (a, b, out))
        _core.product(left, right, sums, [m, n, k], names[a.dtype])
        return out

    def layer_norm(x: Any, shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Any:
        if not is_half(x):
            return None
        wide = [None if tensor is None else tensor.float() for tensor in (weight, bias)]
        return torch.nn.functional.layer_norm(x.float(), shape, wide[0], wide[1], eps).to(x.dtype)

    ours: dict[Any, Callable[..., Any]] = {torch.nn.functional.layer_norm: layer_norm}
    ours.update(dict.fromkeys((torch.matmul, torch.mm, torch.Tensor.matmul, torch.Tensor.mm, torch.Tensor.__matmul__), product))

    class AsAccelerators(TorchFunctionMode):
        """Computes some functions of half precision as accelerators do."""

        def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            mine = ours.get(function)
            made = None if mine is None else mine(*args, **(kwargs or {}))
            return function(*args, **(kwargs or {})) if made is None else made

    mode: Any = AsAccelerators()
    mode.__enter__()
    cpu: Any = torch.cpu
    if not hasattr(cpu, "set_stream"):
        # Every other device of torch has it.
        cpu.set_stream = _nothing
    return torch.device("cpu")


def _nothing(stream: Any) -> None:
    """There is one stream: launches run in order."""
