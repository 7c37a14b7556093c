"""The compiler half of the plugin: Triton's own passes up to its IR, and no further.

A kernel is compiled to the text of its IR (TTIR), with the lines of its source; Rust reads and runs it.
"""
# mypy: disable-error-code="import-untyped,import-not-found,misc,unused-ignore"

from __future__ import annotations

import functools
import hashlib
import re
from types import ModuleType
from typing import Any

from triton._C.libtriton import ir, passes
from triton.backends.compiler import BaseBackend, GPUTarget, Language

from .. import _core
from ..errors import ArgumentError

__all__ = ["PhalanxBackend", "PhalanxOptions"]

#: The options that a launch may give, with their defaults; what the front end of Triton reads is among them.
_DEFAULTS: dict[str, Any] = {
    "num_warps": 4,
    "num_ctas": 1,
    "num_stages": 3,
    "warp_size": 32,
    "debug": False,
    "sanitize_overflow": False,
    "enable_fp_fusion": False,
    "launch_cooperative_grid": False,
    "launch_pdl": False,
    "supported_fp8_dtypes": ("fp8e4nv", "fp8e5"),
    "deprecated_fp8_dot_operand_dtypes": (),
    "default_dot_input_precision": "tf32",
    "allowed_dot_input_precisions": ("tf32", "tf32x3", "ieee", "bf16x3", "bf16x6"),
    "max_num_imprecise_acc_default": 0,
    "extern_libs": None,
    "ir_override": None,
    "backend_name": "phalanx",
    "arch": "phalanx",
    "instrumentation_mode": "",
    "fpsan_homomorphic_casts": False,
}


class PhalanxOptions:
    """The options of one compilation: ours, and those of other vendors, which mean nothing here."""

    num_warps: int
    num_stages: int

    def __init__(self, given: dict[str, Any]) -> None:
        self.__dict__.update(_DEFAULTS)
        self.__dict__.update(given)

    def hash(self) -> str:
        """A text that differs if the compilation could."""
        key = "_".join(f"{name}-{value}" for name, value in sorted(self.__dict__.items()))
        return hashlib.sha256(key.encode()).hexdigest()


@functools.cache
def _of_other_vendors() -> frozenset[str]:
    """The options that kernels for other machines have."""
    known = {"waves_per_eu", "matrix_instr_nonkdim", "kpack", "schedule_hint", "maxnreg", "minRegAutoWS", "maxRegAutoWS"}
    try:
        from triton.backends.amd.compiler import HIPOptions
        from triton.backends.nvidia.compiler import CUDAOptions
    except ImportError:
        return frozenset(known)
    return frozenset(known | set(CUDAOptions.__dataclass_fields__) | set(HIPOptions.__dataclass_fields__))


class PhalanxBackend(BaseBackend):
    """Stops at Triton's IR."""

    binary_ext = "phalanx"

    @staticmethod
    def supports_target(target: GPUTarget) -> bool:
        """True for the target of our driver."""
        return bool(target.backend == "phalanx")

    def hash(self) -> str:
        """Compiled kernels are kept as long as this is the same."""
        return f"phalanx-{_core.__version__}-with-texts-{self.target.arch}"

    def parse_options(self, options: dict[str, Any]) -> PhalanxOptions:
        """The options of a compilation; a name that nobody knows is left to Triton's own check."""
        given = {name: value for name, value in options.items() if name in _DEFAULTS and value is not None}
        others = [name for name in options if name not in _DEFAULTS]
        if others:
            given.update({name: options[name] for name in others if name in _of_other_vendors()})
        made = PhalanxOptions(given)
        if made.num_warps < 1 or made.num_warps & (made.num_warps - 1):
            raise ArgumentError(f"num_warps is {made.num_warps}: a power of two is allowed")
        if made.num_stages < 0:
            raise ArgumentError(f"num_stages is {made.num_stages}: 0 or more is allowed")
        return made

    def pack_metadata(self, metadata: Any) -> tuple[int, int]:
        """The options that the launcher needs."""
        return metadata.num_warps, metadata.num_stages

    def get_codegen_implementation(self, options: PhalanxOptions) -> dict[str, Any]:
        """A product may be as small as one element."""
        return {"min_dot_size": lambda left, right: (1, 1, 1)}

    def get_module_map(self) -> dict[str, ModuleType]:
        """The functions of ``libdevice`` by the names that the reader knows."""
        from triton.language.extra.cuda import libdevice

        return {"triton.language.extra.libdevice": libdevice}

    def load_dialects(self, context: Any) -> None:
        """No dialect of our own."""

    @staticmethod
    def make_ttir(module: Any, metadata: dict[str, Any], options: PhalanxOptions) -> Any:
        """Triton's passes on its IR, as its own backends run them; descriptors stay."""
        manager = ir.pass_manager(module.context)
        manager.enable_debug()
        passes.common.add_inliner(manager)
        passes.common.add_canonicalizer(manager)
        passes.ttir.add_combine(manager)
        passes.ttir.add_reorder_broadcast(manager)
        passes.common.add_cse(manager)
        passes.ttir.add_triton_licm(manager)
        passes.common.add_symbol_dce(manager)
        passes.ttir.add_loop_unroll(manager)
        manager.run(module, "make_ttir")
        return module

    @staticmethod
    def make_binary(module: Any, metadata: dict[str, Any], options: PhalanxOptions) -> bytes:
        """The text that Rust reads, with the texts of the kernel's lines. Reading it here finds what cannot run before it is launched."""
        text = str(module)
        kernel = _core.TritonKernel(text)
        metadata["name"] = kernel.name
        metadata["shared"] = max(16, _largest_tile(text))
        return (text + kernel.source_comments).encode()

    def add_stages(self, stages: dict[str, Any], options: PhalanxOptions, language: Language) -> None:
        """TTIR, then its text."""
        if language != Language.TRITON:
            raise ArgumentError("kernels of Gluon name the registers of a GPU: only kernels of Triton can run here")
        stages["ttir"] = lambda module, metadata: self.make_ttir(module, metadata, options)
        stages["phalanx"] = lambda module, metadata: self.make_binary(module, metadata, options)


_BITS = {"i1": 8, "i8": 8, "i16": 16, "i32": 32, "i64": 64, "f8E4M3FN": 8, "f8E5M2": 8, "f16": 16, "bf16": 16, "f32": 32, "f64": 64}
_LOADED = re.compile(r"(?:tt\.load|tt\.descriptor_load)\b.*?tensor<((?:\d+x)+)(?:!tt\.ptr<)?(\w+)>")


def _largest_tile(text: str) -> int:
    """The bytes of the largest tile that a kernel loads: what Triton's ``metadata.shared`` is asked for."""
    largest = 0
    for shape, kind in _LOADED.findall(text):
        size = _BITS.get(kind, 32) // 8
        for dim in shape.split("x")[:-1]:
            size *= int(dim)
        largest = max(largest, size)
    return largest
