"""Reports: where the time of a run went."""

from __future__ import annotations

from html import escape
from os import PathLike
from typing import Any

from . import _core

__all__ = ["Report"]

_COLORS = {
    "compute": "#2f7d4f", "dma": "#3b6fb6", "hbm": "#6b4fa3", "mesh": "#a34f8e", "latency": "#8a8a8a",
    "link": "#c77d1e", "credit": "#b33a3a", "dependency": "#c9b458", "idle": "#e4e4e4",
}


class Report:
    """The report of a run. ``print`` it, or let a notebook show it."""

    def __init__(self, core: _core.Report) -> None:
        self._core = core

    @property
    def simulated_ps(self) -> int:
        """The simulated time, in picoseconds."""
        return self._core.simulated_ps

    @property
    def simulated(self) -> float:
        """The simulated time, in seconds."""
        return self._core.simulated_ps / 1e12

    @property
    def events(self) -> int:
        """The number of events of the simulation."""
        return self._core.events

    def __str__(self) -> str:
        return str(self._core)

    def __repr__(self) -> str:
        return f"<phalanx.Report {self.simulated_ps} ps, {self.events} events>"

    def to_dict(self) -> dict[str, Any]:
        """Every number of the report: utilisation, stalls, critical path, ranges, edges; times in picoseconds."""
        return self._core.to_dict()

    def within(self, name: str) -> Report:
        """The report cut to a named range."""
        return Report(self._core.within(name))

    def write_trace(self, path: str | PathLike[str]) -> None:
        """Writes a timeline for Perfetto (``.pftrace``) or any viewer of Chrome traces (``.json``), if the context records."""
        self._core.write_trace(path)

    def op_log(self) -> str:
        """One line for each operation, if the context records."""
        return self._core.op_log()

    def _repr_html_(self) -> str:
        facts = self.to_dict()
        total = max(facts["simulated_ps"], 1)
        return (
            '<div style="font-family:sans-serif;font-size:13px;max-width:60em">'
            f"<p><b>simulated {escape(_time(facts['simulated_ps']))}</b> ({facts['simulated_ps']} ps, {facts['events']} events)</p>"
            f"{_stalls(facts['stalls'], total)}{_path(facts['critical_path'], total)}</div>"
        )


def _time(picoseconds: int) -> str:
    for unit, size in (("s", 10**12), ("ms", 10**9), ("us", 10**6), ("ns", 10**3)):
        if picoseconds >= size:
            return f"{picoseconds / size:.3f} {unit}"
    return f"{picoseconds} ps"


def _bar(parts: dict[str, int], total: int) -> str:
    """A row of colours, as long as the run."""
    x, cells = 0.0, []
    for kind, time in parts.items():
        width = 600 * time / total
        if width > 0:
            title = escape(f"{kind}: {_time(time)} ({100 * time / total:.1f} %)")
            cells.append(
                f'<rect x="{x:.2f}" y="0" width="{width:.2f}" height="14" fill="{_COLORS[kind]}"><title>{title}</title></rect>'
            )
        x += width
    return f'<svg width="600" height="14" role="img">{"".join(cells)}</svg>'


def _stalls(rows: list[dict[str, Any]], total: int, most: int = 12) -> str:
    if not rows:
        return ""
    shown = sorted(rows, key=lambda row: row["idle_ps"])[:most]
    lines = [
        f"<tr><td>{escape(row['resource'])}</td><td>{_bar({**row['time_ps'], 'idle': row['idle_ps']}, total)}</td></tr>"
        for row in shown
    ]
    left_out = f"<p>and {len(rows) - most} more</p>" if len(rows) > most else ""
    legend = " ".join(
        f'<span><svg width="10" height="10"><rect width="10" height="10" fill="{color}"/></svg> {kind}</span>'
        for kind, color in _COLORS.items()
    )
    return f"<p>stalls</p><p>{legend}</p><table>{''.join(lines)}</table>{left_out}"


def _path(path: dict[str, Any], total: int, most: int = 10) -> str:
    if path["end"] is None:
        return ""
    lines = [
        f"<tr><td>{escape(part['resource'])}</td><td>{escape(part['kind'])}</td><td>{part['count']}</td>"
        f"<td>{_time(part['time_ps'])}</td><td>{100 * part['time_ps'] / total:.1f} %</td></tr>"
        for part in path["parts"][:most]
    ]
    head = "<tr><th>through</th><th>for</th><th>times</th><th>time</th><th>share</th></tr>"
    return (
        f"<p>critical path, to the end of {escape(path['end'])}</p>{_bar(path['time_ps'], total)}"
        f"<table>{head}{''.join(lines)}</table>{_path_lines(path.get('lines', []), total, most)}"
    )


def _path_lines(rows: list[dict[str, Any]], total: int, most: int) -> str:
    """The lines of kernels on the critical path."""
    if not rows:
        return ""
    lines = [
        f"<tr><td>{escape(row['line'].rsplit('/', 1)[-1])}</td><td>{row['steps']}</td><td>{_time(row['total_ps'])}</td>"
        f"<td>{100 * row['total_ps'] / total:.1f} %</td><td><code>{escape(row['source'].strip())}</code></td></tr>"
        for row in rows[:most]
    ]
    head = "<tr><th>through line</th><th>steps</th><th>time</th><th>share</th><th>source</th></tr>"
    return f"<table>{head}{''.join(lines)}</table>"
