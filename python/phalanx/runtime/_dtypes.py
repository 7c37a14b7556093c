"""Element types of shared tensors."""

from __future__ import annotations

from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

__all__ = ["NUMPY", "name_of", "to_numpy"]

#: The numpy type of each element type, in the order of their numbers; numpy has no bf16, so it shows the bits.
NUMPY = {
    "u8": "uint8", "i32": "int32", "i64": "int64", "f16": "float16", "bf16": "uint16", "f32": "float32", "f64": "float64", "u32": "uint32",
}
_NAMES = {numpy: name for name, numpy in NUMPY.items() if name != "bf16"} | {"bfloat16": "bf16", "float": "f64", "int": "i64", "half": "f16"}


def name_of(dtype: Any) -> str:
    """The name of an element type that a name, a numpy type or a phalanx type means.

    >>> import numpy as np
    >>> name_of("f32"), name_of(np.float64), name_of(np.dtype("int32")), name_of("u1")
    ('f32', 'f64', 'i32', 'u8')
    """
    text = dtype.__name__ if isinstance(dtype, type) else str(getattr(dtype, "name", dtype))
    text = text.removeprefix("torch.")
    if text in NUMPY:
        return text
    if text not in _NAMES:
        import numpy as np

        with suppress(TypeError):
            text = np.dtype(text).name
    # A type that there is not is refused where it is used, with the list of those that there are.
    return _NAMES.get(text, text)


@cache
def to_numpy(name: str) -> np.dtype[Any]:
    """The numpy type of an element type."""
    import numpy as np

    return np.dtype(NUMPY[name])
