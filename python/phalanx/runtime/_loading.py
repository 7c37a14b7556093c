"""The start of children, and their loading of the script of their parent."""

from __future__ import annotations

import sys

__all__ = ["Reached", "command", "is_loading"]

#: True in a child while it loads the script of its parent.
is_loading = False


class Reached(BaseException):
    """The script has come to its first worker: what stands above is all that a child needs."""


def command() -> list[str]:
    """The command that starts an interpreter as a child; the arguments of the child follow."""
    import subprocess

    from ._errors import WorkerError

    if not sys.executable:
        raise WorkerError("workers are interpreters of their own, and this program does not say where its interpreter is (`sys.executable`)")
    # The flags of this interpreter, such as -W and -X; a private function that multiprocessing uses for the same.
    flags: list[str] = getattr(subprocess, "_args_from_interpreter_flags", list)()
    code = f"import sys; sys.path[:] = {sys.path!r}; from phalanx.runtime._child import main; main()"
    return [sys.executable, *flags, "-c", code]
