"""The training step on one NVIDIA GPU: plain, captured, compiled; the Transformer's against torch's.

    python benchmarks/training.py [--out results]

Forward and backward of one batch of sentence pairs. First the gradients of the captured and the compiled step
are compared with those of the plain one; then they are timed by turns with device events, and the medians
compared. A step of two passes that are to agree (R-Drop) is compared with the textbook form of its loss.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from common import RESULTS, arguments, keep
from torch import Tensor, nn
from torch.nn import functional as F

from regard import catalog
from regard.bench.clock import interleaved
from regard.data.batches import PairBatch
from regard.models.base import Model, teacher_inputs
from regard.tasks.base import Loss
from regard.tasks.translation import consistent, cross_entropy
from regard.train.capture import CapturedStep
from regard.train.compiling import compiled
from regard.train.fields import with_defaults

V = 8000
RECURRENT: dict[str, dict[str, Any]] = {
    "rnnsearch": {"embedding": 256, "hidden": 512, "attention": {"hidden": 512}, "readout": 256},
    "luong": {"embedding": 512, "hidden": 512, "layers": 2, "attention": {"score": "general"}},
}
TRANSFORMER: dict[str, Any] = {
    "layers": 6,
    "d_model": 256,
    "d_ff": 1024,
    "attention": {"heads": 4},
    "dropout": 0.1,
}
LARGER = {"layers": 3, "d_model": 512, "d_ff": 1024, "attention": {"heads": 8}, "dropout": 0.3, "tied": "all"}
SMOOTHING, AGREEMENT = 0.1, 3.0


def make_batch(B: int, S: int, T: int) -> PairBatch:
    """Random words; lengths between half and all of the longest."""
    generator = torch.Generator().manual_seed(0)

    def lengths(longest: int) -> Tensor:
        return torch.randint(longest // 2, longest + 1, (B,), generator=generator).index_fill(
            0, torch.tensor([0]), longest
        )

    def words(longest: int) -> Tensor:
        return torch.randint(4, V, (B, longest), generator=generator)

    return PairBatch(words(S), lengths(S), words(T), lengths(T)).to("cuda")


def make_model(name: str, settings: dict[str, Any]) -> Model:
    """One of regard's models with initial weights, ready for training."""
    torch.manual_seed(0)
    kind = catalog.find(name, "model").load()
    given = with_defaults(kind.Config, {"source_vocab": V, "target_vocab": V, **settings})
    model: Model = kind(kind.Config(**given)).cuda().train()
    return model


def plain_step(model: nn.Module, *, bf16: bool) -> Callable[[PairBatch], Loss]:
    """Forward and backward, as the training loop runs them without capture."""

    def step(batch: PairBatch) -> Loss:
        with torch.autocast("cuda", dtype=torch.bfloat16, enabled=bf16):
            scores = model(batch)
        loss = cross_entropy(scores, batch)
        loss.total.backward()
        return loss

    return step


def gradients(model: nn.Module, step: Callable[[PairBatch], Loss], batch: PairBatch) -> list[Tensor]:
    """The gradients of one step."""
    for parameter in model.parameters():
        if parameter.grad is not None:
            parameter.grad.zero_()
    step(batch)
    return [p.grad.clone() for p in model.parameters() if p.grad is not None]


def compare(name: str, settings: dict[str, Any], batch: PairBatch, *, bf16: bool) -> dict[str, float]:
    """Times of the plain and the captured step of one of regard's models, which must first agree."""
    # without dropout, but in training mode: in evaluation cuDNN has no gradients
    model = make_model(name, settings | {"dropout": 0.0})
    plain = plain_step(model, bf16=bf16)
    captured = CapturedStep(plain, model)
    expected, least = gradients(model, plain, batch), 2e-2 if bf16 else 1e-4
    check(name, gradients(model, captured, batch), expected, least)
    if model.varied:
        with compiled(model):
            check(f"{name}, compiled", gradients(model, plain, batch), expected, least)
    model = make_model(name, settings)
    plain = plain_step(model, bf16=bf16)
    runs = {"plain": lambda: plain(batch), "captured": recording(plain, model, batch)}
    if model.varied:
        with compiled(model):
            runs["compiled"] = recording(plain, model, batch)
    return interleaved(runs, "cuda", budget=2.0)


def check(name: str, found: list[Tensor], expected: list[Tensor], least: float) -> None:
    """Check that gradients agree, each relative to its norm."""
    for one, other in zip(found, expected, strict=True):
        error = float((one - other).norm() / other.norm().clamp_min(1e-12))
        assert error < least, f"{name}: a gradient differs by {error:.1e}"


def recording(step: Callable[[PairBatch], Loss], model: Model, batch: PairBatch) -> Callable[[], Any]:
    """The step as a graph, captured now."""
    captured = CapturedStep(step, model)
    captured(batch)
    return lambda: captured(batch)


def textbook(model: nn.Module, batch: PairBatch) -> Loss:
    """The loss of two passes that are to agree, differentiated by autograd."""
    twice = batch.repeated(2)
    scores = model(twice).float()
    t = torch.arange(twice.target.shape[1], device=scores.device)
    padding = t >= twice.target_lengths[:, None]
    entropy = F.cross_entropy(
        scores.flatten(0, 1),
        twice.target.masked_fill(padding, -100).flatten(),
        reduction="sum",
        label_smoothing=SMOOTHING,
    )
    first, second = scores.log_softmax(-1).chunk(2)
    apart = ((first.exp() - second.exp()) * (first - second)).sum(-1).masked_fill(padding[: len(first)], 0.0)
    return Loss(entropy / 2 + AGREEMENT / 4 * apart.sum(), batch.target_lengths.sum())


