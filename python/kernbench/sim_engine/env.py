"""Processes and events in simulated time, with the names of SimPy. Times are in nanoseconds.

A process is a generator that yields events. Its clock is that of a :class:`phalanx.Context`: requests to the simulated machine are events
as well. Only the main program makes time pass.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Generator, Iterable
from typing import TYPE_CHECKING, Any

from phalanx._core import Pending
from phalanx.errors import StuckError

from .._workers import is_main

if TYPE_CHECKING:
    from .engine import GraphEngine

__all__ = ["AnyOf", "AllOf", "Env", "Event", "Process", "Timeout"]


class Event:
    """Something that happens once."""

    def __init__(self, env: Env, what: str = "an event") -> None:
        self.env = env
        self.what = what
        self.callbacks: list[Callable[[Event], None]] | None = []
        self.triggered = False
        self.value: Any = None
        self.error: BaseException | None = None

    @property
    def processed(self) -> bool:
        """True if everybody who waited was told."""
        return self.callbacks is None

    def succeed(self, value: Any = None) -> Event:
        """Lets it happen, now."""
        return self._happen(value, None)

    def fail(self, error: BaseException) -> Event:
        """Lets it happen as an error, which is raised where it is waited for."""
        return self._happen(None, error)

    def _happen(self, value: Any, error: BaseException | None) -> Event:
        if self.triggered:
            raise RuntimeError(f"{self.what} has happened already")
        self.triggered, self.value, self.error = True, value, error
        self.env._ready.append(self)
        return self

    def _tell(self) -> None:
        callbacks, self.callbacks = self.callbacks, None
        for callback in callbacks or ():
            callback(self)

    def _then(self, callback: Callable[[Event], None]) -> None:
        if self.callbacks is None:
            callback(self)
        else:
            self.callbacks.append(callback)


class Timeout(Event):
    """An instant."""

    def __init__(self, env: Env, picoseconds: int, value: Any = None) -> None:
        super().__init__(env, f"{picoseconds / 1000:g} ns to pass")
        self.value = value
        env._timers_made += 1
        heapq.heappush(env._timers, (env._now_ps() + picoseconds, env._timers_made, self))

    def _happen(self, value: Any, error: BaseException | None) -> Event:
        return super()._happen(self.value, error)


class AnyOf(Event):
    """The first of several events."""

    def __init__(self, env: Env, events: Iterable[Event]) -> None:
        self.events = list(events)
        super().__init__(env, " or ".join(event.what for event in self.events))
        for event in self.events:
            event._then(self._seen)

    def _seen(self, event: Event) -> None:
        if not self.triggered:
            self._happen(event.value, event.error)


class AllOf(Event):
    """The last of several events."""

    def __init__(self, env: Env, events: Iterable[Event]) -> None:
        self.events = list(events)
        super().__init__(env, " and ".join(event.what for event in self.events))
        self._left = len(self.events)
        for event in self.events:
            event._then(self._seen)
        if not self.events:
            self.succeed([])

    def _seen(self, event: Event) -> None:
        self._left -= 1
        if self.triggered:
            return
        if event.error is not None:
            self.fail(event.error)
        elif self._left == 0:
            self.succeed([event.value for event in self.events])


class Process(Event):
    """A generator that runs; as an event, its end."""

    def __init__(self, env: Env, generator: Generator[Event, Any, Any], name: str = "process") -> None:
        super().__init__(env, f"the end of {name}")
        self.name = name
        self.target: Event | None = None
        self._generator = generator
        env._processes[self] = None
        Event(env, f"the start of {name}").succeed()._then(self._step)

    @property
    def is_alive(self) -> bool:
        """True until it has ended."""
        return not self.triggered

    def _step(self, event: Event) -> None:
        if self.triggered:
            return
        try:
            # Wrappers around generators lose what is sent: values are asked for, not passed.
            awaited = next(self._generator) if event.error is None else self._generator.throw(event.error)
        except StopIteration as stop:
            self._end()
            self.succeed(stop.value)
            return
        except BaseException as error:
            self._end()
            self.fail(error)
            return
        if not isinstance(awaited, Event):
            self.cancel()
            self.fail(TypeError(f"{self.name} yields {awaited!r}, which is no event"))
            return
        self.target = awaited
        awaited._then(self._step)

    def _end(self) -> None:
        self.target = None
        self.env._processes.pop(self, None)

    def cancel(self) -> None:
        """Ends the process: its ``finally`` blocks run."""
        if self in self.env._processes:
            self._end()
            self._generator.close()


class Env:
    """Processes, and the time in which they run."""

    def __init__(self, engine: GraphEngine) -> None:
        self.engine = engine
        self._ready: deque[Event] = deque()
        self._timers: list[tuple[int, int, Timeout]] = []
        self._timers_made = 0
        #: Requests to the machine that are not over: the watch, the request and its event.
        self._requests: list[tuple[Any, Any, Event]] = []
        #: The next instant that slices of time stop at, and its watch.
        self._alarm: tuple[int, Any] | None = None
        #: The processes that have not ended, in the order of their starts.
        self._processes: dict[Process, None] = {}

    @property
    def now(self) -> float:
        """The time, in nanoseconds."""
        return self._now_ps() / 1000

    def _now_ps(self) -> int:
        return self.engine._context.now_ps

    def timeout(self, delay: float, value: Any = None) -> Event:
        """Happens after ``delay`` nanoseconds."""
        if delay < 0:
            raise ValueError(f"a delay of {delay} ns")
        return Timeout(self, round(delay * 1000), value)

    def event(self, what: str = "an event") -> Event:
        """Happens when somebody calls ``succeed()``."""
        return Event(self, what)

    def process(self, generator: Generator[Event, Any, Any], name: str | None = None) -> Process:
        """Starts a generator that yields events."""
        return Process(self, generator, name or getattr(generator, "__name__", "process"))

    def any_of(self, events: Iterable[Event]) -> Event:
        """Happens with the first of several events."""
        return AnyOf(self, events)

    def all_of(self, events: Iterable[Event]) -> Event:
        """Happens with the last of several events."""
        return AllOf(self, events)

    def request(self, rank: Any, answer: Any, what: str) -> Event:
        """The end of a request of a rank to its SIP."""
        event = Event(self, what)
        if type(answer) is not Pending:
            return event.succeed(answer)
        self._requests.append((rank.watch(answer), answer, event))
        return event

    def run(self, until: Any = None) -> Any:
        """Makes time pass: until an event, until a time, or until nothing is left."""
        if until is None:
            while self._step():
                pass
            return None
        event = until if isinstance(until, Event) else self.timeout(until - self.now)
        self._drive(event)
        return event.value

    def _drive(self, event: Event) -> None:
        """Makes time pass until an event has happened; raises its error, or says who waits if nothing is left."""
        if not is_main():
            raise RuntimeError("only the main program makes time pass: a worker waits with ctx.wait")
        while not event.processed:
            if not self._step():
                raise StuckError(f"nothing is left that could lead to {event.what}{self._waiters()}")
        if event.error is not None:
            raise event.error

    def _waiters(self) -> str:
        lines = [f"\n  {process.name} waits for {process.target.what}" for process in self._processes if process.target is not None]
        return "".join(lines[:16])

    def _step(self) -> bool:
        """Lets the next thing happen; false if nothing is left."""
        if not self._ready and not self._pass_time():
            return False
        while self._ready:
            self._ready.popleft()._tell()
        return True

    def _pass_time(self) -> bool:
        if self._due():
            return True
        if not self._timers and not self._requests:
            return False
        self._set_alarm()
        self.engine._context._core.drain()
        over = self._ended()
        return self._due() or over

    def _due(self) -> bool:
        """Lets the instants that have come happen."""
        now, any_due = self._now_ps(), False
        while self._timers and self._timers[0][0] <= now:
            heapq.heappop(self._timers)[2].succeed()
            any_due = True
        return any_due

    def _set_alarm(self) -> None:
        """Lets the next slice of time end at the next instant, at the latest."""
        due = self._timers[0][0] if self._timers else None
        if self._alarm is not None and self._alarm[0] != due:
            self._alarm[1].close()
            self._alarm = None
        if due is not None and self._alarm is None:
            rank = self.engine._rank(0)
            self._alarm = (due, rank.watch(rank.sleep(due - self._now_ps())))

    def _ended(self) -> bool:
        """Tells those who wait for requests that are over."""
        ended = [request for request in self._requests if request[0].is_over()]
        if self._alarm is not None and self._alarm[1].is_over():
            self._alarm = None
        for request in ended:
            self._requests.remove(request)
            _, answer, event = request
            try:
                event.succeed(answer.result())
            except Exception as error:
                event.fail(error)
        return bool(ended)

    def _cancel(self, kept: Iterable[Process]) -> None:
        """Ends all processes but these."""
        keep = set(kept)
        for process in [process for process in self._processes if process not in keep]:
            process.cancel()

    def _settle(self) -> None:
        """Lets all requests of the machine end, without processes."""
        while self._requests:
            self.engine._context._core.drain()
            if not self._ended():
                break
        if self._alarm is not None:
            self._alarm[1].close()
            self._alarm = None
