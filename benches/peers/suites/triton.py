"""Triton kernels on the plugin beside Triton's own interpreter, which computes the same numbers and no times.

Every figure is CPU time of one process, of a launch after the first; both sides check their results.
"""

from __future__ import annotations

import os
from pathlib import Path

from interpreter import python_with
from programs import BUILD_LIMIT_S, HERE, ROOT, Progress, cargo_program, run_checked, run_json
from report import Row

SUMMARY = "Triton kernels, against Triton's interpreter"

PEER = "the interpreter"
LIMIT = "its limit"
#: The ratios that a kernel must and should reach, by the first word of its name.
BOUNDS = {"vector": (20.0, 100.0), "softmax": (50.0, 100.0), "matmul": (20.0, 100.0), "attention": (20.0, 100.0)}


def run(quick: bool, progress: Progress) -> list[Row]:
    """Installs the package and Triton, and measures."""
    python = python_with(HERE / "requirements.txt")
    progress.say("building and installing the package")
    run_checked([python, "-m", "pip", "install", "--quiet", "triton==3.9.0", str(ROOT)], limit_s=BUILD_LIMIT_S)
    progress.say("kernels on Triton's interpreter")
    peer = measured(python, "interpreter", "TRITON_INTERPRET=1", quick)
    progress.say("kernels on Phalanx")
    ours = measured(python, "phalanx", "TRITON_DEFAULT_BACKEND=phalanx", quick)
    rows = []
    for name, seconds in peer.items():
        must, goal = BOUNDS[name.split()[0]]
        rows.append(Row(name, ours[name] * 1e3, seconds * 1e3, PEER, "ms", True, "ratio", must=must, goal=goal))
    rows.append(Row("a launch after the first", ours["launch_us"], 30.0, LIMIT, "us", True, "ours", must=30.0, goal=12.0))
    rows.append(Row("autotune, matmul 1024^3, 8 configs, no data", ours["autotune_s"], 5.0, LIMIT, "s", True, "ours", must=5.0, goal=1.0))
    return rows + overhead_rows(progress)


def measured(python: Path, side: str, variable: str, quick: bool) -> dict[str, float]:
    """The output of one side, in an environment of its own."""
    kept = [f"-u{name}" for name in os.environ if name.startswith(("TRITON_", "PHALANX_TRITON"))]
    command = ["env", *kept, variable, str(python), str(HERE / "triton_costs.py"), side, *(["--quick"] if quick else [])]
    return dict(run_json(command).values)


def overhead_rows(progress: Progress) -> list[Row]:
    """The product as TTIR beside the same kernel written in Rust."""
    progress.say("the product as a kernel in Rust")
    values = run_json([cargo_program("triton_bench", ROOT, ["-p", "phalanx-triton", "--example", "triton_bench"])]).values
    return [
        Row("matmul, executor over Rust: simulated time", values["simulated_ratio"], 1.02, LIMIT, "", True, "ours", must=1.02, goal=1.0),
        Row("matmul, executor over Rust: CPU time", values["cpu_ratio"], 1.5, LIMIT, "", True, "ours", must=1.5, goal=1.1),
    ]
