"""The simulator against SimPy, nexosim and numpy: the same ring, the same math.

Ours and the peers take turns, so that a slow minute of the machine hits both; every value is a
median. Each program's simulated time is compared with the known one before it counts.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from interpreter import python_with
from programs import HERE, ROOT, BenchError, Outcome, Progress, cargo_program, field, given_program, run_json
from report import Row

SUMMARY = "the simulator against SimPy, nexosim and numpy"
BENCH_VARIABLE = "PHALANX_SIM_BENCH"

SIMPY = "SimPy 4.1.2"
NEXOSIM = "nexosim 1.0.0, 1 thread"
NUMPY = "numpy 2.4.6"
ASTRA = "ASTRA-sim, quoted, not run"
ASTRA_WALL_MS = 4840.0
ASTRA_RSS_MB = 359.0

LAST_EVENT_NS = {4: 439_680, 16: 549_504, 64: 576_960, 256: 583_824, 1024: 1_318_124, 4096: 4_390_340}
CREDIT_NS = 500  # the last event is a credit that comes home; the data was ready this much earlier
RANKS = (4, 16, 64, 256)
REPEATS = {4: 100, 16: 25, 64: 9, 256: 3, 1024: 1, 4096: 1}


@dataclass(frozen=True)
class Plan:
    """The amount of work of a suite."""

    rounds: int
    simpy_ranks: int  # for the head-to-head rows
    simpy_most_ranks: int  # for the hop rates
    large_ranks: int  # for the time of an event on a large machine
    note: str


FULL = Plan(rounds=3, simpy_ranks=64, simpy_most_ranks=256, large_ranks=4096, note="")
QUICK = Plan(rounds=2, simpy_ranks=16, simpy_most_ranks=16, large_ranks=1024, note=" (quick)")


class Programs(Protocol):
    """The programs of the suite; each call is one process."""

    def ours(self, *arguments: str) -> Outcome: ...
    def simpy(self, *arguments: str) -> Outcome: ...
    def nexosim(self, *arguments: str) -> Outcome: ...
    def numpy(self) -> Outcome: ...


class BuiltPrograms:
    """The real programs. Ours comes first: without it there is nothing to compare."""

    def __init__(self, progress: Progress) -> None:
        progress.say("building sim_bench")
        self.bench = given_program(BENCH_VARIABLE) or build_bench()
        progress.say("building nexosim-ring")
        self.ring = cargo_program("nexosim-ring", HERE / "nexosim-ring", ["--locked"])
        progress.say("preparing the Python environment")
        self.python = python_with(HERE / "requirements.txt")

    def ours(self, *arguments: str) -> Outcome:
        return run_json([self.bench, *arguments])

    def simpy(self, *arguments: str) -> Outcome:
        return run_json([self.python, HERE / "simpy_ring.py", *arguments])

    def nexosim(self, *arguments: str) -> Outcome:
        return run_json([self.ring, *arguments])

    def numpy(self) -> Outcome:
        return run_json([self.python, HERE / "numpy_math.py"])


def build_bench() -> Path:
    """Builds our side of the comparison."""
    try:
        return cargo_program("sim_bench", ROOT, ["-p", "phalanx-workloads", "--example", "sim_bench"])
    except BenchError as error:
        raise BenchError(f"{error}\nhint: `{BENCH_VARIABLE}` can name a `sim_bench` that is built already") from error


def run(quick: bool, progress: Progress) -> list[Row]:
    """Builds what is needed and measures every row."""
    return measure(BuiltPrograms(progress), QUICK if quick else FULL, progress)


def measure(programs: Programs, plan: Plan, progress: Progress) -> list[Row]:
    """Every row of the suite, in the order it is printed."""
    bench = Bench(programs, plan, progress)
    return [
        *timing_rows(bench),
        *hop_rate_rows(bench),
        *large_ring_rows(bench),
        event_time_row(bench),
        *whole_machine_rows(bench),
        data_row(bench),
        *math_rows(bench),
        *path_rows(bench),
        trace_row(bench),
        *build_rows(bench),
        gemm_row(bench),
    ]


class Bench:
    """Runs programs in turns and checks what they simulated."""

    def __init__(self, programs: Programs, plan: Plan, progress: Progress) -> None:
        self.programs = programs
        self.plan = plan
        self.progress = progress
        self.simpy_rates: dict[int, float] = {}

    def in_turns(self, name: str, *work: Callable[[], Outcome], rounds: int | None = None) -> list[list[Outcome]]:
        """Calls each of `work` once a round; returns the outcomes of each."""
        outcomes: list[list[Outcome]] = [[] for _ in work]
        rounds = rounds or self.plan.rounds
        for number in range(rounds):
            self.progress.say(f"{name}, round {number + 1} of {rounds}")
            for one, collected in zip(work, outcomes, strict=True):
                collected.append(one())
        return outcomes

    def ours_ring(self, ranks: int, *, data: bool = False, path: bool = False, trace: Path | None = None, repeat: int = 0) -> Outcome:
        """Our ring; its kernels end when the data is ready, one credit before the last event."""
        arguments = ["ring", "--ranks", str(ranks), "--data", "on" if data else "off"]
        arguments += ["--repeat", str(repeat or REPEATS[ranks])]
        arguments += ["--path", "on"] if path else []
        arguments += ["--trace", str(trace)] if trace else []
        outcome = self.programs.ours(*arguments)
        expect("sim_bench", ranks, "simulated_ps", (LAST_EVENT_NS[ranks] - CREDIT_NS) * 1000, outcome)
        if data and field(outcome, "bit_exact") is not True:
            raise BenchError(f"sim_bench, {ranks} ranks: the sum is not bit-exact")
        return outcome

    def simpy_ring(self, ranks: int, *, data: bool = False) -> Outcome:
        """SimPy's ring."""
        outcome = self.programs.simpy(str(ranks), *(["--data"] if data else []))
        expect(SIMPY, ranks, "simulated_ns", LAST_EVENT_NS[ranks], outcome)
        return outcome

    def nexosim_ring(self, ranks: int) -> Outcome:
        """nexosim's ring, as often repeated as ours."""
        outcome = self.programs.nexosim(str(ranks), str(REPEATS[ranks]))
        expect(NEXOSIM, ranks, "simulated_ns", LAST_EVENT_NS[ranks], outcome)
        return outcome


