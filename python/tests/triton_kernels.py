"""Triton kernels of the tests: as wide as what people write."""

from __future__ import annotations

import triton
import triton.language as tl

# Elements.


@triton.jit
def add(left, right, out, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < count
    tl.store(out + at, tl.load(left + at, mask=inside) + tl.load(right + at, mask=inside), mask=inside)


@triton.jit
def functions(source, out, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < count
    x = tl.load(source + at, mask=inside, other=1.0)
    y = tl.exp(x) + tl.exp2(x) + tl.log(tl.abs(x) + 1.0) + tl.log2(x * x + 2.0)
    y += tl.sqrt(tl.abs(x)) + tl.rsqrt(x * x + 0.5) + tl.sin(x) * tl.cos(x) + tl.erf(x)
    y += tl.floor(x) - tl.ceil(x) + tl.sigmoid(x) + tl.fma(x, x, y) + tl.clamp(x, -0.5, 0.5)
    tl.store(out + at, y, mask=inside)


@triton.jit
def whole_numbers(left, right, out, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < count
    a = tl.load(left + at, mask=inside, other=7)
    b = tl.load(right + at, mask=inside, other=3)
    y = (a // b) + (a % b) * 3 + ((a & b) ^ (a | b)) - (a << 2) + (b >> 1)
    y += tl.where(a > b, tl.minimum(a, b), tl.maximum(a, -b)) + tl.umulhi(a, b)
    tl.store(out + at, y, mask=inside)


@triton.jit
def casts(source, half, brain, small, wide, back, count, BLOCK: tl.constexpr, BRAIN: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < count
    x = tl.load(source + at, mask=inside, other=0.0)
    tl.store(half + at, x.to(tl.float16), mask=inside)
    if BRAIN:
        tl.store(brain + at, x.to(tl.bfloat16).to(tl.float32), mask=inside)
    tl.store(small + at, x.to(tl.int8), mask=inside)
    tl.store(wide + at, x.to(tl.int64), mask=inside)
    tl.store(back + at, x.to(tl.int32, bitcast=True), mask=inside)


@triton.jit
def narrow_floats(source, out, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < count
    x = tl.load(source + at, mask=inside, other=0.0)
    tl.store(out + at, x.to(tl.float8e4nv).to(tl.float32) + x.to(tl.float8e5).to(tl.float32), mask=inside)


@triton.jit
def drop(source, out, keep_rate, seed, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < count
    x = tl.load(source + at, mask=inside)
    kept = tl.rand(seed, at) < keep_rate
    tl.store(out + at, tl.where(kept, x / keep_rate, 0.0), mask=inside)


@triton.jit
def noise(out, whole, seed, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.randn(seed, at), mask=at < count)
    tl.store(whole + at, tl.randint(seed, at), mask=at < count)


# Rows.


@triton.jit
def softmax(source, out, source_stride, out_stride, rows, columns, BLOCK: tl.constexpr, STAGES: tl.constexpr):
    at = tl.arange(0, BLOCK)
    inside = at < columns
    for row in tl.range(tl.program_id(0), rows, tl.num_programs(0), num_stages=STAGES):
        x = tl.load(source + row * source_stride + at, mask=inside, other=-float("inf"))
        above = tl.exp(x - tl.max(x, axis=0))
        tl.store(out + row * out_stride + at, above / tl.sum(above, axis=0), mask=inside)


@triton.jit
def reductions(source, sums, tops, bottoms, places, crosses, columns, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    rows = tl.arange(0, BLOCK_M)
    at = tl.arange(0, BLOCK_N)
    x = tl.load(source + rows[:, None] * columns + at[None, :], mask=at[None, :] < columns, other=0.0)
    tl.store(sums + at, tl.sum(x, axis=0))
    tl.store(tops + rows, tl.max(x, axis=1))
    tl.store(bottoms + rows, tl.min(x, axis=1))
    tl.store(places + rows, tl.argmax(x, axis=1) * 1000 + tl.argmin(x, axis=1))
    tl.store(crosses, tl.sum(x))


@triton.jit
def merge_moments(mean_a, m2_a, weight_a, mean_b, m2_b, weight_b):
    delta = mean_b - mean_a
    weight = weight_a + weight_b
    share = tl.where(weight == 0.0, 0.0, weight_b / weight)
    return mean_a + delta * share, m2_a + m2_b + delta * delta * weight_a * share, weight


@triton.jit
def moments(source, means, variances, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    inside = at < columns
    x = tl.load(source + row * columns + at, mask=inside, other=0.0)
    weight = tl.where(inside, 1.0, 0.0)
    mean, m2, total = tl.reduce((x, tl.zeros_like(x), weight), 0, merge_moments)
    tl.store(means + row, mean)
    tl.store(variances + row, m2 / total)


@triton.jit
def layer_norm(source, out, weight, bias, mean_out, rstd_out, stride, columns, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    source += row * stride
    out += row * stride
    total = tl.zeros([BLOCK], dtype=tl.float32)
    for first in range(0, columns, BLOCK):
        at = first + tl.arange(0, BLOCK)
        total += tl.load(source + at, mask=at < columns, other=0.0).to(tl.float32)
    mean = tl.sum(total, axis=0) / columns
    squares = tl.zeros([BLOCK], dtype=tl.float32)
    for first in range(0, columns, BLOCK):
        at = first + tl.arange(0, BLOCK)
        x = tl.load(source + at, mask=at < columns, other=0.0).to(tl.float32)
        off = tl.where(at < columns, x - mean, 0.0)
        squares += off * off
    rstd = 1 / tl.sqrt(tl.sum(squares, axis=0) / columns + eps)
    tl.store(mean_out + row, mean)
    tl.store(rstd_out + row, rstd)
    for first in range(0, columns, BLOCK):
        at = first + tl.arange(0, BLOCK)
        inside = at < columns
        x = tl.load(source + at, mask=inside, other=0.0).to(tl.float32)
        y = (x - mean) * rstd * tl.load(weight + at, mask=inside) + tl.load(bias + at, mask=inside)
        tl.store(out + at, y, mask=inside)


@triton.jit
def layer_norm_backward(
    grad_in, grad_out, part_weight, part_bias, source, weight, mean_in, rstd_in, locks, stride, columns,
    GROUPS: tl.constexpr, BLOCK: tl.constexpr,
):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    inside = at < columns
    x = tl.load(source + row * stride + at, mask=inside, other=0).to(tl.float32)
    dy = tl.load(grad_out + row * stride + at, mask=inside, other=0).to(tl.float32)
    w = tl.load(weight + at, mask=inside).to(tl.float32)
    mean = tl.load(mean_in + row)
    rstd = tl.load(rstd_in + row)
    normal = tl.where(inside, (x - mean) * rstd, 0.0)
    wdy = tl.where(inside, w * dy, 0.0)
    along = tl.sum(normal * wdy, axis=0) / columns
    level = tl.sum(wdy, axis=0) / columns
    tl.store(grad_in + row * stride + at, (wdy - (normal * along + level)) * rstd, mask=inside)
    group = row % GROUPS
    lock = locks + group
    used = locks + GROUPS + group
    weights = part_weight + group * columns + at
    biases = part_bias + group * columns + at
    dw = (dy * normal).to(w.dtype)
    db = dy.to(w.dtype)
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    if tl.load(used) == 0:
        tl.atomic_xchg(used, 1)
    else:
        dw += tl.load(weights, mask=inside)
        db += tl.load(biases, mask=inside)
    tl.store(weights, dw, mask=inside)
    tl.store(biases, db, mask=inside)
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)


@triton.jit
def sum_of_parts(parts, out, rows, columns, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    at = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for first in range(0, rows, BLOCK_M):
        row = first + tl.arange(0, BLOCK_M)
        inside = (row[:, None] < rows) & (at[None, :] < columns)
        total += tl.load(parts + row[:, None] * columns + at[None, :], mask=inside, other=0.0)
    tl.store(out + at, tl.sum(total, axis=0), mask=at < columns)


# Matrices.


@triton.jit
def leaky(x):
    return tl.where(x >= 0, x, 0.01 * x)


@triton.jit
def matmul(
    a, b, c, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP: tl.constexpr, LEAKY: tl.constexpr,
):
    program = tl.program_id(axis=0)
    down = tl.cdiv(M, BLOCK_M)
    across = tl.cdiv(N, BLOCK_N)
    first = (program // (GROUP * across)) * GROUP
    height = min(down - first, GROUP)
    row = first + (program % (GROUP * across)) % height
    column = (program % (GROUP * across)) // height
    tl.assume(row >= 0)
    tl.assume(stride_am > 0)
    rows = (row * BLOCK_M + tl.arange(0, BLOCK_M)) % M
    columns = (column * BLOCK_N + tl.arange(0, BLOCK_N)) % N
    inner = tl.arange(0, BLOCK_K)
    a_at = a + (rows[:, None] * stride_am + inner[None, :] * stride_ak)
    b_at = b + (inner[:, None] * stride_bk + columns[None, :] * stride_bn)
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, tl.cdiv(K, BLOCK_K)):
        left = tl.load(a_at, mask=inner[None, :] < K - k * BLOCK_K, other=0.0)
        right = tl.load(b_at, mask=inner[:, None] < K - k * BLOCK_K, other=0.0)
        total = tl.dot(left, right, total)
        a_at += BLOCK_K * stride_ak
        b_at += BLOCK_K * stride_bk
    if LEAKY:
        total = leaky(total)
    rows = row * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = column * BLOCK_N + tl.arange(0, BLOCK_N)
    inside = (rows[:, None] < M) & (columns[None, :] < N)
    tl.store(c + stride_cm * rows[:, None] + stride_cn * columns[None, :], total.to(c.dtype.element_ty), mask=inside)


@triton.jit
def matmul_by_descriptor(a, b, c, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    row = tl.program_id(0) * BLOCK_M
    column = tl.program_id(1) * BLOCK_N
    a_desc = tl.make_tensor_descriptor(a, shape=[M, K], strides=[K, 1], block_shape=[BLOCK_M, BLOCK_K])
    b_desc = tl.make_tensor_descriptor(b, shape=[K, N], strides=[N, 1], block_shape=[BLOCK_K, BLOCK_N])
    c_desc = tl.make_tensor_descriptor(c, shape=[M, N], strides=[N, 1], block_shape=[BLOCK_M, BLOCK_N])
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        total = tl.dot(a_desc.load([row, k]), b_desc.load([k, column]), total)
    c_desc.store([row, column], total.to(c.dtype.element_ty))


@triton.jit
def scale_by_descriptor(source, out, factor, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    row = tl.program_id(0) * BLOCK_M
    column = tl.program_id(1) * BLOCK_N
    out.store([row, column], (source.load([row, column]) * factor).to(out.dtype))


@triton.jit
def matmul_persistent(
    a, b, c, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, PROGRAMS: tl.constexpr
):
    across = tl.cdiv(N, BLOCK_N)
    for tile in tl.range(tl.program_id(0), tl.cdiv(M, BLOCK_M) * across, PROGRAMS, flatten=True):
        rows = (tile // across) * BLOCK_M + tl.arange(0, BLOCK_M)
        columns = (tile % across) * BLOCK_N + tl.arange(0, BLOCK_N)
        total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for k in range(0, K, BLOCK_K):
            inner = k + tl.arange(0, BLOCK_K)
            left = tl.load(a + rows[:, None] * K + inner[None, :], mask=(rows[:, None] < M) & (inner[None, :] < K), other=0.0)
            right = tl.load(b + inner[:, None] * N + columns[None, :], mask=(inner[:, None] < K) & (columns[None, :] < N), other=0.0)
            total += tl.dot(left, right, input_precision="ieee")
        tl.store(c + rows[:, None] * N + columns[None, :], total, mask=(rows[:, None] < M) & (columns[None, :] < N))


@triton.jit
def grouped_matmul(a_table, b_table, c_table, sizes, strides, groups, PROGRAMS: tl.constexpr, BLOCK: tl.constexpr, BLOCK_K: tl.constexpr):
    tile = tl.program_id(0)
    before = 0
    for group in range(groups):
        m = tl.load(sizes + group * 3)
        n = tl.load(sizes + group * 3 + 1)
        k = tl.load(sizes + group * 3 + 2)
        across = tl.cdiv(n, BLOCK)
        tiles = tl.cdiv(m, BLOCK) * across
        while tile >= before and tile < before + tiles:
            a = tl.load(a_table + group).to(tl.pointer_type(tl.float16))
            b = tl.load(b_table + group).to(tl.pointer_type(tl.float16))
            c = tl.load(c_table + group).to(tl.pointer_type(tl.float16))
            stride_a = tl.load(strides + group * 3)
            stride_b = tl.load(strides + group * 3 + 1)
            stride_c = tl.load(strides + group * 3 + 2)
            rows = (tile - before) // across * BLOCK + tl.arange(0, BLOCK)
            columns = (tile - before) % across * BLOCK + tl.arange(0, BLOCK)
            inner = tl.arange(0, BLOCK_K)
            a_at = a + rows[:, None] * stride_a + inner[None, :]
            b_at = b + inner[:, None] * stride_b + columns[None, :]
            total = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)
            for _ in range(0, tl.cdiv(k, BLOCK_K)):
                tl.multiple_of(a_at, [16, 16])
                total += tl.dot(tl.load(a_at), tl.load(b_at))
                a_at += BLOCK_K
                b_at += BLOCK_K * stride_b
            tl.store(c + rows[:, None] * stride_c + columns[None, :], total.to(tl.float16))
            tile += PROGRAMS
        before += tiles


# Attention.


@triton.jit
def attend(
    total, norm, top, q, keys, values, base, first_row, scale, dtype: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    PART: tl.constexpr, rows, columns, LENGTH: tl.constexpr,
):
    if PART == 0:
        low, high = 0, LENGTH
    elif PART == 1:
        low, high = 0, first_row
    else:
        low, high = first_row, first_row + BLOCK_M
        low = tl.multiple_of(low, BLOCK_M)
    for start in tl.range(low, high, BLOCK_N):
        start = tl.multiple_of(start, BLOCK_N)
        scores = tl.dot(q, keys.load([base + start, 0]).T) * scale
        if PART == 2:
            scores = tl.where(rows[:, None] >= start + columns[None, :], scores, -1.0e6)
        higher = tl.maximum(top, tl.max(scores, 1))
        weights = tl.math.exp2(scores - higher[:, None])
        shrink = tl.math.exp2(top - higher)
        norm = norm * shrink + tl.sum(weights, 1)
        total = tl.dot(weights.to(dtype), values.load([base + start, 0]), total * shrink[:, None])
        top = higher
    return total, norm, top


@triton.jit
def attention(
    q, k, v, out, tops, scale, heads, LENGTH: tl.constexpr, DEPTH: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    CAUSAL: tl.constexpr,
):
    head = tl.program_id(1)
    first = tl.program_id(0) * BLOCK_M
    size = heads * LENGTH
    dtype = out.dtype.element_ty
    queries = tl.make_tensor_descriptor(q, shape=[size, DEPTH], strides=[DEPTH, 1], block_shape=[BLOCK_M, DEPTH])
    keys = tl.make_tensor_descriptor(k, shape=[size, DEPTH], strides=[DEPTH, 1], block_shape=[BLOCK_N, DEPTH])
    values = tl.make_tensor_descriptor(v, shape=[size, DEPTH], strides=[DEPTH, 1], block_shape=[BLOCK_N, DEPTH])
    results = tl.make_tensor_descriptor(out, shape=[size, DEPTH], strides=[DEPTH, 1], block_shape=[BLOCK_M, DEPTH])
    base = head * LENGTH
    rows = first + tl.arange(0, BLOCK_M)
    columns = tl.arange(0, BLOCK_N)
    top = tl.zeros([BLOCK_M], dtype=tl.float32) - float("inf")
    norm = tl.zeros([BLOCK_M], dtype=tl.float32) + 1.0
    total = tl.zeros([BLOCK_M, DEPTH], dtype=tl.float32)
    scale *= 1.44269504
    here = queries.load([base + first, 0])
    if CAUSAL:
        total, norm, top = attend(total, norm, top, here, keys, values, base, first, scale, dtype, BLOCK_M, BLOCK_N, 1, rows, columns, LENGTH)
        total, norm, top = attend(total, norm, top, here, keys, values, base, first, scale, dtype, BLOCK_M, BLOCK_N, 2, rows, columns, LENGTH)
    else:
        total, norm, top = attend(total, norm, top, here, keys, values, base, first, scale, dtype, BLOCK_M, BLOCK_N, 0, rows, columns, LENGTH)
    tl.store(tops + base + rows, top + tl.math.log2(norm))
    results.store([base + first, 0], (total / norm[:, None]).to(dtype))


@triton.jit
def attention_deltas(out, grad_out, deltas, LENGTH, BLOCK: tl.constexpr, DEPTH: tl.constexpr):
    rows = tl.program_id(1) * LENGTH + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    at = rows[:, None] * DEPTH + tl.arange(0, DEPTH)[None, :]
    tl.store(deltas + rows, tl.sum(tl.load(out + at) * tl.load(grad_out + at).to(tl.float32), axis=1))


@triton.jit
def attention_backward(
    q, k, v, grad_out, grad_q, grad_k, grad_v, tops, deltas, scale, LENGTH,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, DEPTH: tl.constexpr, CAUSAL: tl.constexpr,
):
    base = (tl.program_id(2) * LENGTH).to(tl.int64)
    q += base * DEPTH
    k += base * DEPTH
    v += base * DEPTH
    grad_out += base * DEPTH
    grad_q += base * DEPTH
    grad_k += base * DEPTH
    grad_v += base * DEPTH
    tops += base
    deltas += base
    depth = tl.arange(0, DEPTH)
    first = tl.program_id(0) * BLOCK_N
    columns = first + tl.arange(0, BLOCK_N)
    keys = tl.load(k + columns[:, None] * DEPTH + depth[None, :])
    values = tl.load(v + columns[:, None] * DEPTH + depth[None, :])
    dk = tl.zeros([BLOCK_N, DEPTH], dtype=tl.float32)
    dv = tl.zeros([BLOCK_N, DEPTH], dtype=tl.float32)
    start = first if CAUSAL else 0
    for low in range(start, LENGTH, BLOCK_M):
        rows = low + tl.arange(0, BLOCK_M)
        across = tl.load(q + rows[None, :] * DEPTH + depth[:, None])
        grads = tl.load(grad_out + rows[:, None] * DEPTH + depth[None, :])
        weights = tl.math.exp2(tl.dot(keys, across) * (scale * 1.44269504) - tl.load(tops + rows)[None, :])
        if CAUSAL:
            weights = tl.where(rows[None, :] >= columns[:, None], weights, 0.0)
        dv += tl.dot(weights.to(tl.float16), grads)
        dp = tl.dot(values, tl.trans(grads)).to(tl.float32)
        ds = (weights * (dp - tl.load(deltas + rows)[None, :])).to(tl.float16)
        dk += tl.dot(ds, tl.trans(across))
    tl.store(grad_k + columns[:, None] * DEPTH + depth[None, :], dk * scale)
    tl.store(grad_v + columns[:, None] * DEPTH + depth[None, :], dv)
    rows = first + tl.arange(0, BLOCK_N)
    queries = tl.load(q + rows[:, None] * DEPTH + depth[None, :])
    grads = tl.load(grad_out + rows[:, None] * DEPTH + depth[None, :])
    top = tl.load(tops + rows)
    delta = tl.load(deltas + rows)
    dq = tl.zeros([BLOCK_N, DEPTH], dtype=tl.float32)
    end = first + BLOCK_N if CAUSAL else LENGTH
    for low in range(0, end, BLOCK_M):
        inner = low + tl.arange(0, BLOCK_M)
        keys_t = tl.load(k + inner[None, :] * DEPTH + depth[:, None])
        values_t = tl.load(v + inner[None, :] * DEPTH + depth[:, None])
        weights = tl.math.exp2(tl.dot(queries, keys_t) * (scale * 1.44269504) - top[:, None])
        if CAUSAL:
            weights = tl.where(rows[:, None] >= inner[None, :], weights, 0.0)
        ds = weights * (tl.dot(grads, values_t).to(tl.float32) - delta[:, None])
        dq += tl.dot(ds.to(tl.float16), tl.trans(keys_t))
    tl.store(grad_q + rows[:, None] * DEPTH + depth[None, :], dq * scale)


# Shapes and order.


@triton.jit
def scans(source, sums, products, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    inside = at < columns
    x = tl.load(source + row * columns + at, mask=inside, other=0.0)
    tl.store(sums + row * columns + at, tl.cumsum(x, 0), mask=inside)
    tl.store(products + row * columns + at, tl.cumprod(x * 0.5 + 1.0, 0, reverse=True), mask=inside)


@triton.jit
def later(a_value, a_set, b_value, b_set):
    return tl.where(b_set != 0, b_value, a_value), a_set | b_set


@triton.jit
def last_set(values, flags, out, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    value, _ = tl.associative_scan((tl.load(values + at), tl.load(flags + at)), 0, later)
    tl.store(out + at, value)


@triton.jit
def sorted_rows(source, out, best, BLOCK: tl.constexpr, TOP: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(source + row * BLOCK + at)
    tl.store(out + row * BLOCK + at, tl.sort(x))
    tl.store(best + row * TOP + tl.arange(0, TOP), tl.topk(x, TOP))


@triton.jit
def shapes(source, pairs, flat, turned, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = tl.load(source + at)
    both = tl.join(x, x * 2)
    left, right = tl.split(both)
    tl.store(pairs + at, left - right)
    tl.store(flat + tl.arange(0, 2 * BLOCK), tl.interleave(x, -x))
    square = tl.reshape(x, (8, BLOCK // 8))
    other = tl.permute(tl.flip(square, 1), (1, 0))
    rows = tl.arange(0, BLOCK // 8)
    columns = tl.arange(0, 8)
    tl.store(turned + rows[:, None] * 8 + columns[None, :], other)


@triton.jit
def picked(source, places, out, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    rows = tl.arange(0, BLOCK_M)
    columns = tl.arange(0, BLOCK_N)
    at = rows[:, None] * BLOCK_N + columns[None, :]
    tl.store(out + at, tl.gather(tl.load(source + at), tl.load(places + at), 1))


@triton.jit
def counted(source, out, count, BLOCK: tl.constexpr, BINS: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < count
    x = tl.load(source + at, mask=inside, other=0)
    tl.atomic_add(out + tl.arange(0, BINS), tl.histogram(x, BINS, mask=inside))


@triton.jit
def looked_up(table, places, out, count, rows, BLOCK: tl.constexpr, WIDTH: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < count
    place = tl.load(places + at, mask=inside, other=0)
    column = tl.arange(0, WIDTH)
    known = inside & (place >= 0) & (place < rows)
    x = tl.load(table + place[:, None] * WIDTH + column[None, :], mask=known[:, None], other=-1.0)
    tl.store(out + at[:, None] * WIDTH + column[None, :], x, mask=inside[:, None])


@triton.jit
def cut_up(source, out, rows, columns, stride_m, stride_n, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    row = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    column = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    inside = (row[:, None] < rows) & (column[None, :] < columns)
    x = tl.load(source + row[:, None] * stride_m + column[None, :] * stride_n, mask=inside)
    tl.store(out + column[:, None] * rows + row[None, :], tl.trans(x), mask=tl.trans(inside))


# Control flow and memory.


@triton.jit
def leaves_early(source, out, limit, BLOCK: tl.constexpr):
    program = tl.program_id(0)
    if program >= limit:
        return
    at = program * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(source + at)
    if tl.max(x, 0) < 0:
        tl.store(out + at, tl.zeros_like(x))
        return
    tl.store(out + at, x * 2)


@triton.jit
def rows_up_to(source, count, out, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], dtype=tl.float32)
    for row in range(tl.load(count)):
        total += tl.load(source + row * BLOCK + at)
    tl.store(out + at, total)


@triton.jit
def collatz(source, out, BLOCK: tl.constexpr):
    at = tl.program_id(0)
    number = tl.load(source + at)
    steps = 0
    while number != 1:
        if number % 2 == 0:
            number = number // 2
        else:
            number = 3 * number + 1
        steps += 1
    tl.store(out + at, steps)


@triton.jit
def endless(out):
    step = 0
    while step >= 0:
        step = (step + 1) % 1000
    tl.store(out, step)


@triton.jit(noinline=True)
def polynomial(x, a, b):
    return x * x * a + x * b


@triton.jit
def calls(source, out, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = tl.load(source)
    for _ in tl.static_range(3):
        x = polynomial(x, 0.25, 0.5)
    tl.device_assert(at < BLOCK, "inside")
    tl.store(out + at, tl.load(source + at) + x)


@triton.jit
def atomics(numbers, sums, tops, lows, bits, olds, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < count
    x = tl.load(numbers + at, mask=inside, other=0)
    tl.atomic_add(sums + x % 8, x, mask=inside)
    tl.atomic_max(tops + x % 8, x, mask=inside)
    tl.atomic_min(lows + x % 8, x, mask=inside)
    tl.atomic_or(bits, tl.max(x, 0))
    tl.atomic_xor(bits + 1, tl.sum(x, 0))
    tl.atomic_and(bits + 2, tl.min(x, 0))
    tl.store(olds + tl.program_id(0), tl.atomic_add(sums + 8, 1))


@triton.jit
def three_axes(out, WIDTH: tl.constexpr, DEPTH: tl.constexpr):
    x, y, z = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    at = (z * tl.num_programs(1) + y) * tl.num_programs(0) + x
    tl.store(out + at, x + 100 * y + 10000 * z)


@triton.jit
def wide_offsets(source, out, stride, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    tl.store(out + row * stride + at, tl.load(source + row * stride + at, eviction_policy="evict_last"))


@triton.jit
def outside(source, out, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(source + at)
    tl.store(out + at, x)


@triton.jit
def small_dot(a, b, c, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    rows, columns, inner = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    left = tl.load(a + rows[:, None] * K + inner[None, :])
    right = tl.load(b + inner[:, None] * N + columns[None, :])
    total = tl.dot(left, right, out_dtype=tl.int32) if left.dtype == tl.int8 else tl.dot(left, right)
    tl.store(c + rows[:, None] * N + columns[None, :], total)


@triton.jit
def scaled_dot(
    a, a_scale, b, b_scale, out, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, LEFT: tl.constexpr, RIGHT: tl.constexpr, BOTH: tl.constexpr,
):
    left: tl.constexpr = K // 2 if LEFT == "e2m1" else K
    right: tl.constexpr = K // 2 if RIGHT == "e2m1" else K
    x = tl.load(a + tl.arange(0, M)[:, None] * left + tl.arange(0, left)[None, :])
    y = tl.load(b + tl.arange(0, right)[:, None] * N + tl.arange(0, N)[None, :])
    groups = tl.arange(0, K // 32)[None, :]
    t = tl.load(b_scale + tl.arange(0, N)[:, None] * (K // 32) + groups)
    if BOTH:
        s = tl.load(a_scale + tl.arange(0, M)[:, None] * (K // 32) + groups)
        z = tl.dot_scaled(x, s, LEFT, y, t, RIGHT)
    else:
        z = tl.dot_scaled(x, None, LEFT, y, t, RIGHT, tl.full((M, N), 0.5, tl.float32))
    tl.store(out + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :], z)


@triton.jit
def batched_dot(a, b, c, B: tl.constexpr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    batch, rows, columns, inner = tl.arange(0, B), tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    left = tl.load(a + batch[:, None, None] * M * K + rows[None, :, None] * K + inner[None, None, :])
    right = tl.load(b + batch[:, None, None] * K * N + inner[None, :, None] * N + columns[None, None, :])
    tl.store(c + batch[:, None, None] * M * N + rows[None, :, None] * N + columns[None, None, :], tl.dot(left, right))
