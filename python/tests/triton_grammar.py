"""Random Triton kernels from a grammar: arithmetic, masks, loops, branches, reductions, scans, sorts, gathers, atomics, descriptors and products.

A *value* of a kernel has a type, an axis layout and a bound on its error: a value is *exact* if both sides must agree bit by bit.
Comparisons look at exact values only, so that a last bit never decides a branch.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from triton_cases import Case

_HEAD = '"""Kernels from a grammar."""\n\nimport triton\nimport triton.language as tl\n'
_NUMPY = {"f32": np.float32, "f16": np.float16, "i32": np.int32}
_TRITON = {"f32": "tl.float32", "f16": "tl.float16", "i32": "tl.int32"}


@dataclass
class Value:
    """An expression: its text, its type, and whether it is exact."""

    text: str
    kind: str
    exact: bool = True


@dataclass
class Kernel:
    """A kernel under construction."""

    random: random.Random
    name: str
    lines: list[str] = field(default_factory=list)
    values: list[Value] = field(default_factory=list)
    depth: int = 1
    count: int = 0
    #: A whole number that steers a loop.
    number: str = "tl.load(right) & 7"

    def say(self, line: str) -> None:
        self.lines.append("    " * self.depth + line)

    def let(self, value: Value) -> Value:
        """Gives a value a name."""
        self.count += 1
        name = f"v{self.count}"
        self.say(f"{name} = {value.text}")
        named = Value(name, value.kind, value.exact)
        self.values.append(named)
        return named

    def pick(self, kind: str | None = None, exact: bool = False) -> Value:
        """A value that is there."""
        fitting = [v for v in self.values if (kind is None or v.kind == kind) and (v.exact or not exact)]
        if fitting:
            return self.random.choice(fitting)
        # Whole numbers and floats are there from the beginning: a conversion makes the rest.
        source = self.random.choice([v for v in self.values if v.exact])
        return self.cast(source, kind or "f32")

    def cast(self, value: Value, kind: str) -> Value:
        if value.kind == kind:
            return value
        if kind == "i32":
            return Value(f"tl.clamp({value.text}.to(tl.float32), -100.0, 100.0).to(tl.int32)", kind, value.exact)
        if value.kind == "i32":
            return Value(f"({value.text} % 64).to({_TRITON[kind]})", kind, value.exact)
        return Value(f"{value.text}.to({_TRITON[kind]})", kind, value.exact)

    # Expressions.

    def expression(self, kind: str, depth: int, exact: bool = False) -> Value:
        """A random expression over the values that are there."""
        if depth == 0 or self.random.random() < 0.15:
            return self.leaf(kind, exact)
        make = self.random.choice([self.binary, self.binary, self.unary, self.chosen, self.converted])
        return make(kind, depth - 1, exact)

    def leaf(self, kind: str, exact: bool) -> Value:
        if self.random.random() < 0.2:
            number = self.random.randint(-9, 9)
            return Value(f"({number})" if kind == "i32" else f"({number / 4})", kind)
        return self.pick(kind, exact)

    def binary(self, kind: str, depth: int, exact: bool) -> Value:
        one, other = self.tile(kind, depth, exact), self.expression(kind, depth, exact)
        both = one.exact and other.exact
        if kind == "i32":
            op = self.random.choice(["+", "-", "*", "&", "|", "^", "//", "%", "<<", ">>", "min", "max"])
            if op in ("//", "%"):
                return Value(f"({one.text} {op} (tl.abs({one.text} - {other.text}) % 97 + 1))", kind, both)
            if op in ("<<", ">>"):
                return Value(f"({one.text} {op} ({one.text} & 7))", kind, one.exact)
            if op in ("min", "max"):
                return Value(f"tl.{op}imum({one.text}, {other.text})", kind, both)
            return Value(f"({one.text} {op} {other.text})", kind, both)
        op = self.random.choice(["+", "-", "*", "min", "max", "/"])
        if op == "/":
            return Value(f"({one.text} / ({_half(other)} * {_half(other)} + 1.0))", kind, both)
        if op in ("min", "max"):
            return Value(f"tl.{op}imum({one.text}, {other.text})", kind, both)
        if op == "*":
            return Value(f"({one.text} * {_half(other)})", kind, both)
        return Value(f"({one.text} {op} {other.text})", kind, both)

    def tile(self, kind: str, depth: int, exact: bool) -> Value:
        """An expression that is no constant."""
        made = self.expression(kind, depth, exact)
        return self.pick(kind, exact) if made.text.startswith("(") and made.text[1:-1].lstrip("-").replace(".", "").isdigit() else made

    def unary(self, kind: str, depth: int, exact: bool) -> Value:
        one = self.tile(kind, depth, exact)
        if kind == "i32":
            return Value(self.random.choice([f"(-{one.text})", f"tl.abs({one.text})", f"(~{one.text})"]), kind, one.exact)
        plain = [f"(-{one.text})", f"tl.abs({one.text})"]
        if kind == "f16" or exact or self.random.random() < 0.4:
            return Value(self.random.choice(plain), kind, one.exact)
        curved = ["tl.exp(-tl.abs({0}))", "tl.exp2(-tl.abs({0}))", "tl.log(tl.abs({0}) + 1.0)", "tl.sqrt(tl.abs({0}))", "tl.sin({0})", "tl.cos({0})", "tl.sigmoid({0})", "tl.erf({0})"]
        return Value(self.random.choice(curved).format(f"tl.clamp({one.text}, -8.0, 8.0)"), kind, False)

    def condition(self, depth: int) -> str:
        kind = self.random.choice(["f32", "i32"])
        one, other = self.tile(kind, depth, True), self.expression(kind, depth, True)
        return f"({one.text} {self.random.choice(['<', '<=', '>', '>=', '==', '!='])} {other.text})"

    def chosen(self, kind: str, depth: int, exact: bool) -> Value:
        condition = self.condition(min(depth, 1))
        if self.random.random() < 0.3:
            condition = f"({condition} {self.random.choice('&|')} {self.condition(0)})"
        one, other = self.tile(kind, depth, exact), self.tile(kind, depth, exact)
        return Value(f"tl.where({condition}, {one.text}, {other.text})", kind, one.exact and other.exact)

    def converted(self, kind: str, depth: int, exact: bool) -> Value:
        source = self.random.choice([other for other in _NUMPY if other != kind])
        # A float that is not exact could fall on either side of a whole number.
        return self.cast(self.tile(source, depth, exact or kind == "i32"), kind)

    # Statements.

    def loop(self) -> None:
        """Adds terms to a value in a loop."""
        kind = self.random.choice(["f32", "i32"])
        start = self.let(self.tile(kind, 1, False))
        bound = self.random.choice([str(self.random.randint(1, 5)), "turns"])
        before = len(self.values)
        self.say(f"for i{self.count} in range({bound}):")
        self.depth += 1
        turn = f"i{self.count}"
        term = self.expression(kind, 2)
        scale = f"({turn} + 1)" if kind == "i32" else "0.5"
        self.say(f"{start.text} = {start.text} + {term.text} * {scale}")
        self.depth -= 1
        del self.values[before:]
        start.exact = start.exact and term.exact
        if not start.exact:
            self.spoil(start)

    def spoil(self, value: Value) -> None:
        """A value that was exact is not any more."""
        for known in self.values:
            if known.text == value.text:
                known.exact = False

    def branch(self) -> None:
        """A branch on the number of the program."""
        kind = self.random.choice(["f32", "i32"])
        target = self.let(self.tile(kind, 1, False))
        before = len(self.values)
        self.say(f"if program % 2 == {self.random.randint(0, 1)}:")
        self.depth += 1
        one = self.tile(kind, 2, False)
        self.say(f"{target.text} = {one.text} + {target.text}")
        self.depth -= 1
        other = one
        if self.random.random() < 0.5:
            self.say("else:")
            self.depth += 1
            other = self.tile(kind, 2, False)
            self.say(f"{target.text} = {target.text} - {other.text}")
            self.depth -= 1
        del self.values[before:]
        target.exact = target.exact and one.exact and other.exact
        if not target.exact:
            self.spoil(target)

    def reduction(self, axes: int) -> None:
        """Puts the reduction of a value along an axis back into all elements."""
        kind = self.random.choice(["f32", "i32"])
        op = self.random.choice(["sum", "max", "min"])
        source = self.let(self.tile(kind, 1, False))
        exact = source.exact and (op != "sum" or kind == "i32")
        if axes == 1:
            self.let(Value(f"({source.text} - tl.{op}({source.text}, axis=0){_scaled(kind, op)})", kind, exact))
        else:
            axis = self.random.randint(0, 1)
            index = "[None, :]" if axis == 0 else "[:, None]"
            self.let(Value(f"({source.text} - tl.{op}({source.text}, axis={axis}){index}{_scaled(kind, op)})", kind, exact))

    def waiting(self) -> None:
        """Adds terms while a number that was loaded allows it."""
        start = self.let(self.tile("i32", 1, True))
        left = f"left{self.count}"
        self.say(f"{left} = {self.number}")
        before = len(self.values)
        self.say(f"while {left} > {self.random.randint(0, 3)}:")
        self.depth += 1
        term = self.tile("i32", 1, True)
        self.say(f"{start.text} = {start.text} + {term.text} * {left}")
        self.say(f"{left} -= {self.random.randint(1, 3)}")
        self.depth -= 1
        del self.values[before:]

    def scan(self, axes: int) -> None:
        """Sums, or the like, of all elements up to each."""
        kind = self.random.choice(["f32", "i32"])
        source = self.let(self.tile(kind, 1, False))
        axis = self.random.randrange(axes)
        way = self.random.choice(["", ", reverse=True"])
        scale = "" if kind == "i32" else " * 0.015625"
        self.let(Value(f"(tl.cumsum({source.text}, axis={axis}{way}){scale})", kind, source.exact and kind == "i32"))

    def moved(self, axes: int) -> None:
        """The elements of a value in another order."""
        kind = self.random.choice(["f32", "i32"])
        source = self.let(self.tile(kind, 1, False))
        way = self.random.choice(["sort", "flip", "gather"])
        if way == "gather":
            axis = self.random.randrange(axes)
            place = self.let(self.tile("i32", 1, True))
            length = f"{source.text}.shape[{axis}]"
            self.let(Value(f"tl.gather({source.text}, {place.text} & ({length} - 1), {axis})", kind, source.exact))
        elif way == "flip":
            self.let(Value(f"tl.flip({source.text}, {self.random.randrange(axes)})", kind, source.exact))
        else:
            down = self.random.choice([False, True])
            self.let(Value(f"tl.sort({source.text}, descending={down})", kind, source.exact))

    def statements(self, axes: int) -> None:
        for _ in range(self.random.randint(1, 4)):
            choice = self.random.random()
            if choice < 0.4:
                self.let(self.expression_tile())
            elif choice < 0.5:
                self.loop()
            elif choice < 0.6:
                self.branch()
            elif choice < 0.7:
                self.waiting()
            elif choice < 0.8:
                self.scan(axes)
            elif choice < 0.9:
                self.moved(axes)
            else:
                self.reduction(axes)

    def expression_tile(self) -> Value:
        kind = self.random.choice(["f32", "f32", "i32", "f16"])
        return self.tile(kind, 3, False)


def _half(value: Value) -> str:
    """A factor whose products stay finite."""
    return f"tl.clamp({value.text} + 0.0, -2.0, 2.0)" if value.kind == "f32" and not value.text.startswith("(") else f"({value.text} * 0.125)"


def _scaled(kind: str, op: str) -> str:
    return "" if kind == "i32" or op != "sum" else " * 0.015625"


def make_kernel(seed: int) -> tuple[str, Case]:
    """The source of a kernel and a launch of it."""
    source = random.Random(seed)
    kernel = Kernel(source, f"kernel_{seed}")
    make = source.choice([_row_kernel, _row_kernel, _tile_kernel, _described_kernel, _atomic_kernel, _product_kernel, _batch_kernel])
    return make(kernel)


def _finish(kernel: Kernel, parameters: str, case: Case) -> tuple[str, Case]:
    head = f"\n\n@triton.jit\ndef {kernel.name}({parameters}):\n"
    return head + "\n".join(kernel.lines) + "\n", case


def _numbers(kernel: Kernel, *shape: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(kernel.random.randrange(1 << 30))
    return rng.uniform(-2, 2, shape).astype(np.float32), rng.integers(-50, 50, shape).astype(np.int32)


def _store(kernel: Kernel, at: str, inside: str) -> float:
    """Stores one value of each type; returns the tolerance of the results."""
    exact = True
    for kind, out in (("f32", "out"), ("i32", "whole")):
        value = kernel.tile(kind, 2, kind == "i32")
        exact = exact and (value.exact or kind == "i32")
        # A store of a smaller type than the computed one: the tests of other kernels cannot see it.
        kernel.say(f"tl.store({out} + {at}, {value.text}, mask={inside})")
    return 0.0 if exact else 5e-4


def _blocks_of_a_row(kernel: Kernel) -> tuple[int, int]:
    """Says which block of a row a program takes; returns the length of the row and of a block."""
    count, block = kernel.random.randint(1, 700), 1 << kernel.random.randint(4, 8)
    kernel.say("program = tl.program_id(0)")
    kernel.say("at = program * BLOCK + tl.arange(0, BLOCK)")
    kernel.say("inside = at < count")
    return count, block


def _row_kernel(kernel: Kernel) -> tuple[str, Case]:
    """One axis: programs take blocks of a row."""
    r = kernel.random
    count, block = _blocks_of_a_row(kernel)
    kernel.say(f"x = tl.load(left + at, mask=inside, other={r.randint(-3, 3)}.0)")
    kernel.say(f"y = tl.load(right + at, mask=inside, other={r.randint(1, 9)})")
    kernel.values += [Value("x", "f32"), Value("y", "i32"), Value("at", "i32"), Value("x.to(tl.float16)", "f16")]
    kernel.statements(1)
    tolerance = _store(kernel, "at", "inside")
    x, y = _numbers(kernel, count)
    grid = (-(-count // block),)
    case = Case(kernel.name, grid, [x, y, np.zeros_like(x), np.zeros_like(y), count, r.randint(0, 4)], {"BLOCK": block}, tolerance)
    return _finish(kernel, "left, right, out, whole, count, turns, BLOCK: tl.constexpr", case)


def _tile_kernel(kernel: Kernel) -> tuple[str, Case]:
    """Two axes, with strides of any order."""
    r = kernel.random
    rows, columns = r.randint(1, 40), r.randint(1, 60)
    tall, wide = 1 << r.randint(2, 4), 1 << r.randint(2, 5)
    kernel.say("program = tl.program_id(0) + tl.program_id(1)")
    kernel.say("down = tl.program_id(0) * TALL + tl.arange(0, TALL)[:, None]")
    kernel.say("across = tl.program_id(1) * WIDE + tl.arange(0, WIDE)[None, :]")
    kernel.say("inside = (down < rows) & (across < columns)")
    kernel.say("at = down * stride_m + across * stride_n")
    kernel.say("x = tl.load(left + at, mask=inside, other=0.5)")
    kernel.say("y = tl.load(right + down * columns + across, mask=inside, other=3)")
    kernel.say("both = down * 7 + across")
    kernel.values += [Value("x", "f32"), Value("y", "i32"), Value("both", "i32"), Value("x.to(tl.float16)", "f16")]
    kernel.statements(2)
    tolerance = _store(kernel, "down * columns + across", "inside")
    x, y = _numbers(kernel, rows, columns)
    strides = (columns, 1) if r.random() < 0.5 else (1, rows)
    grid = (-(-rows // tall), -(-columns // wide))
    arguments = [x, y, np.zeros_like(x), np.zeros_like(y), rows, columns, *strides, r.randint(0, 4)]
    case = Case(kernel.name, grid, arguments, {"TALL": tall, "WIDE": wide}, tolerance)
    names = "left, right, out, whole, rows, columns, stride_m, stride_n, turns, TALL: tl.constexpr, WIDE: tl.constexpr"
    return _finish(kernel, names, case)


def _product_kernel(kernel: Kernel) -> tuple[str, Case]:
    """A product of matrices, and arithmetic after it."""
    r = kernel.random
    kernel.number = "turns + 2"
    m, n, k = r.randint(1, 50), r.randint(1, 50), r.randint(1, 70)
    half = r.random() < 0.5
    kernel.say("program = tl.program_id(0) + tl.program_id(1)")
    kernel.say("down = tl.program_id(0) * 16 + tl.arange(0, 16)[:, None]")
    kernel.say("across = tl.program_id(1) * 16 + tl.arange(0, 16)[None, :]")
    kernel.say("inside = (down < M) & (across < N)")
    kernel.say("total = tl.zeros((16, 16), dtype=tl.float32)")
    kernel.say("for first in range(0, K, 16):")
    kernel.say("    inner = first + tl.arange(0, 16)")
    kernel.say("    a = tl.load(left + down * K + inner[None, :], mask=(down < M) & (inner[None, :] < K), other=0.0)")
    kernel.say("    b = tl.load(right + inner[:, None] * N + across, mask=(inner[:, None] < K) & (across < N), other=0.0)")
    kernel.say(f"    total {r.choice(['= tl.dot(a, b, total, ', '+= tl.dot(a, b, '])}input_precision=\"ieee\")")
    kernel.say("both = down * 5 + across")
    kernel.values += [Value("(total * 0.0625)", "f32", False), Value("both", "i32"), Value("both.to(tl.float32)", "f32")]
    kernel.statements(2)
    tolerance = _store(kernel, "down * N + across", "inside")
    rng = np.random.default_rng(r.randrange(1 << 30))
    kind = np.float16 if half else np.float32
    a, b = rng.uniform(-2, 2, (m, k)).astype(kind), rng.uniform(-2, 2, (k, n)).astype(kind)
    grid = (-(-m // 16), -(-n // 16))
    arguments = [a, b, np.zeros((m, n), np.float32), np.zeros((m, n), np.int32), m, n, k, r.randint(0, 4)]
    return _finish(kernel, "left, right, out, whole, M, N, K, turns", Case(kernel.name, grid, arguments, {}, tolerance))


def _described_kernel(kernel: Kernel) -> tuple[str, Case]:
    """Two axes by descriptors, whose blocks reach beyond the tensors."""
    r = kernel.random
    rows, columns = r.randint(1, 40), 4 * r.randint(1, 15)
    tall, wide = 1 << r.randint(2, 4), 1 << r.randint(2, 5)
    kernel.say("program = tl.program_id(0) + tl.program_id(1)")
    kernel.say("first, begin = tl.program_id(0) * TALL, tl.program_id(1) * WIDE")
    kernel.say("down = first + tl.arange(0, TALL)[:, None]")
    kernel.say("across = begin + tl.arange(0, WIDE)[None, :]")
    kernel.say("inside = (down < rows) & (across < columns)")
    kernel.say("source = tl.make_tensor_descriptor(left, shape=[rows, columns], strides=[columns, 1], block_shape=[TALL, WIDE])")
    kernel.say("target = tl.make_tensor_descriptor(out, shape=[rows, columns], strides=[columns, 1], block_shape=[TALL, WIDE])")
    kernel.say("x = source.load([first, begin])")
    kernel.say("y = tl.load(right + down * columns + across, mask=inside, other=3)")
    kernel.values += [Value("x", "f32"), Value("y", "i32"), Value("x.to(tl.float16)", "f16")]
    kernel.statements(2)
    value, whole = kernel.tile("f32", 2, False), kernel.tile("i32", 2, True)
    kernel.say(f"target.store([first, begin], ({value.text} + tl.zeros((TALL, WIDE), tl.float32)))")
    kernel.say(f"tl.store(whole + down * columns + across, {whole.text}, mask=inside)")
    x, y = _numbers(kernel, rows, columns)
    grid = (-(-rows // tall), -(-columns // wide))
    arguments = [x, y, np.zeros_like(x), np.zeros_like(y), rows, columns, r.randint(0, 4)]
    case = Case(kernel.name, grid, arguments, {"TALL": tall, "WIDE": wide}, 0.0 if value.exact else 5e-4)
    return _finish(kernel, "left, right, out, whole, rows, columns, turns, TALL: tl.constexpr, WIDE: tl.constexpr", case)


def _atomic_kernel(kernel: Kernel) -> tuple[str, Case]:
    """Programs change the same elements of memory, in any order."""
    r = kernel.random
    count, block = _blocks_of_a_row(kernel)
    kernel.say("x = tl.load(left + at, mask=inside, other=1.0)")
    kernel.say("y = tl.load(right + at, mask=inside, other=5)")
    kernel.values += [Value("x", "f32"), Value("y", "i32"), Value("at", "i32"), Value("x.to(tl.float16)", "f16")]
    kernel.statements(1)
    change = r.choice(["add", "max", "min", "and", "or", "xor"])
    value, place = kernel.tile("i32", 2, True), kernel.tile("i32", 1, True)
    kernel.say(f"tl.atomic_{change}(whole + ({place.text} & 15), {value.text}, mask=inside)")
    kernel.say(f"tl.atomic_{r.choice(['max', 'min'])}(out + (y & 7), x, mask=inside)")
    x, y = _numbers(kernel, count)
    case = Case(kernel.name, (-(-count // block),), [x, y, np.zeros(8, np.float32), np.full(16, 3, np.int32), count, r.randint(0, 4)], {"BLOCK": block})
    return _finish(kernel, "left, right, out, whole, count, turns, BLOCK: tl.constexpr", case)


def _batch_kernel(kernel: Kernel) -> tuple[str, Case]:
    """Products of tensors of three axes, and arithmetic and reductions on them."""
    r = kernel.random
    batch, m, n, k = 1 << r.randint(0, 2), 16, 1 << r.randint(4, 5), 1 << r.randint(4, 5)
    kernel.say("program = tl.program_id(0)")
    kernel.say("each = tl.arange(0, B)[:, None, None] + program * B")
    kernel.say("a = tl.load(left + each * (M * K) + tl.arange(0, M)[None, :, None] * K + tl.arange(0, K)[None, None, :])")
    kernel.say("b = tl.load(right + each * (K * N) + tl.arange(0, K)[None, :, None] * N + tl.arange(0, N)[None, None, :])")
    start = r.choice(["tl.dot(a, b)", "tl.dot(a, b, tl.full((B, M, N), 0.5, tl.float32))"])
    kernel.say(f"total = {start[:-1]}, input_precision=\"ieee\") * 0.0625")
    kernel.say("at = each * (M * N) + tl.arange(0, M)[None, :, None] * N + tl.arange(0, N)[None, None, :]")
    kernel.values += [Value("total", "f32", False), Value("at", "i32")]
    axis = r.randrange(3)
    for _ in range(r.randint(1, 2)):
        kernel.let(kernel.tile("f32", 2, False))
    value = kernel.tile("f32", 1, False)
    kernel.say(f"last = {value.text} + total")
    kernel.say(f"last = last - tl.{r.choice(['max', 'min'])}(last, axis={axis}, keep_dims=True)")
    kernel.say("tl.store(out + at, last)")
    kernel.say(f"tl.store(whole + at, {kernel.tile('i32', 2, True).text} + at * 0)")
    programs = r.randint(1, 3)
    rng = np.random.default_rng(r.randrange(1 << 30))
    kind = r.choice([np.float16, np.float32])
    a, b = (rng.uniform(-2, 2, (programs * batch, *shape)).astype(kind) for shape in ((m, k), (k, n)))
    outs = [np.zeros((programs * batch, m, n), kind) for kind in (np.float32, np.int32)]
    case = Case(kernel.name, (programs,), [a, b, *outs, r.randint(0, 4)], {"B": batch, "M": m, "N": n, "K": k}, 5e-4)
    return _finish(kernel, "left, right, out, whole, turns, B: tl.constexpr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr", case)


def make_kernels(count: int, directory: Path, first: int = 1000) -> list[Case]:
    """Cases of ``count`` kernels, whose source is written to a file."""
    parts, cases = [_HEAD], []
    for seed in range(first, first + count):
        text, case = make_kernel(seed)
        parts.append(text)
        cases.append(case)
    path = directory / f"generated_{first}_{count}.py"
    path.write_text("".join(parts))
    for case in cases:
        case.file = str(path)
    return cases