def expect(name: str, ranks: int, key: str, expected: int, outcome: Outcome) -> None:
    """Refuses a run that simulated something else."""
    got = field(outcome, key)
    if got != expected:
        raise BenchError(f"{name}, {ranks} ranks: `{key}` is {got}, expected {expected}")


def median_of(outcomes: Iterable[Outcome], key: str, scale: float = 1.0) -> float:
    """The median of one value over several runs; zero would make every ratio meaningless."""
    value = statistics.median(field(outcome, key) for outcome in outcomes) * scale
    if value <= 0:
        raise BenchError(f"`{key}` must be positive: {value}")
    return value


def hop_rate(outcomes: list[Outcome]) -> float:
    """Millions of chunk-hops per CPU second."""
    return field(outcomes[0], "hops") / median_of(outcomes, "cpu_s") / 1e6


def timing_rows(bench: Bench) -> list[Row]:
    """The ring without data, head to head, in CPU time."""
    versus_simpy, versus_nexosim = bench.plan.simpy_ranks, 64
    ours, simpy = bench.in_turns(
        f"ring of {versus_simpy}, ours and SimPy",
        lambda: bench.ours_ring(versus_simpy),
        lambda: bench.simpy_ring(versus_simpy),
    )
    bench.simpy_rates[versus_simpy] = hop_rate(simpy)
    ours_again, nexosim = bench.in_turns(
        f"ring of {versus_nexosim}, ours and nexosim",
        lambda: bench.ours_ring(versus_nexosim),
        lambda: bench.nexosim_ring(versus_nexosim),
    )
    return [
        cpu_row(f"ring P={versus_simpy} timing{bench.plan.note}", ours, simpy, SIMPY, must=250, goal=400),
        cpu_row(f"ring P={versus_nexosim} timing", ours_again, nexosim, NEXOSIM, must=8, goal=15),
    ]


def cpu_row(name: str, ours: list[Outcome], peer: list[Outcome], peer_name: str, *, must: float, goal: float) -> Row:
    """A row of CPU milliseconds, judged by its ratio."""
    times = (median_of(outcomes, "cpu_s", 1e3) for outcomes in (ours, peer))
    return Row(name, *times, peer_name, "ms", lower_is_better=True, judged="ratio", must=must, goal=goal)


