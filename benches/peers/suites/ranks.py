"""Programs of ranks: what the front end adds to kernels alone, and how long the large jobs take.

The peer of the first row is the same collective launched as kernels, in turns with ours; the other
rows are judged by our own value.
"""

from __future__ import annotations

import resource
import time
from pathlib import Path

from programs import ROOT, Progress, cargo_program, run_checked, run_json
from report import Row

SUMMARY = "programs of ranks against their kernels alone, and the large jobs"

KERNELS = "the same as kernels"
LIMIT = "its limit"


def run(quick: bool, progress: Progress) -> list[Row]:
    """Builds what is needed and measures."""
    progress.say("building ranks_bench and phalanx")
    bench = cargo_program("ranks_bench", ROOT, ["--locked", "-p", "phalanx-torch", "--example", "ranks_bench"])
    phalanx = cargo_program("phalanx", ROOT, ["--locked", "-p", "phalanx-cli"])
    rows = [front_row(bench, ranks, quick, progress) for ranks in (4, 64)]
    rows.append(preset_row(bench, progress))
    rows.append(bus_row(bench, progress))
    rows.extend(sweep_rows(phalanx, quick, progress))
    rows.extend(large_mlp_rows(phalanx, quick, progress))
    return rows


def front_row(bench: Path, ranks: int, quick: bool, progress: Progress) -> Row:
    """A ring all-reduce by ranks, and by its kernels."""
    progress.say(f"an all-reduce over {ranks} ranks, with and without the front end")
    rounds = (40 if ranks == 4 else 5) // (2 if quick else 1)
    values = run_json([bench, "front", str(ranks), str(rounds)]).values
    name = f"16 MiB ring all-reduce by ranks, P={ranks}"
    ours, peer = values["front_ms"], values["kernels_ms"]
    # At most 25 % more time is a ratio of at least 0.8.
    return Row(name, ours, peer, KERNELS, "ms", True, "ratio", must=0.8)


def preset_row(bench: Path, progress: Progress) -> Row:
    """The same on `quad-sip`, where memory, meshes and host links cost time too."""
    progress.say("an all-reduce on quad-sip")
    milliseconds = run_json([bench, "preset", "quad-sip", "20"]).values["ms"]
    return Row("16 MiB ring all-reduce on quad-sip, P=4", milliseconds, 100.0, LIMIT, "ms", True, "ours", must=100.0)


def bus_row(bench: Path, progress: Progress) -> Row:
    """Bus bandwidth of a large ring, as a share of the bound."""
    progress.say("a large ring")
    percent = run_json([bench, "bus"]).values["percent"]
    return Row("256 MiB ring, bus bandwidth of the bound", percent, 100.0, LIMIT, "%", False, "ours", must=97.0)


def sweep_rows(phalanx: Path, quick: bool, progress: Progress) -> list[Row]:
    """`ccl all_reduce` from 1 KiB to 64 MiB, timing only and with numbers."""
    most = "1M" if quick else "64M"
    rows = []
    for flag, must in (("timing only", 10.0), ("--check", 60.0)):
        progress.say(f"ccl all_reduce, {flag}")
        command = [phalanx, "ccl", "all_reduce", "-b", "1K", "-e", most, "-f", "2", "--json"]
        wall_s = wall([*command, "--check"] if flag == "--check" else command)
        rows.append(Row(f"ccl all_reduce 1K..{most}, {flag}", wall_s, must, LIMIT, "s", True, "ours", must=must))
    return rows


def large_mlp_rows(phalanx: Path, quick: bool, progress: Progress) -> list[Row]:
    """`tp-mlp` with 64 ranks, timing only: time, and the most memory of any program so far."""
    progress.say("tp-mlp with 64 ranks")
    hidden, tokens = ("1024", "512") if quick else ("4096", "2048")
    sizes = ["-p", f"hidden={hidden}", "-p", f"tokens={tokens}"]
    wall_s = wall([phalanx, "run", "tp-mlp", "--machine", "pod-64", *sizes, "--data", "off", "--json"])
    peak_mib = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    return [
        Row("tp-mlp, 64 ranks, wall", wall_s, 10.0, LIMIT, "s", True, "ours", must=10.0),
        Row("tp-mlp, 64 ranks, memory", peak_mib, 2048.0, LIMIT, "MiB", True, "ours", must=2048.0),
    ]


def wall(command: list[str | Path]) -> float:
    """Seconds from start to exit."""
    start = time.perf_counter()
    run_checked(command)
    return time.perf_counter() - start
