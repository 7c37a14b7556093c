"""The runner with a fake bench program and fake peers; needs Python alone.

Run with `python3 -m unittest discover -s benches/peers`.
"""

from __future__ import annotations

import contextlib
import functools
import io
import itertools
import json
import os
import subprocess
import sys
import tempfile
import unittest
import unittest.mock
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import costs  # noqa: E402
import interpreter  # noqa: E402
import metg  # noqa: E402
import native  # noqa: E402
import process_pools  # noqa: E402
import programs  # noqa: E402
import report  # noqa: E402
import runner  # noqa: E402
import steady  # noqa: E402
from native import Missing, Native  # noqa: E402
from programs import BenchError, Outcome, Progress  # noqa: E402
from report import Row  # noqa: E402
from suites import SUITES, Suite, engine, node, scale, sim  # noqa: E402
from suites import python as python_suite  # noqa: E402

FAKE_BENCH = """#!{python}
import json, sys
arguments = sys.argv[1:]
values = {{"case": arguments[0], "us": 2.0, "arguments": arguments}}
print(json.dumps(values))
"""


def row(**changes: Any) -> Row:
    """A row judged by its ratio, with some fields changed."""
    fields = {
        "measure": "ring", "ours": 10.0, "peer": 4000.0, "peer_name": "peer", "unit": "ms",
        "lower_is_better": True, "judged": "ratio", "must": 100.0, "goal": 400.0,
    }  # fmt: skip
    return Row(**{**fields, **changes})


def hops(ranks: int) -> int:
    """Chunks over links in the common model."""
    return 2 * (ranks - 1) * 1024


class FakePrograms:
    """Answers as the real programs do, from fixed costs a hop."""

    def __init__(self, **changes: Any) -> None:
        self.changes = changes
        self.calls: list[tuple[str, ...]] = []

    def ours(self, *arguments: str) -> Outcome:
        self.calls.append(("ours", *arguments))
        case, options = arguments[0], dict(zip(arguments[1::2], arguments[2::2], strict=True))
        values = self.ours_ring(options) if case == "ring" else dict(OTHER_CASES[case])
        return Outcome({**values, **self.changes.get("ours", {})}, wall_s=0.25)

    def ours_ring(self, options: dict[str, str]) -> dict[str, Any]:
        ranks = int(options["--ranks"])
        costly = options.keys() & {"--trace", "--machine", "--path"}
        cpu_s = hops(ranks) * 1e-7 * (2 if costly else 1)
        simulated = (sim.LAST_EVENT_NS[ranks] - 500) * 1000
        return {
            "simulated_ps": simulated, "hops": hops(ranks), "events": 3 * hops(ranks), "cpu_s": cpu_s, "wall_s": cpu_s,
            "max_rss_bytes": 32_000_000, "bit_exact": options["--data"] == "on" or None,
        }  # fmt: skip

    def simpy(self, *arguments: str) -> Outcome:
        return self.peer("simpy", 4e-5, arguments)

    def nexosim(self, *arguments: str) -> Outcome:
        return self.peer("nexosim", 1e-6, arguments)

    def peer(self, name: str, hop_s: float, arguments: tuple[str, ...]) -> Outcome:
        self.calls.append((name, *arguments))
        ranks = int(arguments[0])
        time_s = hops(ranks) * hop_s
        values = {"simulated_ns": sim.LAST_EVENT_NS[ranks], "cpu_s": time_s, "wall_s": time_s, "hops": hops(ranks)}
        return Outcome({**values, **self.changes.get(name, {})}, wall_s=time_s)

    def numpy(self) -> Outcome:
        return Outcome({"slot_add_us": 45.0, "dot_us": 90.0}, wall_s=1.0)


OTHER_CASES: dict[str, dict[str, Any]] = {
    "dot": {"us": 45.0},
    "slot-reduce": {"us": 2.0},
    "gemm": {"ours_gflops": 70.0, "library_gflops": 100.0, "library": "library 1.0"},
    "build": {"wall_s": 1.0, "max_rss_bytes": 1 << 30},
}


def quiet() -> Progress:
    """A progress line that nobody sees."""
    return Progress(io.StringIO())


