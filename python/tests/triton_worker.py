"""Runs cases of Triton kernels in a process of its own: ``python triton_worker.py CASES RESULTS``.

With ``TRITON_INTERPRET=1`` Triton's interpreter runs them, the oracle; with ``TRITON_DEFAULT_BACKEND=phalanx`` the plugin does.
``CASES`` is a pickle of a list of :class:`triton_cases.Case`; ``RESULTS`` becomes a pickle of a list of arrays, or of the text of an
exception, one for each case. Torch is not needed.
"""

from __future__ import annotations

import importlib.util
import os
import pickle
import sys
import traceback
import warnings
from pathlib import Path
from typing import Any

import numpy as np


class Storage:
    """Memory, as Triton's interpreter asks torch for it."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self.array = array

    def data_ptr(self) -> int:
        return int(self.array.ctypes.data)

    def cpu(self) -> Storage:
        return self

    def copy_(self, other: Storage) -> None:
        assert other is self


class HostTensor:
    """An array, as Triton's interpreter asks torch for tensors."""

    def __init__(self, array: np.ndarray[Any, Any] | None, dtype: str) -> None:
        self.array, self.dtype = array, dtype

    def data_ptr(self) -> int:
        assert self.array is not None
        return int(self.array.ctypes.data)

    def untyped_storage(self) -> Storage:
        assert self.array is not None
        found = _storages.setdefault(id(self.array), Storage(self.array))
        assert found.array is self.array
        return found

    def new_empty(self, *_: Any, **__: Any) -> HostTensor:
        return HostTensor(None, self.dtype)

    def set_(self, storage: Storage, *_: Any) -> None:
        self.array = storage.array

    def storage_offset(self) -> int:
        return 0

    def size(self) -> tuple[int, ...]:
        assert self.array is not None
        return self.array.shape

    def stride(self) -> tuple[int, ...]:
        return ()


_storages: dict[int, Storage] = {}


class Typed:
    """Bytes of a type that numpy does not have."""

    def __init__(self, array: np.ndarray[Any, Any], dtype: str) -> None:
        self.array, self.dtype = array, dtype

    @property
    def base(self) -> np.ndarray[Any, Any]:
        return self.array

    def data_ptr(self) -> int:
        return int(self.array.ctypes.data)


def load(path: str) -> Any:
    """The module of a file with kernels."""
    name = Path(path).stem
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
    return sys.modules[name]


def run(case: Any, interpreted: bool) -> Any:
    """The arrays of a case after its kernel ran."""
    kernel = getattr(load(case.file), case.kernel)
    arrays = [np.array(value) if isinstance(value, np.ndarray) else value for value in case.arguments]
    taken: list[Any] = []
    for value, kind in zip(arrays, case.types, strict=True):
        if not isinstance(value, np.ndarray):
            taken.append(value)
        elif interpreted:
            taken.append(HostTensor(value, kind or value.dtype.name))
        else:
            taken.append(value if kind is None else Typed(value, kind))
    kernel[case.grid](*taken, **case.constants)
    _storages.clear()
    return [value for value in arrays if isinstance(value, np.ndarray)]


def main(cases_path: str, results_path: str) -> None:
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    sys.path.insert(0, str(Path(__file__).parent))
    with open(cases_path, "rb") as file:
        cases = pickle.load(file)
    results: list[Any] = []
    for case in cases:
        try:
            results.append(run(case, os.environ.get("TRITON_INTERPRET") == "1"))
        except Exception:
            results.append(traceback.format_exc())
    with open(results_path, "wb") as file:
        pickle.dump(results, file)


if __name__ == "__main__":
    main(*sys.argv[1:])
