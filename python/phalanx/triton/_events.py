"""The interface of a device for Triton and its programs: events, streams and waiting. Time is simulated time."""

from __future__ import annotations

import math
from types import TracebackType
from typing import Any

from ._device import current

__all__ = ["Event", "Interface", "Stream"]

#: `do_bench` repeats a function for a tenth of a second, or as long as its caller says, by its own estimate of five calls. Simulated times do
#: not vary: with so large an estimate it warms up once and measures once.
_LEAST_ESTIMATE_MS = 5e6


class Event:
    """A point in simulated time."""

    def __init__(self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False) -> None:
        self._at: int | None = None

    def record(self, stream: Any = None) -> None:
        """Notes the time: launches before it are over."""
        self._at = current().clock_ps

    def elapsed_time(self, end: Event) -> float:
        """Milliseconds of kernels between two events; NaN if no kernel ran, since nothing else is simulated."""
        if self._at is None or end._at is None:
            raise RuntimeError("both events must be recorded before the time between them is asked for")
        took = (end._at - self._at) / 1e9
        device = current()
        if device.estimating:
            device.estimating = False
            return max(took, _LEAST_ESTIMATE_MS)
        return took or math.nan

    def query(self) -> bool:
        """True: launches are over when they return."""
        return True

    def synchronize(self) -> None:
        """Does nothing: launches are over when they return."""

    def wait(self, stream: Any = None) -> None:
        """Does nothing: launches run in order."""


class Stream:
    """A queue of launches. There is one: launches run in order."""

    cuda_stream = 0

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        return None

    def synchronize(self) -> None:
        """Does nothing: launches are over when they return."""

    def wait_stream(self, stream: Any) -> None:
        """Does nothing: launches run in order."""

    wait_event = wait_stream

    def record_event(self, event: Event | None = None) -> Event:
        """The point after all launches so far."""
        event = Event() if event is None else event
        event.record()
        return event


_Event, _Stream = Event, Stream


class Interface:
    """The part of ``torch.cuda`` that programs ask of a driver."""

    Event = _Event
    Stream = _Stream

    @staticmethod
    def is_available() -> bool:
        """True: the device is simulated."""
        return True

    @staticmethod
    def device_count() -> int:
        """One: the SIP that kernels run on."""
        return 1

    @staticmethod
    def current_device() -> int:
        """The number of the device."""
        return 0

    @staticmethod
    def set_device(device: Any) -> None:
        """Does nothing: there is one device."""

    @staticmethod
    def get_device_name(device: Any = None) -> str:
        """The name of the machine."""
        return current().machine.name

    @staticmethod
    def synchronize(device: Any = None) -> None:
        """Waits for all launches, which are over."""
        current().synchronize()

    @staticmethod
    def current_stream(device: Any = None) -> Any:
        """The one stream."""
        return _Stream()

    default_stream = current_stream

    @staticmethod
    def stream(stream: Any) -> Any:
        """Launches in the block go to a stream."""
        return stream

    @staticmethod
    def empty_cache() -> None:
        """Does nothing: no memory is kept."""