def call_main(*arguments: str, suite: Callable[[bool, Progress], list[Row]]) -> tuple[int, str, str]:
    """Runs the command line with one fake suite; returns exit code, stdout and stderr."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = runner.main(arguments, {"sim": Suite("a fake", suite)})
    return code, out.getvalue(), err.getvalue()


class Judging(unittest.TestCase):
    def test_ratio_is_how_many_times_better_whichever_way_is_better(self) -> None:
        self.assertEqual(row().ratio, 400)
        self.assertEqual(row(ours=12.0, peer=3.0, lower_is_better=False).ratio, 4)

    def test_verdict_of_a_ratio(self) -> None:
        verdicts = [row(peer=peer).verdict for peer in (4000.0, 3999.0, 1000.0, 999.0)]
        self.assertEqual(verdicts, ["goal", "must", "must", "missed"])

    def test_verdict_of_our_own_value_follows_its_direction(self) -> None:
        low = [row(judged="ours", must=500, goal=130, ours=ours).verdict for ours in (130.0, 131.0, 501.0)]
        high = [row(judged="ours", must=3, goal=12, ours=ours, lower_is_better=False).verdict for ours in (12.0, 3.0, 2.9)]
        self.assertEqual(low, ["goal", "must", "missed"])
        self.assertEqual(high, ["goal", "must", "missed"])

    def test_verdict_without_a_must_or_any_bar(self) -> None:
        self.assertEqual(row(must=None, peer=1.0).verdict, "below goal")
        self.assertEqual(row(must=None, goal=None).verdict, "-")
        self.assertEqual(row(goal=None).verdict, "must")

    def test_nothing_beside_a_bound_is_the_goal(self) -> None:
        left = row(ours=0.0, peer=100.0, judged="ours", must=100.0, goal=None)
        self.assertEqual((left.ratio, left.verdict), (float("inf"), "must"))
        self.assertIn("inf", report.as_table([left]))
        self.assertIsNone(json.loads(report.as_json([left]))["rows"][0]["ratio"])


class Printing(unittest.TestCase):
    def test_json_has_rows_alone_with_the_promised_keys(self) -> None:
        parsed = json.loads(report.as_json([row()]))
        self.assertEqual(list(parsed), ["rows"])
        promised = {"measure", "ours", "peer", "peer_name", "unit", "ratio"}
        self.assertLessEqual(promised, set(parsed["rows"][0]))

    def test_table_lines_up_and_shows_directions(self) -> None:
        table = report.as_table([row(), row(measure="a longer one", judged="ours", must=500, goal=None)])
        header, first, second = table.splitlines()
        self.assertEqual(header.split(), list(report.HEADER))
        self.assertEqual(header.index("peer"), first.index("4000 ms (peer)"))
        self.assertIn(">= 100x", first)
        self.assertIn("<= 500 ms", second)

    def test_numbers_have_no_exponent(self) -> None:
        shown = [report.number(value) for value in (123456.7, 45.67, 4.567, 0.4567)]
        self.assertEqual(shown, ["123457", "45.7", "4.57", "0.457"])


class SimSuite(unittest.TestCase):
    def rows(self, plan: sim.Plan = sim.FULL, **changes: Any) -> dict[str, Row]:
        rows = sim.measure(FakePrograms(**changes), plan, quiet())
        return {f"{row.measure} / {row.peer_name}": row for row in rows}

    def test_every_measure_is_there_once(self) -> None:
        rows = sim.measure(FakePrograms(), sim.FULL, quiet())
        self.assertEqual(len(rows), 21)
        self.assertEqual(len({(row.measure, row.peer_name) for row in rows}), 21)

    def test_ratios_come_from_the_same_unit_of_work(self) -> None:
        rows = self.rows()
        self.assertAlmostEqual(rows[f"ring P=64 timing / {sim.SIMPY}"].ratio, 400)
        self.assertAlmostEqual(rows[f"ring P=64 timing / {sim.NEXOSIM}"].ratio, 10)
        self.assertAlmostEqual(rows[f"chunk-hops P=256 / {sim.SIMPY}"].ours, 10)
        self.assertAlmostEqual(rows["time of an event, P=4096 over P=256 / flat"].ours, 1)
        self.assertAlmostEqual(rows["chunk-hops P=4 on quad-sip / Phalanx on bare"].ours, 5)
        self.assertAlmostEqual(rows["ring P=64, trace on / ours, trace off"].ours, 2)
        self.assertAlmostEqual(rows["ring P=256, with its critical path / ours, without"].ours, 2)
        self.assertAlmostEqual(rows[f"ring P=1024, wall with start-up / {sim.ASTRA}"].ours, 250)
        self.assertAlmostEqual(rows["gemm 2048^3 f16 with data / library 1.0, called directly"].ratio, 0.7)

    def test_quick_rows_say_so_and_keep_simpy_small(self) -> None:
        fakes = FakePrograms()
        names = [row.measure for row in sim.measure(fakes, sim.QUICK, quiet())]
        self.assertIn("ring P=16 timing (quick)", names)
        self.assertLessEqual({call[1] for call in fakes.calls if call[0] == "simpy"}, {"4", "16"})

    def test_ours_and_the_peer_take_turns(self) -> None:
        fakes = FakePrograms()
        sim.timing_rows(sim.Bench(fakes, sim.FULL, quiet()))
        self.assertEqual([call[0] for call in fakes.calls], ["ours", "simpy"] * 3 + ["ours", "nexosim"] * 3)

    def test_a_wrong_simulated_time_stops_the_run(self) -> None:
        wrong = {
            "simpy": ({"simulated_ns": 1}, r"SimPy.*64 ranks: `simulated_ns` is 1, expected 576960"),
            "nexosim": ({"simulated_ns": 1}, r"nexosim.*expected 576960"),
            "ours": ({"simulated_ps": 1}, r"sim_bench.*`simulated_ps` is 1, expected 576460000"),
        }
        for name, (values, message) in wrong.items():
            with self.subTest(name), self.assertRaisesRegex(BenchError, message):
                self.rows(**{name: values})

    def test_wrong_numbers_stop_the_run(self) -> None:
        with self.assertRaisesRegex(BenchError, "not bit-exact"):
            self.rows(ours={"bit_exact": False})

    def test_a_time_of_zero_stops_the_run(self) -> None:
        with self.assertRaisesRegex(BenchError, "`cpu_s` must be positive"):
            self.rows(ours={"cpu_s": 0})


class FakeEngine:
    """Answers as the engine's programs do; a task costs 200 ns on our threads."""

    peers = ("openmp-gcc", "starpu", "onetbb")

    def __init__(self, **changes: Any) -> None:
        self.changes = changes
        self.calls: list[tuple[str, ...]] = []

    def ours(self) -> Outcome:
        self.calls.append(("ours",))
        rows = [
            {"pattern": pattern, "runtime": runtime, "threads": threads, "ns_per_task": ns}
            for runtime, threads, ns in ((engine.INLINE, 1, 80.0), (costs.OURS, 2, 200.0))
            for pattern in self.changes.get("patterns", engine.PATTERNS)
        ]
        return Outcome({"rows": rows, "metg_ns": {costs.OURS: self.changes.get("metg", 1000.0)}}, wall_s=1.0)

    def peer(self, name: str, *arguments: str) -> Outcome:
        self.calls.append((name, *arguments))
        if "--check" in arguments:
            return Outcome({"violations": self.changes.get("violations", 0)}, wall_s=0.1)
        return Outcome({"ns_per_task": self.cost(arguments, {"openmp-gcc": 300.0, "starpu": 4000.0, "onetbb": 250.0}[name])}, wall_s=0.1)

    def floor(self, *arguments: str) -> Outcome:
        if arguments[0] == "line":
            return Outcome({"line_ns": next(self.changes.get("lines", iter(lambda: 240.0, None)))}, wall_s=0.1)
        if arguments[0] == "peak":
            return Outcome({"iterations_per_s": 1e9}, wall_s=0.1)
        return Outcome({"ns_per_task": self.cost(arguments, 100.0)}, wall_s=0.1)

    def cost(self, arguments: tuple[str, ...], overhead_ns: float) -> float:
        """Overhead alone for a pattern; for METG also an iteration a nanosecond."""
        named = dict(zip(arguments[1::2], arguments[2::2], strict=True))
        return overhead_ns + int(named.get("--iterations", 0))


