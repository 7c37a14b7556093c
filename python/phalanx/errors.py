"""The exceptions of phalanx. All but the exceptions of processes derive from :class:`PhalanxError`."""

from __future__ import annotations

__all__ = [
    "ArgumentError",
    "CancelledError",
    "DTypeError",
    "DesyncError",
    "DeviceMemoryError",
    "InternalError",
    "KernelError",
    "MachineError",
    "MismatchError",
    "MissingRanksError",
    "NoDataError",
    "PhalanxError",
    "ProcessException",
    "ProcessExitedException",
    "ProcessRaisedException",
    "ReplicasDifferError",
    "SpawnException",
    "StuckError",
    "TritonError",
    "UnreceivedError",
]

import os
import traceback


class PhalanxError(Exception):
    """An error of phalanx."""


class MachineError(PhalanxError, ValueError):
    """A machine, or a configuration of collectives, that is wrong; the text points at the place."""


class ArgumentError(PhalanxError, ValueError):
    """An argument that cannot be used."""


class DTypeError(PhalanxError, TypeError):
    """An element type that does not exist here."""


class DeviceMemoryError(PhalanxError, MemoryError):
    """No free memory on a SIP, or an access outside of a tensor."""


class KernelError(PhalanxError, RuntimeError):
    """A kernel failed. If its Python code raised, that exception is the ``__cause__``."""


class TritonError(PhalanxError, ValueError):
    """A Triton kernel that could not be read, or that uses what is not supported."""


class MismatchError(PhalanxError, RuntimeError):
    """Ranks that are in different operations; the text shows both sides."""


class UnreceivedError(PhalanxError, RuntimeError):
    """A message that no rank has received."""


class MissingRanksError(PhalanxError, RuntimeError):
    """Ranks that did not come to a monitored barrier in time; the text names them."""


class ReplicasDifferError(PhalanxError, RuntimeError):
    """Copies of one tensor that hold different numbers."""


class NoDataError(PhalanxError, RuntimeError):
    """A number was read in a run that computes none (``data=False``)."""


class CancelledError(PhalanxError, RuntimeError):
    """An operation that was cancelled with its program."""


class StuckError(PhalanxError, RuntimeError):
    """A main program waits for something that can no longer happen. Nothing is cancelled: it can ask for what is missing."""


class InternalError(PhalanxError, RuntimeError):
    """A bug of phalanx. Please report it, with the program."""


class ProcessException(Exception):
    """The failure of a rank, as ``torch.multiprocessing`` has it."""

    def __init__(self, msg: str, error_index: int, error_pid: int | None = None) -> None:
        super().__init__(msg)
        self.msg = msg
        self.error_index = error_index
        self.error_pid = os.getpid() if error_pid is None else error_pid

    @property
    def pid(self) -> int:
        """The process of the rank: this one."""
        return self.error_pid


class ProcessRaisedException(ProcessException):
    """A rank raised."""


class ProcessExitedException(ProcessException):
    """A rank called ``sys.exit`` with another code than 0."""

    def __init__(self, msg: str, error_index: int, exit_code: int) -> None:
        super().__init__(msg, error_index)
        self.exit_code = exit_code
        self.signal_name: str | None = None


class SpawnException(ProcessRaisedException):
    """Ranks failed: ``errors`` maps each rank that failed by itself to its exception.

    ``cancelled`` lists the ranks that ended because of others; ``secondary`` maps ranks to what their ``finally`` blocks
    raised while they were cancelled.
    """

    def __init__(self, errors: dict[int, BaseException], text: str | None = None) -> None:
        self.errors = dict(errors)
        self.cancelled: list[int] = []
        self.secondary: dict[int, BaseException] = {}
        index = min(self.errors, default=0)
        super().__init__(text if text is not None else _text(self.errors), index)


class DesyncError(SpawnException):
    """The ranks wait for each other: the text says which rank is in which operation, and which ranks are missing."""


def _text(errors: dict[int, BaseException]) -> str:
    """Returns the tracebacks by rank, each line with its rank."""
    parts = []
    for rank, error in sorted(errors.items()):
        lines = "".join(traceback.format_exception(error)).rstrip().splitlines()
        body = "\n".join(f"[rank{rank}]: {line}" for line in lines)
        parts.append(f"\n\n-- Process {rank} terminated with the following error:\n{body}")
    return "".join(parts)
