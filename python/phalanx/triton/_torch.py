"""The behaviour of torch when its CPU stands for the device.

Tensors of kernels live on torch's CPU. Torch's own functions on them are what programs check kernels against, and two differ from any accelerator's:
sums of half precision are rounded to half precision on their way, and products are added up in an order of the processor's. While Triton's device is
a simulated one, such functions are computed as accelerators do: sums in single precision, and products of two matrices by ascending ``k``. A
benchmark repeats its function: what torch computes of the same large tensors, unchanged, is computed once in it.
"""
# mypy: disable-error-code="import-untyped,import-not-found,misc,unused-ignore"

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from .. import _core
from ._device import current
from ._results import Results, operand, repeated

__all__ = ["device"]

#: A function of a tensor of so many elements takes longer than to find out that it was computed.
_LARGE = 1 << 16
#: Functions that only look at what a tensor is.
_LOOKS = frozenset(("__get__", "data_ptr", "dim", "element_size", "is_contiguous", "numel", "size", "storage_offset", "stride", "untyped_storage"))


@functools.cache
def device() -> Any:
    """The device of torch that programs put their tensors on: the CPU, made ready to stand for an accelerator."""
    import torch
    from torch.overrides import TorchFunctionMode

    names = {torch.float16: "f16", torch.bfloat16: "bf16"}

    def is_half(tensor: Any) -> bool:
        return isinstance(tensor, torch.Tensor) and tensor.is_cpu and tensor.dtype in names

    def product(function: Any, a: Any, b: Any, *rest: Any, **options: Any) -> Any:
        if not is_half(a) or not is_half(b) or a.dtype != b.dtype or rest or options:
            return None
        is_plain = not ((a.requires_grad or b.requires_grad) and torch.is_grad_enabled())
        if is_plain and a.dim() == b.dim() == 2 and a.shape[1] == b.shape[0] and a.numel() and b.numel():
            return product_of_matrices(a, b)
        # Torch's own product of half precision is also slower by far.
        return function(a.float(), b.float()).to(a.dtype)

    def product_of_matrices(a: Any, b: Any) -> Any:
        (m, k), n = a.shape, b.shape[1]
        results = current().results()
        key = None if results is None else ("product", operand(a), operand(b))
        known = None if results is None else results.find(key)
        if known is not None:
            return known
        out = torch.empty((m, n), dtype=a.dtype)
        left, right, sums = (tensor.detach().contiguous().view(torch.uint16).numpy().reshape(-1) for tensor in (a, b, out.detach()))
        _core.product(left, right, sums, [m, n, k], names[a.dtype])
        if results is not None:
            # A copy: memory that an array of numpy has shared is not kept.
            results.keep(key, (a, b), out.clone())
        return out

    def layer_norm(function: Any, x: Any, shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Any:
        if not is_half(x):
            return None
        wide = [None if tensor is None else tensor.float() for tensor in (weight, bias)]
        return function(x.float(), shape, wide[0], wide[1], eps).to(x.dtype)

    ours: dict[Any, Callable[..., Any]] = {torch.nn.functional.layer_norm: layer_norm}
    ours.update(dict.fromkeys((torch.matmul, torch.mm, torch.Tensor.matmul, torch.Tensor.mm, torch.Tensor.__matmul__), product))

    once: Any = repeated(lambda: current().results() or Results())

    class AsAccelerators(TorchFunctionMode):
        """Computes some functions of half precision as accelerators do."""

        def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            mine = ours.get(function)
            made = None if mine is None else mine(function, *args, **(kwargs or {}))
            if made is not None:
                return made
            if function.__name__ not in _LOOKS and (is_large(args) or function is torch.Tensor.backward) and current().results() is not None:
                with once:
                    return function(*args, **(kwargs or {}))
            return function(*args, **(kwargs or {}))

    def is_large(operands: Any) -> bool:
        return any(isinstance(each, torch.Tensor) and each.numel() >= _LARGE for each in operands)

    mode: Any = AsAccelerators()
    mode.__enter__()
    cpu: Any = torch.cpu
    if not hasattr(cpu, "set_stream"):
        # Every other device of torch has it.
        cpu.set_stream = _nothing
    return torch.device("cpu")


def _nothing(stream: Any) -> None:
    """There is one stream: launches run in order."""