class EngineSuite(unittest.TestCase):
    def test_json_has_exactly_the_promised_shape(self) -> None:
        found = json.loads(costs.as_json(engine.measure(FakeEngine(), engine.QUICK, quiet())))
        self.assertEqual(list(found), ["rows", "metg_ns"])
        self.assertEqual(len(found["rows"]), 5 * 5)
        self.assertEqual(list(found["rows"][0]), ["pattern", "runtime", "threads", "ns_per_task"])
        self.assertEqual(set(found["metg_ns"]), {costs.OURS, engine.STATIC, *FakeEngine.peers})

    def test_the_musts_are_judged_where_a_peer_was_measured(self) -> None:
        rows = engine.measure(FakeEngine(), engine.QUICK, quiet()).verdicts
        verdicts = {(row.measure, row.peer_name): row.verdict for row in rows}
        self.assertEqual(len(verdicts), 5 + 5 + 5 + 1)
        self.assertEqual(verdicts["inline, random", engine.LIMIT], "goal")
        self.assertEqual(verdicts["task, chain", "starpu"], "goal")
        self.assertEqual(verdicts["task, chain", "openmp-gcc"], "goal")
        self.assertEqual(verdicts["METG(50 %)", "onetbb"], "goal")

    def test_bars_of_the_peers(self) -> None:
        cases = {"openmp-clang": (199.0, 200.0), "starpu": (799.0, 800.0)}
        for peer, (missed, reached) in cases.items():
            for ns, verdict in ((missed, "missed"), (reached, "must")):
                rows = [costs.Cost("random", costs.OURS, 2, 200.0), costs.Cost("random", peer, 2, ns)]
                found = engine.threads_row(costs.Costs(rows, {}), "random", peer)
                with self.subTest(peer, ns=ns):
                    self.assertEqual(found.verdict if found else None, verdict)

    def test_table_shows_times_ours_and_gaps(self) -> None:
        table = costs.as_table(engine.measure(FakeEngine(), engine.QUICK, quiet()))
        lines = {line.split()[0]: line for line in table.splitlines() if line}
        self.assertIn("4000 (20.0x)", lines["starpu"])
        self.assertIn("300 (1.50x)", lines["openmp-gcc"])
        self.assertEqual(lines["static"].split()[1:6], ["-"] * 5)
        self.assertIn("runs dropped: 0", table)

    def test_libgomp_gets_a_shorter_stencil(self) -> None:
        fakes = FakeEngine()
        engine.measure(fakes, engine.FULL, quiet())
        tasks = {call[:2]: call[call.index("--tasks") + 1] for call in fakes.calls if "--tasks" in call}
        self.assertEqual(tasks.pop(("openmp-gcc", "stencil")), "5000")
        self.assertEqual(set(tasks.values()), {"50000"})

    def test_ours_and_the_peers_take_turns(self) -> None:
        fakes = FakeEngine()
        engine.measure(fakes, engine.FULL, quiet())
        names = [call[0] for call in fakes.calls if "--check" not in call]
        turns = [name for name, before in zip(names, ["", *names], strict=False) if name != before]
        self.assertEqual(turns[:4], ["ours", "openmp-gcc", "starpu", "onetbb"])
        self.assertEqual(turns.count("ours"), engine.FULL.rounds)

    def test_a_wrong_order_stops_the_run(self) -> None:
        with self.assertRaisesRegex(BenchError, "openmp-gcc runs the tasks of `independent` out of order"):
            engine.measure(FakeEngine(violations=3), engine.QUICK, quiet())

    def test_ours_counts_even_if_the_machine_never_stands_still(self) -> None:
        with unittest.mock.patch.object(steady, "PAUSE_S", 0.0):
            found = engine.measure(FakeEngine(lines=itertools.cycle([100.0, 1000.0])), engine.QUICK, quiet())
        self.assertEqual({cost.runtime for cost in found.rows}, {costs.OURS, engine.INLINE})

    def test_without_a_metg_of_ours_the_rest_is_printed(self) -> None:
        found = engine.measure(FakeEngine(metg=None), engine.QUICK, quiet())
        self.assertNotIn(costs.OURS, found.metg_ns)
        self.assertEqual(len(json.loads(costs.as_json(found))["rows"]), 5 * 5)
        self.assertIn("runs dropped: 0", costs.as_table(found))

    def test_a_pattern_that_we_left_out_stops_the_run(self) -> None:
        with self.assertRaisesRegex(BenchError, "no cost of `random` on `phalanx-inline`"):
            engine.measure(FakeEngine(patterns=engine.PATTERNS[:4]), engine.QUICK, quiet())

    def test_the_suite_prints_its_own_shape(self) -> None:
        self.assertIs(SUITES["engine"].as_json, costs.as_json)
        self.assertIs(SUITES["sim"].as_json, report.as_json)