def hop_rate_rows(bench: Bench) -> list[Row]:
    """Hops per second over the number of ranks, and how flat they are."""
    ours, rows = {}, []
    for ranks in RANKS:
        (outcomes,) = bench.in_turns(f"ring of {ranks}", lambda ranks=ranks: bench.ours_ring(ranks))
        ours[ranks] = hop_rate(outcomes)
        simpy_ranks = min(ranks, bench.plan.simpy_most_ranks)
        peer_name = SIMPY if simpy_ranks == ranks else f"{SIMPY} at P={simpy_ranks}"
        rows.append(hop_rate_row(ranks, ours[ranks], simpy_rate(bench, simpy_ranks), peer_name))
    peers = [simpy_rate(bench, ranks) for ranks in RANKS if ranks <= bench.plan.simpy_most_ranks]
    return [*rows, flatness_row(list(ours.values()), peers, bench.plan)]


def simpy_rate(bench: Bench, ranks: int) -> float:
    """SimPy's hop rate, measured once for each number of ranks."""
    if ranks not in bench.simpy_rates:
        (outcomes,) = bench.in_turns(f"ring of {ranks}, SimPy", lambda: bench.simpy_ring(ranks), rounds=1)
        bench.simpy_rates[ranks] = hop_rate(outcomes)
    return bench.simpy_rates[ranks]


def hop_rate_row(ranks: int, ours: float, peer: float, peer_name: str) -> Row:
    """A hop rate, judged by our own value."""
    name = f"chunk-hops P={ranks}"
    return Row(name, ours, peer, peer_name, "Mhop/s", lower_is_better=False, judged="ours", must=6, goal=12)


def flatness_row(ours: list[float], peers: list[float], plan: Plan) -> Row:
    """The fastest rate over the slowest; 1 is perfectly flat."""
    name = f"chunk-hops P={RANKS[0]}..{RANKS[-1]}, max/min"
    peer_name = f"{SIMPY}, P={RANKS[0]}..{plan.simpy_most_ranks}"
    flatness = (max(rates) / min(rates) for rates in (ours, peers))
    return Row(name, *flatness, peer_name, "x", lower_is_better=True, judged="ours", goal=1.5)


def whole_machine_rows(bench: Bench) -> list[Row]:
    """The ring on `quad-sip`, where DMA, memories and meshes cost time too, beside the same ring on `bare`."""
    arguments = ["ring", "--ranks", "4", "--data", "off", "--repeat", "20"]
    whole, bare = bench.in_turns(
        "ring of 4 on quad-sip and on bare",
        lambda: bench.programs.ours(*arguments, "--machine", "quad-sip"),
        lambda: bench.programs.ours(*arguments),
    )
    peer = "Phalanx on bare"
    times = (median_of(outcomes, "cpu_s", 1e3) for outcomes in (whole, bare))
    rates = (hop_rate(outcomes) for outcomes in (whole, bare))
    limits = {"lower_is_better": False, "judged": "ours"}
    return [
        Row("ring P=4 on quad-sip, CPU", *times, peer, "ms", lower_is_better=True, judged="ratio"),
        Row("chunk-hops P=4 on quad-sip", *rates, peer, "Mhop/s", must=3, goal=6, **limits),
    ]


def event_time_row(bench: Bench) -> Row:
    """The time of an event on a large machine over that on one of 256 ranks."""
    ranks = bench.plan.large_ranks
    (small,) = bench.in_turns("ring of 256", lambda: bench.ours_ring(256))
    (large,) = bench.in_turns(f"ring of {ranks}", lambda: bench.ours_ring(ranks), rounds=1)
    slowdown = event_time(large) / event_time(small)
    name = f"time of an event, P={ranks} over P=256{bench.plan.note}"
    return Row(name, slowdown, 1.0, "flat", "x", lower_is_better=True, judged="ours", must=1.5, goal=1.1)


def event_time(outcomes: list[Outcome]) -> float:
    """CPU seconds for each event."""
    return median_of(outcomes, "cpu_s") / median_of(outcomes, "events")


def large_ring_rows(bench: Bench) -> list[Row]:
    """1024 ranks, one message a step: from start to exit, and memory."""
    name = "ring P=1024"
    (outcomes,) = bench.in_turns(name, lambda: bench.ours_ring(1024), rounds=bench.plan.rounds + 2)
    wall_ms = statistics.median(outcome.wall_s for outcome in outcomes) * 1e3
    rss = median_of(outcomes, "max_rss_bytes", 1e-6)
    limits = {"lower_is_better": True, "judged": "ours"}
    return [
        Row(f"{name}, wall with start-up", wall_ms, ASTRA_WALL_MS, ASTRA, "ms", must=300, goal=130, **limits),
        Row(f"{name}, memory", rss, ASTRA_RSS_MB, ASTRA, "MB", must=64, **limits),
    ]


