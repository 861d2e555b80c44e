"""The table "What can be recorded" of docs/how-to/any-model.md, made by trying.

python docs/generator/recordable.py          writes it anew
python docs/generator/recordable.py --check  fails when it is stale
"""

import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard import MultiHead, record

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "how-to" / "any-model.md"
BEGIN, END = "<!-- made by docs/generator/recordable.py -->", "<!-- end -->"


class Calls(nn.Module):
    """Calls the function that it was given."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *given: Any) -> Any:
        return self.function(*given)


class OwnAttention(nn.Module):
    """Computes its weights itself."""

    def forward(self, x: Tensor) -> Tensor:
        return (x @ x.mT).softmax(-1) @ x


class Case(NamedTuple):
    """Something to record."""

    what: str
    model: nn.Module
    given: tuple[Any, ...]
    named: dict[str, Any]


def heads(*, S: int = 6, H: int = 2) -> tuple[Tensor, Tensor, Tensor]:
    return torch.randn(2, 2, 6, 4), torch.randn(2, H, S, 4), torch.randn(2, H, S, 4)


def functions() -> Iterator[Case]:
    def case(what: str, function: Callable[..., Any], *given: Any) -> Case:
        return Case(what, Calls(function), given, {})

    sdpa = "`F.scaled_dot_product_attention`"
    yield case(sdpa, lambda *x: F.scaled_dot_product_attention(*x), *heads())
    yield case(f"{sdpa}, causal", lambda *x: F.scaled_dot_product_attention(*x, is_causal=True), *heads())
    visible, bias = torch.rand(6, 6) < 0.7, torch.randn(6, 6)
    yield case(f"{sdpa}, boolean mask", lambda *x: F.scaled_dot_product_attention(*x, visible), *heads())
    yield case(f"{sdpa}, additive mask", lambda *x: F.scaled_dot_product_attention(*x, bias), *heads())
    groups = lambda *x: F.scaled_dot_product_attention(*x, enable_gqa=True)  # noqa: E731
    yield case(f"{sdpa}, grouped heads", groups, *heads(H=1))

    from torch.nn.attention import flex_attention as flex

    mask = flex.create_block_mask(lambda b, h, t, s: t >= s, None, None, 6, 6, device="cpu", BLOCK_SIZE=2)
    mod = lambda score, b, h, t, s: score - (t - s).abs()  # noqa: E731
    yield case("FlexAttention, `block_mask`", lambda *x: flex.flex_attention(*x, block_mask=mask), *heads())
    yield case("FlexAttention, `score_mod`", lambda *x: flex.flex_attention(*x, score_mod=mod), *heads())


def layers() -> Iterator[Case]:
    x = torch.randn(2, 6, 8)
    module = nn.MultiheadAttention(8, 2, batch_first=True)
    yield Case("`nn.MultiheadAttention`, training", module.train(), (x, x, x), {})
    yield Case("`nn.MultiheadAttention`, `need_weights=False`", module, (x, x, x), {"need_weights": False})
    fast = nn.MultiheadAttention(8, 2, batch_first=True).eval()
    yield Case("`nn.MultiheadAttention`, evaluation (fast path)", fast, (x, x, x), {})
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, dropout=0.0)
    encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    yield Case("`nn.TransformerEncoder`, training", encoder, (x,), {})
    encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()
    yield Case("`nn.TransformerEncoder`, evaluation (fast path)", encoder, (x,), {})
    decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(8, 2, 16, batch_first=True), 2).eval()
    yield Case("`nn.TransformerDecoder`", decoder, (x, x), {})
    ours = MultiHead(8, 2)
    yield Case("`regard.MultiHead`", _Self(ours), (x,), {})


class _Self(nn.Module):
    def __init__(self, heads: MultiHead) -> None:
        super().__init__()
        self.heads = heads

    def forward(self, x: Tensor) -> Tensor:
        return self.heads(x, self.heads.prepare(x)).context


def families() -> Iterator[Case]:
    """One small model of each family of transformers, with random weights."""
    sys.path.insert(0, str(ROOT / "tests" / "integrations"))
    try:
        from families import FAMILIES, model_of
    finally:
        sys.path.pop(0)
    from regard.integrations.transformers import register

    register()
    for name, family in FAMILIES.items():
        yield Case(f"transformers: {name}, `sdpa`", model_of(name), (), family.batch())
    yield Case("transformers: bert, `regard`", model_of("bert", "regard"), (), FAMILIES["bert"].batch())
    yield Case("transformers: bert, `eager`", model_of("bert", "eager"), (), FAMILIES["bert"].batch())


def unseen() -> Iterator[Case]:
    x = torch.randn(2, 6, 8)
    yield Case("a module that computes its weights itself", OwnAttention(), (x,), {})
    compiled = nn.TransformerDecoderLayer(8, 2, 16, batch_first=True).eval()
    compiled.self_attn.compile(backend="aot_eager")
    yield Case("a part that `torch.compile` has compiled", compiled, (x, x), {})
    traced = torch.export.export(Calls(lambda *x: F.scaled_dot_product_attention(*x)), heads()).module()
    yield Case("an exported graph", traced, heads(), {})


def row(case: Case) -> str:
    """What came of it: the calls that were seen, by which kernel, and whether the output is the same."""
    plain = _first(case.model(*case.given, **case.named))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with record(case.model) as trace:
            out = _first(case.model(*case.given, **case.named))
    results = [result for each in trace.values() for result in each]
    for result in results:
        sums = result.weights.sum(-1)
        assert torch.allclose(sums, torch.ones_like(sums), atol=1e-5), case.what
    kernels = ", ".join(sorted({result.kernel for result in results}))
    same = "bit for bit" if torch.equal(out, plain) else "changed"
    named = f"named in `trace.unseen`: {len(trace.unseen)}" if trace.unseen else ""
    return f"| {case.what} | {len(results) or '–'} | {kernels or '–'} | {same} | {named} |"


def _first(out: Any) -> Tensor:
    return out if isinstance(out, Tensor) else out[0]


def table() -> str:
    """The table, as Markdown."""
    torch.manual_seed(0)
    lines = ["| model | calls seen | kernel | output | not seen |", "|---|---|---|---|---|"]
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for cases in (functions, layers, families, unseen):
            lines += [row(case) for case in cases()]
    return "\n".join(lines)


def renewed(page: str) -> str:
    """The page with the table between its markers."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{table()}\n\n{END}{after}"


def main() -> None:
    """Write or check the page."""
    old = PAGE.read_text(encoding="utf-8")
    new = renewed(old)
    if "--check" not in sys.argv:
        PAGE.write_text(new, encoding="utf-8")
    elif old != new:
        sys.exit("docs/how-to/any-model.md: the table is stale; run python docs/generator/recordable.py.")


if __name__ == "__main__":
    main()