class FakeNode:
    """Answers as node_bench does, all musts reached and no goal; only one peer is installed."""

    def __init__(self, **changes: float) -> None:
        self.calls: list[str] = []
        floors = {"raw_spin_us": 0.3, "raw_yield_us": 2.4, "raw_futex_us": 50.0}
        floors |= {"spawn_true_ms": 0.7, "spawn_self_ms": 0.8, "spawn8_ms": 4.0}
        values = {name: must for _, name, _, must, _ in node.BARS} | floors | {"spawn_ms": 3.0, "independent2_us": 1.0}
        self.values = values | changes

    def ours(self) -> Outcome:
        self.calls.append("ours")
        rows = [{"measure": name, "value": value, "unit": name.rpartition("_")[2]} for name, value in self.values.items()]
        return Outcome({"rows": rows}, wall_s=1.0)

    def peer(self, name: str) -> Outcome:
        self.calls.append(name)
        if name != "process-pool":
            return Outcome({"skipped": f"{name} is not installed"}, wall_s=0.1)
        return Outcome({"independent_us": 156.0, "run_one_us": 255.0}, wall_s=0.1)


class NodeSuite(unittest.TestCase):
    def rows(self, **changes: float) -> dict[tuple[str, str], Row]:
        rows = node.measure(FakeNode(**changes), 1, quiet()).verdicts
        self.assertEqual(len({(row.measure, row.peer_name) for row in rows}), len(rows))
        return {(row.measure, row.peer_name): row for row in rows}

    def test_every_bar_is_on_our_own_value(self) -> None:
        rows = self.rows()
        barred = [row for (_, peer), row in rows.items() if peer == node.LIMIT]
        self.assertEqual(len(barred), len(node.BARS) + 1)
        self.assertEqual({row.verdict for row in barred}, {"must", "below goal"})
        self.assertEqual(self.rows(group8_us=401.0)["group of 8", node.LIMIT].verdict, "missed")
        self.assertEqual(self.rows(noop8_per_s=2e6)["8 children, no-op tasks a second", node.LIMIT].verdict, "goal")

    def test_json_has_every_figure_under_its_name(self) -> None:
        found = node.measure(FakeNode(chain_us=1.5), 1, quiet())
        printed = json.loads(node.as_json(found))
        self.assertIn({"measure": "chain_us", "value": 1.5, "unit": "us"}, printed["rows"])
        names = {row["measure"] for row in printed["rows"]}
        self.assertLessEqual({name for _, name, *_ in node.BARS} | {"raw_spin_us", "raw_futex_us"}, names)
        self.assertEqual(len(printed["verdicts"]), len(found.verdicts))
        self.assertIn("task in a chain", node.as_table(found))

    def test_starting_is_judged_above_what_exec_takes(self) -> None:
        for init_ms, verdict in ((9.5, "below goal"), (8.9, "goal"), (1.0, "goal")):
            row = self.rows(init8_ms=init_ms)["init of 8 children, above exec", node.LIMIT]
            with self.subTest(init_ms):
                self.assertEqual(row.verdict, verdict)

    def test_floors_and_peers_are_ratios(self) -> None:
        rows = self.rows()
        self.assertAlmostEqual(rows["one task, run end to end", "process-pool"].ratio, 255 / 20)
        self.assertAlmostEqual(rows["task in a chain, one child", "a word, spinning"].ratio, 0.3 / 5)
        self.assertEqual([peer for _, peer in rows if peer in node.PEERS], ["process-pool"] * 2)

    def test_ours_and_the_peers_take_turns_and_a_missing_one_gets_a_word_once(self) -> None:
        fakes, stream = FakeNode(), io.StringIO()
        node.measure(fakes, 2, Progress(stream))
        self.assertEqual(fakes.calls, ["ours", *node.PEERS] * 2)
        self.assertEqual(stream.getvalue().count("skipped: ray is not installed"), 1)

    def test_a_figure_that_we_left_out_stops_the_run(self) -> None:
        fakes = FakeNode()
        del fakes.values["chain_us"]
        with self.assertRaisesRegex(BenchError, "node_bench printed no `chain_us`"):
            node.measure(fakes, 1, quiet())

    def test_a_pool_that_is_not_installed_says_so(self) -> None:
        stream = io.StringIO()
        missing = ModuleNotFoundError("no", name="ray")
        with (
            unittest.mock.patch.dict(process_pools.KINDS, {"ray": unittest.mock.Mock(side_effect=missing)}),
            contextlib.redirect_stdout(stream),
        ):
            process_pools.main(["ray"])
        self.assertIn("ray is not installed", json.loads(stream.getvalue())["skipped"])


