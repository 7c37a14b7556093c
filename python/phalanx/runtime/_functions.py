"""Functions of tasks: their names, their versions, and how a child finds them."""

from __future__ import annotations

import importlib
import os
import sys
import zlib
from collections.abc import Callable, Iterable
from types import CodeType
from typing import Any, TypeVar, overload

from .. import _core
from ._errors import FunctionError

__all__ = ["Known", "describe", "graph", "name_of", "registered", "resolve", "task", "version_of"]

#: The name of the script that runs, in children.
MAIN = "__phalanx_main__"

_F = TypeVar("_F", bound=Callable[..., Any])

#: Functions that were declared, in order.
_declared: dict[str, Any] = {}
_MARK = "__phalanx_kind__"


@overload
def task(function: _F, /) -> _F: ...
@overload
def task(*, collective: bool = False) -> Callable[[_F], _F]: ...
def task(function: Any = None, /, *, collective: bool = False) -> Any:
    """Declares a function of tasks: a :class:`Worker` that is made later, and is given no list of functions, knows it.

    A ``collective`` function meets its peers while it runs, so it can only be submitted as a group.

    >>> from phalanx import runtime
    >>> @runtime.task
    ... def double(x):
    ...     x *= 2
    """
    if function is None:
        return lambda function: _declare(function, "collective" if collective else "task")
    return _declare(function, "task")


def graph(function: _F, /) -> _F:
    """Declares a function that builds a graph, for workers that have workers: ``function(graph, *args)``."""
    return _declare(function, "graph")


def _declare(function: _F, kind: str) -> _F:
    setattr(function, _MARK, kind)
    # A module that is loaded again declares its functions again.
    _declared[f"{function.__module__}:{function.__qualname__}"] = function
    return function


def registered() -> list[Any]:
    """The functions that were declared."""
    return list(_declared.values())


def resolve(name: str) -> Any:
    """The object with this name: ``package.module:function``."""
    module_name, _, path = name.partition(":")
    if not path:
        raise FunctionError(f"`{name}` names no function, expected `package.module:function`")
    try:
        found: Any = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not (module_name + ".").startswith(error.name + "."):
            raise
        raise FunctionError(f"`{name}`: there is no module `{error.name}`") from None
    for part in path.split("."):
        inside = found
        try:
            found = getattr(inside, part)
        except AttributeError:
            raise FunctionError(f"`{name}`: {_missing(inside, part, module_name)}") from None
    return found


def _missing(inside: Any, part: str, module_name: str) -> str:
    import difflib

    near = difflib.get_close_matches(part, dir(inside), 1)
    hint = f"; did you mean `{near[0]}`?" if near else ""
    return f"`{part}` is not at the top level of `{module_name}`{hint}"


def name_of(function: Any) -> str:
    """The name under which children find a function."""
    if isinstance(function, str):
        resolve(function)
        return function
    if not callable(function):
        raise FunctionError(f"a function of tasks is a function or its name, `package.module:function`: {function!r}")
    path = getattr(function, "__qualname__", None) or getattr(function, "__name__", None)
    module_name = getattr(function, "__module__", None)
    if not path or not module_name:
        raise FunctionError(f"{function!r} has no name by which a child could find it: give `package.module:function`")
    name = f"{module_name}:{path}"
    advice = "define it with `def` at the top level of a module"
    if "<" in path:
        raise FunctionError(f"`{name}` cannot be found by its name, and children find functions so: {advice}")
    if module_name == "__main__" and main_program() is None:
        raise FunctionError(f"`{name}` is defined in an interactive session, which children cannot load: put it into a file and import it")
    if module_name not in sys.modules:
        raise FunctionError(f"`{name}` is of a module that cannot be imported: {advice}")
    if resolve(name) is not function:
        raise FunctionError(f"`{name}` is now another object than the one given: {advice}, and do not replace it")
    return name


def main_program() -> tuple[str, str] | None:
    """The way for a child to load the script that runs: as a module or as a file; ``None`` if there is none."""
    main = sys.modules["__main__"]
    spec = getattr(main, "__spec__", None)
    # In a child the script is loaded already, under this name.
    if spec is not None and spec.name != MAIN:
        return "module", spec.name
    file = getattr(main, "__file__", None)
    return ("file", file) if file is not None and os.path.isfile(file) else None


def version_of(function: Any) -> int:
    """A number that changes with the code of a function."""
    code = getattr(function, "__code__", None)
    return _digest(code, 0) if isinstance(code, CodeType) else 1


def _digest(code: CodeType, seed: int) -> int:
    parts = [code.co_code, repr((code.co_names, code.co_varnames, code.co_argcount, code.co_kwonlyargcount, code.co_flags)).encode()]
    for part in parts:
        seed = zlib.crc32(part, seed)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            seed = _digest(constant, seed)
        else:
            # The order of a set is not the same in every process.
            text = repr(sorted(map(repr, constant))) if isinstance(constant, frozenset) else repr(constant)
            seed = zlib.crc32(text.encode(), seed)
    return seed


#: A function for a child: its name, whether it is a graph, whether it is collective, its version.
Description = tuple[str, bool, bool, int]


def describe(function: Any) -> Description:
    """The description of a function for children."""
    name = name_of(function)
    found = resolve(name) if isinstance(function, str) else function
    kind = getattr(found, _MARK, "task")
    return name, kind == "graph", kind == "collective", version_of(found)


class Known:
    """The functions of a worker, by object and by name."""

    def __init__(self, functions: Iterable[tuple[Any, _core.Function]]) -> None:
        self._known: dict[Any, _core.Function] = {}
        for function, core in functions:
            self._known[core.name] = core
            try:
                self._known[function] = core
            except TypeError:
                # It has no hash: only its name is known.
                continue

    def __getitem__(self, function: Any) -> _core.Function:
        found = self._known.get(function)
        return found if found is not None else self._missing(function)

    def _missing(self, function: Any) -> _core.Function:
        import difflib

        name = function if isinstance(function, str) else name_of(function)
        found = self._known.get(name)
        if found is not None:
            return found
        names = [name for name in self._known if isinstance(name, str)]
        near = difflib.get_close_matches(name, names, 1)
        hint = f"; did you mean `{near[0]}`?" if near else ""
        raise FunctionError(
            f"`{name}` is not a function of this worker{hint}: declare it with `@phalanx.runtime.task` before the worker is made, "
            "or give it to `Worker([...])`"
        )