def data_row(bench: Bench) -> Row:
    """The ring with f32 numbers, in wall time: ours may use both cores."""
    ranks = bench.plan.simpy_ranks
    ours, simpy = bench.in_turns(
        f"ring of {ranks} with data",
        lambda: bench.ours_ring(ranks, data=True, repeat=3),
        lambda: bench.simpy_ring(ranks, data=True),
    )
    times = (median_of(outcomes, "wall_s", 1e3) for outcomes in (ours, simpy))
    name = f"ring P={ranks} with f32 data, wall{bench.plan.note}"
    return Row(name, *times, f"{SIMPY} + {NUMPY}", "ms", lower_is_better=True, judged="ratio", must=15, goal=90)


def math_rows(bench: Bench) -> list[Row]:
    """One tile product and one slot reduction, one thread."""
    dot, slot, numpy = bench.in_turns(
        "dot and slot reduce",
        lambda: bench.programs.ours("dot"),
        lambda: bench.programs.ours("slot-reduce"),
        bench.programs.numpy,
        rounds=bench.plan.rounds + 2,
    )
    judged = {"lower_is_better": True, "judged": "ratio"}
    dots = median_of(dot, "us"), median_of(numpy, "dot_us")
    slots = median_of(slot, "us"), median_of(numpy, "slot_add_us")
    return [
        Row("dot 128^3, f16 to f32", *dots, f"{NUMPY}, cast + OpenBLAS", "us", must=1, goal=1.8, **judged),
        Row("slot reduce, 16 KiB f16", *slots, NUMPY, "us", must=15, goal=30, **judged),
    ]


def path_rows(bench: Bench) -> list[Row]:
    """The cost of a critical path, which `phalanx run` keeps, in CPU time of the same ring."""
    rows = []
    for ranks in (64, 256):
        name = f"ring P={ranks}, with its critical path"
        off, on = bench.in_turns(name, lambda: bench.ours_ring(ranks), lambda: bench.ours_ring(ranks, path=True))
        slowdown = median_of(on, "cpu_s") / median_of(off, "cpu_s")
        rows.append(Row(name, slowdown, 1.0, "ours, without", "x", lower_is_better=True, judged="ours"))
    return rows


def trace_row(bench: Bench) -> Row:
    """The cost of a full trace, in CPU time of the same ring."""
    with tempfile.TemporaryDirectory() as directory:
        trace = Path(directory) / "ring.pftrace"
        off, on = bench.in_turns(
            "ring of 64, trace off and on", lambda: bench.ours_ring(64), lambda: bench.ours_ring(64, trace=trace)
        )
    slowdown = median_of(on, "cpu_s") / median_of(off, "cpu_s")
    name = "ring P=64, trace on"
    return Row(name, slowdown, 1.0, "ours, trace off", "x", lower_is_better=True, judged="ours", must=3, goal=1.5)


def build_rows(bench: Bench) -> list[Row]:
    """A large machine, built and not run; no peer builds one, so its budget stands in."""
    work = ("build", "--sips", "1024", "--pes", "64")
    (outcomes,) = bench.in_turns("machine of 1024 x 64", lambda: bench.programs.ours(*work))
    wall, rss = median_of(outcomes, "wall_s"), median_of(outcomes, "max_rss_bytes", 2**-20)
    limits = {"lower_is_better": True, "judged": "ours"}
    name, peer_name = "machine 1024 x 64", "budget, no peer"
    return [
        Row(f"{name}, build", wall, 2.0, peer_name, "s", must=2, **limits),
        Row(f"{name}, memory", rss, 2048.0, peer_name, "MiB", must=2048, **limits),
    ]


def gemm_row(bench: Bench) -> Row:
    """A whole GEMM workload's math against its library called directly."""
    (outcomes,) = bench.in_turns("gemm 2048^3", lambda: bench.programs.ours("gemm"))
    rates = (median_of(outcomes, key) for key in ("ours_gflops", "library_gflops"))
    library = f"{field(outcomes[0], 'library')}, called directly"
    return Row("gemm 2048^3 f16 with data", *rates, library, "GFLOP/s", lower_is_better=False, judged="ratio", must=0.6)