class PythonSuite(unittest.TestCase):
    def test_every_figure_has_its_row(self) -> None:
        costs = {
            "greenlet_us": 1.5, "recorded_us": 0.4, "replayed_us": 0.2, "ring_recorded_s": 0.3, "all_reduce_ms": 30.0,
            "spawn_objects_left": 0, "spawn_growth_kib": -4, "to_tensor_ms": 9.0, "to_numpy_ms": 9.0, "plain_copy_ms": 9.0, "numpy_copy_ms": 9.0,
        }  # fmt: skip

        def run_json(command: list[Any]) -> Outcome:
            name = Path(command[1]).name
            if name == "worker_costs.py":
                return Outcome({"phalanx": {"cpu_us": 2.0}, "joblib": {"skipped": "not there"}}.get(command[2], {"cpu_us": 20.0}), 1.0)
            return Outcome({"cpu_s": 6.0} if name == "simpy_ring.py" else costs, 1.0)

        replaced = {
            "python_with": lambda _: Path("python3"), "run_checked": lambda _, **__: None, "run_json": run_json,
            "cargo_program": lambda *_: Path("ranks_bench"), "cpu_of": lambda command: 0.03 * int(command[-1]),
        }  # fmt: skip
        with contextlib.ExitStack() as stack:
            for name, value in replaced.items():
                stack.enter_context(unittest.mock.patch.object(python_suite, name, value))
            rows = python_suite.run(True, Progress(io.StringIO()))
        verdicts = {row.measure: row.verdict for row in rows}
        self.assertEqual(len(rows), 10)
        self.assertEqual(verdicts["16 MiB ring, its kernel in Python, P=16"], "must")
        self.assertEqual(verdicts["an empty Python task in a child"], "goal")
        self.assertEqual(verdicts["objects left by 1 000 spawns, half failing"], "must")
        self.assertNotIn("missed", verdicts.values())


