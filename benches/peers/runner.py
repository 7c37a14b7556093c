"""The command line of the bench: picks a suite, runs it, prints its rows."""

from __future__ import annotations

import argparse
import difflib
import sys
from collections.abc import Mapping, Sequence

import suites
from programs import BenchError, Progress


def main(arguments: Sequence[str], known: Mapping[str, suites.Suite] = suites.SUITES) -> int:
    """Runs one suite and returns the exit code: 0 done, 1 could not measure, 2 wrong usage."""
    parser = build_parser(known)
    if not arguments:
        parser.print_help()
        return 0
    options = parser.parse_args(arguments)
    if options.suite not in known:
        print(unknown_suite(options.suite, known), file=sys.stderr)
        return 2
    return run_suite(known[options.suite], quick=options.quick, as_json=options.json)


def build_parser(known: Mapping[str, suites.Suite]) -> argparse.ArgumentParser:
    """The options, with the suites and what each compares in the help."""
    listing = "\n".join(f"  {name:<8} {suite.summary}" for name, suite in known.items())
    parser = argparse.ArgumentParser(
        prog="benches/peers/run",
        usage="%(prog)s SUITE [--json] [--quick]",
        description="Measures Phalanx and its peers side by side, in one run.",
        epilog=f"suites:\n{listing}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("suite", metavar="SUITE", help="which comparison to run")
    parser.add_argument("--json", action="store_true", help="print the rows as JSON")
    parser.add_argument("--quick", action="store_true", help="smaller cases, fewer repeats, under a minute")
    return parser


def unknown_suite(name: str, known: Mapping[str, suites.Suite]) -> str:
    """The message for a suite that does not exist."""
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    hint = f"did you mean `{near[0]}`?" if near else "suites: " + ", ".join(f"`{suite}`" for suite in known)
    return f"error: unknown suite: `{name}`\nhint: {hint}"


def run_suite(suite: suites.Suite, *, quick: bool, as_json: bool) -> int:
    """Runs `suite` and prints what it found; a failure is one message on stderr."""
    progress = Progress(sys.stderr)
    try:
        found = suite.run(quick, progress)
    except BenchError as error:
        progress.clear()
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        progress.clear()
        return 130
    progress.clear()
    print(suite.as_json(found) if as_json else suite.as_table(found))
    return 0
