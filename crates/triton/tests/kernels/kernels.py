"""The kernels of these tests. `python kernels.py` writes the TTIR of each beside this file, with Triton from PyPI and without a GPU."""

import re
from pathlib import Path

import triton
import triton.language as tl
from triton._C.libtriton import ir
from triton.backends.compiler import GPUTarget
from triton.backends.nvidia.compiler import CUDABackend
from triton.compiler import ASTSource

HERE = Path(__file__).parent
TARGET = GPUTarget("cuda", 90, 32)


@triton.jit
def add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    pid = tl.program_id(axis=0)
    offs = pid * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    x = tl.load(x_ptr + offs, mask=mask)
    y = tl.load(y_ptr + offs, mask=mask)
    tl.store(out_ptr + offs, x + y, mask=mask)


@triton.jit
def matmul(a, b, c, M, N, K, sam, sak, sbk, sbn, scm, scn, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, G: tl.constexpr):
    pid = tl.program_id(0)
    down = tl.cdiv(M, BM)
    across = tl.cdiv(N, BN)
    group = pid // (G * across)
    first = group * G
    rows = min(down - first, G)
    pm = first + (pid % (G * across)) % rows
    pn = (pid % (G * across)) // rows
    om = (pm * BM + tl.arange(0, BM)) % M
    on = (pn * BN + tl.arange(0, BN)) % N
    ok = tl.arange(0, BK)
    ap = a + (om[:, None] * sam + ok[None, :] * sak)
    bp = b + (ok[:, None] * sbk + on[None, :] * sbn)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, tl.cdiv(K, BK)):
        x = tl.load(ap, mask=ok[None, :] < K - k * BK, other=0.0)
        y = tl.load(bp, mask=ok[:, None] < K - k * BK, other=0.0)
        acc = tl.dot(x, y, acc)
        ap += BK * sak
        bp += BK * sbk
    cm = pm * BM + tl.arange(0, BM)
    cn = pn * BN + tl.arange(0, BN)
    tl.store(c + scm * cm[:, None] + scn * cn[None, :], acc.to(tl.float16), mask=(cm[:, None] < M) & (cn[None, :] < N))


@triton.jit
def softmax(out, source, in_stride, out_stride, rows, columns, BLOCK: tl.constexpr):
    start = tl.program_id(0)
    step = tl.num_programs(0)
    for row in tl.range(start, rows, step):
        at = tl.arange(0, BLOCK)
        mask = at < columns
        x = tl.load(source + row * in_stride + at, mask=mask, other=-float("inf"))
        x = x - tl.max(x, axis=0)
        top = tl.exp(x)
        tl.store(out + row * out_stride + at, top / tl.sum(top, axis=0), mask=mask)


@triton.jit(noinline=True)
def twice(x, p):
    return x * 2 + tl.load(p)


@triton.jit
def weigh(a, b):
    return a * b + b


@triton.jit
def positive(x, y):
    if x > y:
        return x - y
    return y