class ScaleSuite(unittest.TestCase):
    def rows(self, quick: bool, took: Callable[..., scale.Took]) -> dict[str, Row]:
        with (
            unittest.mock.patch.object(scale, "cargo_program", lambda *_: Path("phalanx")),
            unittest.mock.patch.object(scale, "took", took),
        ):
            return {row.measure: row for row in scale.run(quick, Progress(io.StringIO()))}

    def test_every_figure_has_its_row_and_its_must(self) -> None:
        seen = []

        def took(command: list[Any], environment: dict[str, str]) -> scale.Took:
            words = [str(word) for word in command]
            cache = environment.get(scale.CACHE_VARIABLE)
            first = cache is None or cache not in seen
            seen.append(cache)
            jobs = int(words[words.index("--jobs") + 1]) if "--jobs" in words else 1
            jobs *= 2 if words[-2:] == ["--shards", "2"] else 1
            return scale.Took(wall_s=(1.0 if first else 0.05) / jobs, cpu_s=1.0, peak_mb=1638.4)

        rows = self.rows(False, took)
        verdicts = {measure: row.verdict for measure, row in rows.items()}
        self.assertEqual(verdicts["tp-mlp pod-64, hidden 4096, 2048 tokens, first time, wall"], "must")
        self.assertEqual(verdicts["ccl all_reduce 1K..1G, pod-64, first time, wall"], "goal")
        self.assertEqual(verdicts["ccl all_reduce 1K..1G, pod-64, second time, wall"], "must")
        self.assertEqual(verdicts["16384 SIPs, 4 KiB recursive doubling, two levels, memory a SIP"], "must")
        self.assertEqual(verdicts["16384 SIPs, 4 KiB two level, two levels, wall"], "goal")
        self.assertEqual(verdicts["sweep of 1000 points, two cores"], "must")
        self.assertEqual(rows["sweep of 1000 points, two cores"].ratio, 2.0)
        self.assertEqual(verdicts["ring of 256, two threads"], "goal")
        self.assertEqual(rows["tp-mlp pod-64, 2048 tokens, two threads"].ratio, 2.0)
        self.assertEqual(verdicts["ring of 256, threads by `auto`"], "must")
        # Each measure has a cache of its own, which the first run finds empty: two pairs, and two with five runs of three kinds.
        caches = [cache for cache in seen if cache is not None]
        self.assertEqual(len(caches), 2 * 2 + 2 * (1 + 5 * 3))
        self.assertEqual(len(set(caches)), 4)

    def test_a_slow_run_misses_and_quick_cases_have_no_must(self) -> None:
        def slow(command: list[Any], environment: dict[str, str]) -> scale.Took:
            return scale.Took(wall_s=99.0, cpu_s=99.0, peak_mb=99e3)

        verdicts = [row.verdict for row in self.rows(False, slow).values()]
        self.assertEqual(verdicts.count("missed"), 12)
        self.assertEqual({row.verdict for row in self.rows(True, slow).values()}, {"-"})

    def test_the_peak_of_memory_is_that_of_the_command_alone(self) -> None:
        large = scale.took([sys.executable, "-c", "x = bytearray(200_000_000)"], {})
        small = scale.took([sys.executable, "-c", "pass"], {})
        self.assertGreater(large.peak_mb, 200)
        self.assertLess(small.peak_mb, 100)
        with self.assertRaisesRegex(BenchError, "exit code 3"):
            scale.took([sys.executable, "-c", "raise SystemExit(3)"], {})


