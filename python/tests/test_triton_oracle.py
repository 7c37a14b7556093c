"""Triton's interpreter as the oracle: the same kernels, the same arguments, in two processes."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("triton", reason="triton is not installed")

from triton_cases import Case, all_cases, difference, run_cases  # noqa: E402
from triton_grammar import make_kernels  # noqa: E402

#: Random kernels of a full run.
KERNELS = int(os.environ.get("PHALANX_TRITON_KERNELS", "500"))
CASES = all_cases()


@cache
def results() -> tuple[list[Any], list[Any]]:
    return run_cases(CASES, "interpreter"), run_cases(CASES, "phalanx")


@pytest.mark.timeout(900)
@pytest.mark.parametrize("number", range(len(CASES)), ids=lambda number: f"{CASES[number].kernel}-{number}")
def test_a_kernel_agrees_with_the_interpreter(number: int) -> None:
    expected, got = results()
    found = difference(CASES[number], expected[number], got[number])
    assert found is None, found


@pytest.mark.timeout(1200)
def test_random_kernels_agree_with_the_interpreter(tmp_path: Path) -> None:
    cases = make_kernels(KERNELS, tmp_path)
    found = [difference(*both) for both in zip(cases, run_cases(cases, "interpreter"), run_cases(cases, "phalanx"), strict=True)]
    wrong = [text for text in found if text is not None]
    assert not wrong, f"{len(wrong)} of {len(cases)} kernels differ:\n" + "\n".join(wrong[:5])


def test_the_harness_finds_what_differs() -> None:
    case = next(case for case in CASES if case.kernel == "add" and case.arguments[0].dtype.kind == "f")
    [expected] = run_cases([case], "interpreter")
    again = [array.copy() for array in expected]
    assert difference(case, expected, again) is None
    again[2][0] += 1
    text = difference(case, expected, again)
    assert text is not None and "array 2 differs in 1 of" in text
    assert "failed" in str(difference(case, expected, "Traceback"))


def test_the_grammar_draws_the_same_kernels(tmp_path: Path) -> None:
    one = make_kernels(100, tmp_path)
    text = Path(one[0].file).read_text()
    two: list[Case] = make_kernels(100, tmp_path)
    assert Path(two[0].file).read_text() == text and str(one[3]) == str(two[3])
    words = ["tl.dot(", "tl.sum(", "for i", "if program", "tl.where(", "mask=", "while left", "tl.cumsum(", "tl.sort(", "tl.flip(", "tl.gather("]
    words += ["tl.atomic_", "tl.make_tensor_descriptor(", "[:, None, None]"]
    for word in words:
        assert word in text, word
