"""Reports: cut to a range, and as a notebook shows them."""

from __future__ import annotations

import xml.etree.ElementTree as Tree

import phalanx
import phalanx.distributed as dist
import pytest
from phalanx.errors import ArgumentError


def ranges(record: bool) -> phalanx.Report:
    """The report of a program of two ranges."""

    def worker(rank: int) -> None:
        dist.init_process_group()
        x = phalanx.ones(64, 64)
        for step in range(2):
            with phalanx.range(f"step {step} <&>"):
                x.fill_(step)
                dist.all_reduce(x)

    context = phalanx.Context("pair", record=record)
    context.spawn(worker)
    return context.report()


def test_a_report_can_be_cut_to_a_range() -> None:
    whole = ranges(record=True)
    names = [part["range"] for part in whole.to_dict()["ranges"]]
    assert names == ["step 0 <&>", "step 1 <&>"]
    parts = [whole.within(name) for name in names]
    assert 0 < parts[1].simulated_ps < whole.simulated_ps
    assert sum(part.simulated_ps for part in parts) <= whole.simulated_ps
    first = whole.to_dict()["ranges"][0]
    assert parts[0].simulated_ps == first["to_ps"] - first["from_ps"]
    with pytest.raises(ArgumentError, match="step 0"):
        whole.within("step 7")


def test_a_notebook_gets_plain_html_that_is_well_formed() -> None:
    for report in (ranges(record=False), ranges(record=True).within("step 1 <&>"), phalanx.Context("pair").report()):
        page = Tree.fromstring(report._repr_html_())
        text = "".join(page.itertext())
        assert "simulated" in text and str(report.simulated_ps) in text
        drawn = list(page.iter("rect"))
        assert not list(page.iter("script")) and all(float(rect.get("width", "0")) >= 0 for rect in drawn)
        if report.simulated_ps:
            assert "critical path" in text and drawn
            # No bar is longer than the run.
            for bar in (bar for bar in page.iter("svg") if bar.get("width") == "600"):
                assert sum(float(rect.get("width", "0")) for rect in bar.iter("rect")) <= 600.5


def test_a_context_that_is_asked_for_no_path_differs_in_nothing_else() -> None:
    def worker(rank: int) -> None:
        dist.init_process_group()
        dist.all_reduce(phalanx.ones(64, 64))

    found = {}
    for kept in (True, False):
        context = phalanx.Context("pair", critical_path=kept)
        context.spawn(worker)
        found[kept] = context.report().to_dict(), str(context.report())
    path, none = (found[kept][0].pop("critical_path") for kept in (True, False))
    assert path["end"] == "sip0.cube0.pe0" and none["end"] is None and none["parts"] == []
    assert found[True][0] == found[False][0]
    assert "critical path: not kept" in found[False][1] and "not kept" not in found[True][1]