def closed(model: nn.Module, batch: PairBatch) -> Loss:
    """The same as the library computes it."""
    return consistent(model, batch, smoothing=SMOOTHING, weight=AGREEMENT)


def two_passes(batch: PairBatch) -> dict[str, float]:
    """Times of the captured step of the larger Transformer with two passes, by three ways that must agree."""

    def step_of(
        loss: Callable[[nn.Module, PairBatch], Loss], model: nn.Module
    ) -> Callable[[PairBatch], Loss]:
        def autocast(batch: PairBatch) -> Tensor:
            with torch.autocast("cuda", dtype=torch.bfloat16):
                scores: Tensor = model(batch)
            return scores

        def step(batch: PairBatch) -> Loss:
            found = loss(autocast, batch)  # type: ignore[arg-type]
            found.total.backward()
            return found

        return step

    model = make_model("transformer", LARGER | {"dropout": 0.0})
    expected = gradients(model, step_of(textbook, model), batch)
    check("closed", gradients(model, step_of(closed, model), batch), expected, 2e-2)
    with compiled(model):
        check("compiled", gradients(model, step_of(closed, model), batch), expected, 2e-2)
    model = make_model("transformer", LARGER)
    runs = {
        "textbook": recording(step_of(textbook, model), model, batch),
        "closed": recording(step_of(closed, model), model, batch),
    }
    with compiled(model):
        runs["compiled"] = recording(step_of(closed, model), model, batch)
    return interleaved(runs, "cuda", budget=2.0)


class TorchTransformer(nn.Module):
    """torch.nn.Transformer with embeddings and output, the same sizes as ours."""

    def __init__(
        self, *, layers: int, d_model: int, d_ff: int, attention: dict[str, int], dropout: float
    ) -> None:
        super().__init__()
        self.E = nn.Embedding(V, d_model)
        self.positions = nn.Parameter(torch.randn(256, d_model))
        heads = attention["heads"]
        self.body = nn.Transformer(d_model, heads, layers, layers, d_ff, dropout, batch_first=True)
        self.output = nn.Linear(d_model, V)

    def forward(self, batch: PairBatch) -> Tensor:
        source, target = batch.source, teacher_inputs(batch)
        S, T = source.shape[1], target.shape[1]
        hidden = torch.arange(S, device=source.device) >= batch.source_lengths[:, None]
        causal = nn.Transformer.generate_square_subsequent_mask(T, device=source.device)
        out = self.body(
            self.E(source) + self.positions[:S],
            self.E(target) + self.positions[:T],
            tgt_mask=causal,
            src_key_padding_mask=hidden.float().masked_fill(hidden, -torch.inf),
            memory_key_padding_mask=hidden.float().masked_fill(hidden, -torch.inf),
            tgt_is_causal=True,
        )
        return self.output(out)


def record(out: Path, metric: str, value: float, details: dict[str, Any]) -> None:
    """Print a ratio and record it."""
    print(f"{metric}: {value:.2f}  {details}")
    keep("training", metric, round(value, 2), seconds=0.0, details=details, folder=out)


def main() -> None:
    """Measure every model."""
    parser = arguments(__doc__)
    parser.add_argument("--out", type=Path, default=RESULTS)
    out: Path = parser.parse_args().out
    if not torch.cuda.is_available():
        parser.error("torch finds no NVIDIA GPU here, and nothing else is measured")
    batch = make_batch(64, 32, 32)
    for name, settings in RECURRENT.items():
        for bf16 in (False, True):
            took = compare(name, settings, batch, bf16=bf16)
            precision = "bf16" if bf16 else "float32"
            record(
                out,
                f"{name}: captured training step, times as fast as the plain loop, {precision}",
                took["plain"] / took["captured"],
                {"milliseconds": took, "batch": 64, "lengths": 32, "model": settings, "summary": True},
            )
    torch.manual_seed(0)
    yardstick = TorchTransformer(**TRANSFORMER).cuda().train()
    ours = {
        "bf16": compare("transformer", TRANSFORMER, batch, bf16=True),
        "float32": compare("transformer", TRANSFORMER, batch, bf16=False),
    }
    for precision, bf16 in (("bf16", True), ("float32", False)):
        step = plain_step(yardstick, bf16=bf16)
        torch_ms = interleaved({"torch": lambda step=step: step(batch)}, "cuda", budget=2.0)["torch"]  # type: ignore[misc]
        for way in ("compiled", "captured", "plain"):
            named = "compiled and captured" if way == "compiled" else way
            record(
                out,
                f"transformer: {named} step in bf16, times as fast as torch.nn.Transformer in {precision}",
                torch_ms / ours["bf16"][way],
                {"milliseconds": {"torch": torch_ms, "ours": ours}, "batch": 64, "lengths": 32}
                | {"model": TRANSFORMER, "summary": way == "captured"},
            )
    took = two_passes(make_batch(208, 24, 24))
    for way in ("closed", "compiled"):
        named = "loss in closed form" if way == "closed" else "loss in closed form, compiled"
        record(
            out,
            f"transformer, two passes (R-Drop): {named}, times as fast as the textbook's, both captured",
            took["textbook"] / took[way],
            {"milliseconds": took, "batch": 208, "lengths": 24, "model": LARGER, "summary": False},
        )


if __name__ == "__main__":
    main()
