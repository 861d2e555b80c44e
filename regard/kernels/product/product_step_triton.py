"""One query per row over its keys in Triton: softmax(scale q·k) v, reading keys once. See product_step.py.

Axes: query, out (R, H, D), contiguous; keys, values (B, H, S, D), features contiguous; mask (B, S) bytes. A
program has one row and one head: tiles of keys (BLOCK, D), all sums in float32.
"""
# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator"

import triton
import triton.language as tl


@triton.jit(do_not_specialize=["S", "copies", "scale"])
def step_kernel(
    query, keys, values, mask, out, key_b, key_h, key_s, value_b, value_h, value_s, mask_b, S, copies, scale,
    H: tl.constexpr, D: tl.constexpr, BLOCK_D: tl.constexpr, MASKED: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The context of one row in one head; 0 where it sees nothing."""
    row = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1)
    source = row // copies
    d = tl.arange(0, BLOCK_D)
    q = tl.load(query + (row * H + head) * D + d, mask=d < D, other=0.0).to(tl.float32) * scale
    keys += source * key_b + head * key_h
    values += source * value_b + head * value_h
    highest = float("-inf")
    total = 0.0
    context = tl.zeros((BLOCK_D,), dtype=tl.float32)
    for start in range(0, S, BLOCK):
        s = start + tl.arange(0, BLOCK)
        seen = s < S
        if MASKED:
            seen = seen & (tl.load(mask + source * mask_b + s, mask=seen, other=0) != 0)
        tile = seen[:, None] & (d < D)[None, :]
        k = tl.load(keys + s[:, None] * key_s + d[None, :], mask=tile, other=0.0).to(tl.float32)
        e = tl.where(seen, tl.sum(k * q[None, :], axis=1), float("-inf"))
        higher = tl.maximum(highest, tl.max(e, axis=0))
        base = tl.where(higher == float("-inf"), 0.0, higher)
        p = tl.exp(e - base)
        before = tl.exp(highest - base)
        v = tl.load(values + s[:, None] * value_s + d[None, :], mask=tile, other=0.0).to(tl.float32)
        context = context * before + tl.sum(p[:, None] * v, axis=0)
        total = total * before + tl.sum(p, axis=0)
        highest = higher
    context = context / tl.where(total > 0.0, total, 1.0)
    tl.store(out + (row * H + head) * D + d, context.to(out.dtype.element_ty), mask=d < D)