class SteadyRuns(unittest.TestCase):
    def steady(self, *lines_ns: float) -> steady.Steady:
        lines = iter(lines_ns)
        return steady.Steady(lambda: next(lines), (150, 330), pause=lambda seconds: None)

    def test_a_run_counts_when_the_round_trip_holds_before_and_after(self) -> None:
        runs = iter("abc")
        kept = self.steady(240, 44, 44, 240, 240)
        self.assertEqual(kept.run(lambda: next(runs)), "b")
        self.assertEqual(kept.dropped, 1)

    def test_attempts_are_bounded(self) -> None:
        self.assertIsNone(self.steady(*[44] * steady.ATTEMPTS).run(lambda: "never"))

    def test_a_machine_that_stays_elsewhere_takes_the_bounds_along(self) -> None:
        lines = iter([100.0] * steady.SAMPLES + [400.0] * 99)
        kept = steady.Steady(lambda: next(lines), pause=lambda seconds: None)
        self.assertEqual((kept.low, kept.high), (60, 140))
        self.assertEqual(kept.run(lambda: "late"), "late")
        self.assertIn("within 240..560 ns; runs dropped: 0; the machine moved to another level 1 times", kept.note())

    def test_bounds_surround_what_the_machine_shows_or_are_told(self) -> None:
        lines = iter([44.0] * 3 + [200.0] * steady.SAMPLES)
        around = steady.Steady(lambda: next(lines))
        self.assertEqual((around.low, around.high), (120, 280))
        self.assertIsNone(steady.told_bounds({}))
        self.assertEqual(steady.told_bounds({steady.BOUNDS_VARIABLE: "150-330"}), (150, 330))
        with self.assertRaisesRegex(BenchError, "two numbers such as `150-330`, not `fast`"):
            steady.told_bounds({steady.BOUNDS_VARIABLE: "fast"})


class Metg(unittest.TestCase):
    def test_the_crossing_is_between_the_points_on_a_log_scale(self) -> None:
        found = metg.crossing(metg.Point(100, 0.25), metg.Point(400, 0.75))
        self.assertAlmostEqual(found, 200)
        self.assertEqual(metg.crossing(None, metg.Point(100, 0.6)), 100)

    def test_the_sweep_stops_at_the_first_crossing_and_skips_what_does_not_count(self) -> None:
        asked: list[int] = []

        def measure(iterations: int) -> metg.Point | None:
            asked.append(iterations)
            # Two cores of an iteration a nanosecond each, and 100 ns of overhead a task on both.
            return None if iterations == 32 else metg.point(iterations, 100 + iterations / 2, 2, 2e9)

        found = metg.sweep(measure)
        self.assertEqual(asked, [16, 32, 64, 128, 256])
        self.assertAlmostEqual(found or 0, 400, delta=20)

    def test_no_crossing_is_no_value(self) -> None:
        self.assertIsNone(metg.sweep(lambda iterations: metg.Point(1, 0.4)))


class NativePrograms(unittest.TestCase):
    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = Path(directory.name)
        (self.directory / "some.cpp").touch()
        (self.directory / "kernel.cpp").touch()

    def compiler(self, text: str) -> str:
        path = self.directory / "compiler"
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
        return str(path)

    def build(self, **fields: Any) -> Path:
        program = Native("some", self.directory / "some.cpp", "libsome-dev", "some.h", **fields)
        return program.build(self.directory / "build")

    def test_a_missing_compiler_header_or_library_names_the_package(self) -> None:
        for compiler in ("/nowhere/compiler", self.compiler("exit 1")):
            with self.subTest(compiler), self.assertRaisesRegex(Missing, "some is not installed .`libsome-dev`"):
                self.build(compiler=compiler)
        with self.assertRaisesRegex(Missing, "libsome-dev"):
            self.build(compiler=self.compiler("exit 0"), pkg_config="no-such-package")

    def test_a_program_is_built_once_until_something_changes(self) -> None:
        log = self.directory / "log"
        compiler = self.compiler(f"echo run >> {log}; while [ $# -gt 0 ]; do [ $1 = -o ] && touch $2; shift; done")

        def builds(**fields: Any) -> int:
            log.write_text("")
            self.build(compiler=compiler, **fields)
            return len(log.read_text().split())

        log.touch()
        self.assertEqual([builds(), builds(flags=("-x",))], [2, 2])
        self.assertTrue(native.is_fresh(self.directory / "build" / "some", [self.directory / "some.cpp"]))
        os.utime(self.directory / "some.cpp", (2e9, 2e9))
        self.assertFalse(native.is_fresh(self.directory / "build" / "some", [self.directory / "some.cpp"]))

    def test_a_missing_peer_is_skipped_with_a_word(self) -> None:
        stream = io.StringIO()
        with unittest.mock.patch.object(Native, "build", side_effect=Missing("some is not installed")):
            self.assertEqual(list(engine.build_peers(Progress(stream))), [])
        self.assertEqual(stream.getvalue(), "skipped: some is not installed\n" * len(engine.PEERS))