@triton.jit
def wide(p, q, lock, n, s, B: tl.constexpr):
    pid = tl.program_id(1)
    if pid >= n:
        return
    o = tl.arange(0, B)
    x = tl.load(p + o, eviction_policy="evict_last", cache_modifier=".ca")
    m = tl.max(x, 0)
    am = tl.argmax(x, 0)
    red = tl.reduce(x, 0, weigh)
    cs = tl.cumsum(x, 0)
    i = 0
    while tl.atomic_cas(lock, 0, 1) == 1:
        i += 1
    tl.atomic_xchg(lock, 0)
    tl.atomic_add(q + o, x, mask=o < n)
    z = twice(i, lock) + positive(i, n)
    if z > 3:
        x = x + s
    else:
        x = x * m
    for k in range(n):
        x += k
    a, b = tl.split(tl.reshape(x, (B // 2, 2)))
    t = tl.trans(tl.join(a, b))
    g = tl.gather(x, am + tl.zeros((B,), tl.int32), 0)
    h = tl.histogram(o, 16)
    tl.device_print("hello", x, o)
    y = tl.exp2(x) + tl.log(x) + tl.sqrt(x) + tl.rsqrt(x) + tl.sigmoid(x)
    y = tl.where(x > 0, y, float("-inf"))
    f8 = x.to(tl.float8e4nv).to(tl.float32)
    tl.store(q + o, y + red + cs + g + f8 + tl.rand(s, o) + h.to(tl.float32).sum() + t.sum())


@triton.jit
def described(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    pm = tl.program_id(0)
    pn = tl.program_id(1)
    ad = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BM, BK])
    bd = tl.make_tensor_descriptor(b, [N, K], [K, 1], [BN, BK])
    cd = tl.make_tensor_descriptor(c, [M, N], [N, 1], [BM, BN])
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in tl.range(0, K, BK, num_stages=3):
        acc = tl.dot(ad.load([pm * BM, k]), bd.load([pn * BN, k]).T, acc)
    cd.store([pm * BM, pn * BN], acc.to(tl.float16))


@triton.jit
def shapes(source, out, B: tl.constexpr):
    o = tl.arange(0, B)
    x = tl.load(source + o)
    tl.store(out + o, tl.sort(x))
    tl.store(out + B + o, tl.cumsum(x, 0))
    m = tl.reshape(x, (B // 4, 4))
    a, b = tl.split(tl.reshape(x, (B // 2, 2)))
    half = tl.arange(0, B // 2)
    tl.store(out + 2 * B + half, tl.interleave(a, b).to(tl.float32).sum() + a - b)
    t = tl.trans(m) * 2.0
    tl.store(out + 3 * B + tl.arange(0, 4)[:, None] * (B // 4) + tl.arange(0, B // 4)[None, :], t)
    best = tl.argmax(m, 1)
    tl.store(out + 4 * B + tl.arange(0, B // 4), best.to(tl.float32) + tl.max(m, 1))
    tl.store(out + 5 * B + o, tl.where(o % 3 == 0, x, tl.abs(x) * (o // 2)))


@triton.jit
def locked(total, counts, lock, B: tl.constexpr):
    o = tl.arange(0, B)
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    tl.store(total + o, tl.load(total + o) + o)
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)
    tl.atomic_add(counts + o % 4, 1)


@triton.jit
def placed(source, places, out, tables, n, B: tl.constexpr):
    o = tl.arange(0, B)
    at = tl.load(places + o, mask=o < n, other=0)
    x = tl.load(source + at, mask=o < n, other=-1.0)
    tl.store(out + (B - 1 - o), x)
    second = tl.load(tables + 1).to(tl.pointer_type(tl.float32))
    tl.store(out + B + o, tl.load(second + o * o % B))


def write(fn, signature, constants):
    names = fn.arg_names
    kinds = {**signature, **{name: "constexpr" for name in constants}}
    source = ASTSource(fn, {name: kinds[name] for name in names}, {(names.index(name),): value for name, value in constants.items()})
    backend = CUDABackend(TARGET)
    options = backend.parse_options({})
    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    module = source.make_ir(TARGET, options, backend.get_codegen_implementation(options), backend.get_module_map(), context)
    text = str(backend.make_ttir(module, {}, options, 90))
    text = re.sub(r'"[^"]*/kernels\.py"', '"kernels.py"', text)
    text = re.sub(r'"[^"]*/(triton/language/[^"]*)"', r'"\1"', text)
    (HERE / f"{fn.__name__}.ttir").write_text(text)


def numbers(names):
    return {name: "i32" for name in names.split()}


if __name__ == "__main__":
    write(add, {"x_ptr": "*fp32", "y_ptr": "*fp32", "out_ptr": "*fp32", "n": "i32"}, {"BLOCK": 1024})
    write(matmul, {"a": "*fp16", "b": "*fp16", "c": "*fp16", **numbers("M N K sam sak sbk sbn scm scn")}, {"BM": 32, "BN": 64, "BK": 32, "G": 8})
    write(softmax, {"out": "*fp32", "source": "*fp32", **numbers("in_stride out_stride rows columns")}, {"BLOCK": 128})
    write(wide, {"p": "*fp32", "q": "*fp32", "lock": "*i32", **numbers("n s")}, {"B": 64})
    write(shapes, {"source": "*fp32", "out": "*fp32"}, {"B": 64})
    write(locked, {"total": "*fp32", "counts": "*i32", "lock": "*i32"}, {"B": 32})
    write(placed, {"source": "*fp32", "places": "*i32", "out": "*fp32", "tables": "*i64", "n": "i32"}, {"B": 32})
    write(described, {"a": "*fp16", "b": "*fp16", "c": "*fp16", **numbers("M N K")}, {"BM": 32, "BN": 64, "BK": 32})
