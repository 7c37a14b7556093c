"""Element types."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .errors import DTypeError

if TYPE_CHECKING:
    import numpy as np

__all__ = [
    "DType", "bf16", "bfloat16", "bool_", "f16", "f32", "f64", "f8e4m3", "f8e5m2", "float16", "float32", "float64", "float8_e4m3fn", "float8_e5m2",
    "i16", "i32", "i64", "i8", "int16", "int32", "int64", "int8", "resolve", "u16", "u32", "u64", "u8", "uint16", "uint32", "uint64", "uint8",
]


class DType:
    """An element type, such as ``f32`` or ``i64``."""

    __slots__ = ("itemsize", "name")

    def __init__(self, name: str, itemsize: int) -> None:
        self.name = name
        self.itemsize = itemsize

    def __repr__(self) -> str:
        return f"phalanx.{self.name}"

    def __str__(self) -> str:
        return self.name

    @property
    def is_float(self) -> bool:
        """True for floating-point numbers."""
        return self.name[0] == "f" or self.name == "bf16"

    def to_numpy(self) -> np.dtype[Any]:
        """The type of the arrays that ``Tensor.numpy`` returns: bf16 and 8-bit floats become ``float32``, which holds them exactly."""
        import numpy as np

        return np.dtype(_NUMPY[self.name])


f32 = float32 = DType("f32", 4)
f16 = float16 = DType("f16", 2)
bf16 = bfloat16 = DType("bf16", 2)
i32 = int32 = DType("i32", 4)
f64 = float64 = DType("f64", 8)
i64 = int64 = DType("i64", 8)
i16 = int16 = DType("i16", 2)
i8 = int8 = DType("i8", 1)
u64 = uint64 = DType("u64", 8)
u32 = uint32 = DType("u32", 4)
u16 = uint16 = DType("u16", 2)
u8 = uint8 = DType("u8", 1)
bool_ = DType("bool", 1)
f8e4m3 = float8_e4m3fn = DType("f8e4m3", 1)
f8e5m2 = float8_e5m2 = DType("f8e5m2", 1)

_NUMPY = {
    "f32": "float32", "f16": "float16", "bf16": "float32", "i32": "int32", "f64": "float64", "i64": "int64", "i16": "int16", "i8": "int8",
    "u64": "uint64", "u32": "uint32", "u16": "uint16", "u8": "uint8", "bool": "bool", "f8e4m3": "float32", "f8e5m2": "float32",
}
_NAMES = {
    "f32": f32, "float32": f32, "float": f32, "fp32": f32,
    "f16": f16, "float16": f16, "half": f16, "fp16": f16,
    "bf16": bf16, "bfloat16": bf16,
    "i32": i32, "int32": i32, "int": i32,
    "f64": f64, "float64": f64, "double": f64, "fp64": f64,
    "i64": i64, "int64": i64, "long": i64,
    "i16": i16, "int16": i16, "short": i16,
    "i8": i8, "int8": i8,
    "u64": u64, "uint64": u64, "u32": u32, "uint32": u32, "u16": u16, "uint16": u16, "u8": u8, "uint8": u8,
    "bool": bool_, "bool_": bool_, "int1": bool_,
    "f8e4m3": f8e4m3, "float8_e4m3fn": f8e4m3, "float8e4nv": f8e4m3,
    "f8e5m2": f8e5m2, "float8_e5m2": f8e5m2, "float8e5": f8e5m2,
}


def resolve(dtype: Any) -> DType:
    """The element type that a ``DType``, a name, a numpy type or a torch type means.

    >>> resolve("float16"), resolve("bf16")
    (phalanx.f16, phalanx.bf16)
    """
    if type(dtype) is DType:
        return dtype
    if isinstance(dtype, type):
        text = dtype.__name__
    else:
        text = str(getattr(dtype, "name", dtype))
    found = _NAMES.get(text.removeprefix("torch."))
    if found is None:
        names = ", ".join(f"`{name}`" for name in _NUMPY)
        raise DTypeError(f"no element type `{text}`, expected one of {names}")
    return found