class CommandLine(unittest.TestCase):
    def test_table_by_default_and_json_on_request(self) -> None:
        code, out, err = call_main("sim", suite=lambda quick, progress: [row()])
        self.assertEqual((code, out.split()[0], err), (0, "measure", ""))
        code, out, _ = call_main("sim", "--json", suite=lambda quick, progress: [row()])
        self.assertEqual((code, json.loads(out)["rows"][0]["ratio"]), (0, 400))

    def test_quick_reaches_the_suite(self) -> None:
        seen: list[bool] = []
        call_main("sim", "--quick", suite=lambda quick, progress: [row(ours=float(seen.append(quick) is None))])
        self.assertEqual(seen, [True])

    def test_a_failure_is_one_message_and_exit_code_1(self) -> None:
        def fail(quick: bool, progress: Progress) -> list[Row]:
            raise BenchError("no such thing")

        self.assertEqual(call_main("sim", "--json", suite=fail), (1, "", "error: no such thing\n"))

    def test_unknown_suite_suggests_the_near_miss(self) -> None:
        code, _, err = call_main("sin", suite=lambda quick, progress: [])
        self.assertEqual((code, err), (2, "error: unknown suite: `sin`\nhint: did you mean `sim`?\n"))
        _, _, err = call_main("zzzzzz", suite=lambda quick, progress: [])
        self.assertIn("hint: suites: `sim`", err)

    def test_the_script_without_arguments_prints_usage(self) -> None:
        finished = run_script()
        self.assertEqual(finished.returncode, 0)
        self.assertIn("benches/peers/run SUITE [--json] [--quick]", finished.stdout)

    def test_the_script_says_which_program_is_missing(self) -> None:
        finished = run_script("sim", PHALANX_SIM_BENCH="/nowhere/sim_bench")
        self.assertEqual((finished.returncode, finished.stdout), (1, ""))
        self.assertEqual(finished.stderr, "error: `PHALANX_SIM_BENCH` names no program: `/nowhere/sim_bench`\n")


def run_script(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs the executable as a user does."""
    command = [sys.executable, HERE / "run", *arguments]
    return subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, check=False)


class RunningPrograms(unittest.TestCase):
    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = Path(directory.name)

    def program(self, text: str) -> Path:
        path = self.directory / "sim_bench"
        path.write_text(text.format(python=sys.executable))
        path.chmod(0o755)
        return path

    def test_a_given_program_is_run_with_its_arguments(self) -> None:
        path = self.program(FAKE_BENCH)
        given = programs.given_program("PHALANX_SIM_BENCH", {"PHALANX_SIM_BENCH": str(path)})
        outcome = programs.run_json([given, "dot"])
        self.assertEqual((outcome.values["case"], outcome.values["us"]), ("dot", 2.0))
        self.assertGreater(outcome.wall_s, 0)

    def test_no_variable_means_no_given_program(self) -> None:
        self.assertIsNone(programs.given_program("PHALANX_SIM_BENCH", {}))

    def test_a_failing_program_shows_what_it_said(self) -> None:
        path = self.program("#!/bin/sh\necho 'bad case' >&2\nexit 3\n")
        with self.assertRaisesRegex(BenchError, "(?s)`sim_bench dot` failed with exit code 3.*bad case"):
            programs.run_json([path, "dot"])

    def test_output_that_is_not_an_object_is_refused(self) -> None:
        for printed in ("hello", "[1]"):
            path = self.program(f"#!/bin/sh\necho '{printed}'\n")
            with self.subTest(printed), self.assertRaisesRegex(BenchError, "did not print one JSON object"):
                programs.run_json([path])

    def test_a_program_beyond_its_limit_takes_its_children_with_it(self) -> None:
        end, begin = os.pipe()
        self.addCleanup(os.close, end)
        # The child keeps an end of the pipe open for as long as it lives.
        script = f"exec sh -c 'sleep 600 & wait' <&{begin}"
        os.set_inheritable(begin, True)
        with (
            unittest.mock.patch("subprocess.Popen", functools.partial(subprocess.Popen, pass_fds=[begin])),
            self.assertRaisesRegex(BenchError, "did not end within 1 s"),
        ):
            programs.run_checked(["sh", "-c", script], limit_s=1)
        os.close(begin)
        self.assertEqual(os.read(end, 1), b"", "nobody is left to hold the pipe")

    def test_a_program_that_is_not_there_is_named(self) -> None:
        with self.assertRaisesRegex(BenchError, "cannot start `nowhere`: No such file"):
            programs.run_json([self.directory / "nowhere"])

    def test_a_missing_value_is_named(self) -> None:
        with self.assertRaisesRegex(BenchError, "printed no `cpu_s`, only: us"):
            programs.field(Outcome({"us": 1.0}, wall_s=0.0), "cpu_s")

    def test_a_note_stays_when_the_stream_is_piped(self) -> None:
        stream = io.StringIO()
        Progress(stream).note("skipped")
        self.assertEqual(stream.getvalue(), "skipped\n")

    def test_the_python_asked_for_is_taken(self) -> None:
        self.assertEqual(interpreter.base_python({"PHALANX_PEERS_PYTHON": "/some/python3"}), "/some/python3")


if __name__ == "__main__":
    unittest.main()
