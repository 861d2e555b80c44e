"""`train.compile`: compiled once for all shapes, while the model trains; and outputs that stay in half."""

from functools import partial

import pytest
import torch
from torch import nn
from torch._dynamo.utils import counters

from regard.attention.config import AttentionConfig
from regard.data.batches import PairBatch
from regard.models.transformer import Transformer, TransformerConfig
from regard.tasks.translation import TranslationTask, consistent
from regard.train.capture import CapturedStep
from regard.train.compiling import compiled
from regard.train.config import load_recipe
from regard.train.loop import fit
from regard.train.progress import Quiet
from regard.train.run import create

SIZES = {"source_vocab": 20, "target_vocab": 20, "shared_vocab": 1, "layers": 2, "d_model": 8, "d_ff": 16}
TINY = ("model.layers=2", "model.d_model=8", "model.d_ff=16", "model.attention.heads=2", "model.dropout=0.0")


def batch_of(B, S, T, V=20):
    generator = torch.Generator().manual_seed(B + S + T)

    def words(longest):
        return torch.randint(4, V, (B, longest), generator=generator)

    def lengths(longest):
        return torch.randint(1, longest + 1, (B,), generator=generator)

    return PairBatch(words(S), lengths(S), words(T), lengths(T))


def gradients(model, batch):
    model.zero_grad()
    loss = consistent(model, batch, smoothing=0.1, weight=3.0).total
    loss.backward()
    return loss.detach(), [p.grad.clone() for p in model.parameters()]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The .grad attribute")  # which the compiler looks at, and hides elsewhere
def test_two_compilations_serve_all_layers_and_all_shapes_and_change_no_gradient(monkeypatch):
    model = Transformer(
        TransformerConfig(**SIZES, attention=AttentionConfig("scaled-dot", heads=2), dropout=0.0)
    ).train()
    batches = [batch_of(3, 8, 8), batch_of(2, 16, 8), batch_of(4, 8, 24)]  # of the first, S is T
    plain = [gradients(model, batch) for batch in batches]
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend="aot_eager", fullgraph=True))
    torch._dynamo.reset()
    counters.clear()
    with compiled(model):
        found = [gradients(model, batch) for batch in batches]
        assert counters["stats"]["unique_graphs"] == 2  # an encoder layer and a decoder layer
        model.eval()(batches[0])
        assert counters["stats"]["unique_graphs"] == 2  # evaluation is not compiled
    assert not any("forward" in vars(module) for module in model.modules())
    torch.testing.assert_close(found, plain)


@pytest.mark.parametrize(
    ("score", "kinds"),
    [("scaled-dot", ["EncoderLayer"] * 2 + ["DecoderLayer"] * 2), ("coverage", ["FeedForward"] * 4)],
)
def test_a_transformer_trains_with_its_layers_compiled(tmp_path, monkeypatch, score, kinds):
    """Or with their networks alone, where queries go in order: a loop would be compiled for each length."""
    settings = [*TINY, "train.steps=2", "train.compile=true", f"model.attention.score={score}"]
    config = load_recipe("transformer-reverse", settings)
    parts = []

    def compiling(function, *, dynamic):
        parts.append((type(function.__self__).__name__, function.__name__, dynamic))
        return function

    monkeypatch.setattr(torch, "compile", compiling)
    model, task = create(config)
    fit(model, task, config, run=tmp_path / "run", progress=Quiet())
    assert parts == [(name, "forward", True) for name in kinds]
    assert not any("forward" in vars(module) for module in model.modules())


@pytest.mark.parametrize("takes_half", [True, False])
def test_scores_stay_in_half_precision_for_a_task_that_takes_them(tmp_path, monkeypatch, takes_half):
    monkeypatch.setattr(TranslationTask, "takes_half", takes_half)
    config = load_recipe("transformer-reverse", [*TINY, "train.steps=1", "train.precision=bf16"])
    model, task = create(config)
    seen, loss = set(), TranslationTask.loss

    class Watched(nn.Module):
        def __init__(self, model):
            super().__init__()
            self.model = model
            self.training = model.training

        def forward(self, batch):
            scores = self.model(batch)
            seen.add(scores.dtype)
            return scores

    monkeypatch.setattr(TranslationTask, "loss", lambda self, model, batch: loss(self, Watched(model), batch))
    fit(model, task, config, run=tmp_path / "run", progress=Quiet())
    assert seen == {torch.bfloat16 if takes_half else torch.float32}
    assert "forward" not in vars(model)


@pytest.mark.gpu
@pytest.mark.slow
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
@pytest.mark.filterwarnings("ignore")  # of the compiler's own code
@pytest.mark.parametrize("bf16", [False, True])
def test_a_compiled_step_can_be_captured_for_each_shape(bf16):
    model = (
        Transformer(TransformerConfig(**SIZES, attention=AttentionConfig("scaled-dot", heads=2), dropout=0.0))
        .cuda()
        .train()
    )
    batches = [batch_of(*shape).to("cuda") for shape in ((16, 8, 8), (32, 16, 8), (16, 8, 24))]

    def step(batch, bf16=bf16):
        def scored(batch):
            with torch.autocast("cuda", torch.bfloat16, enabled=bf16):
                return model(batch)

        loss = consistent(scored, batch, smoothing=0.1, weight=3.0)
        loss.total.backward()
        return loss

    def gradients_of(step, batch):
        for parameter in model.parameters():
            parameter.grad = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad.zero_()
        total = step(batch).total.detach().clone()
        return total, [p.grad.clone() for p in model.parameters()]

    def distance(one, other):
        return torch.cat([(x - y).flatten() for x, y in zip(one, other, strict=True)]).norm()

    plain = [gradients_of(step, batch) for batch in batches]
    wide = [gradients_of(partial(step, bf16=False), batch) for batch in batches]
    with compiled(model):
        captured = CapturedStep(step, model)
        for batch, (total, slopes), (_, exact) in zip(batches, plain, wide, strict=True):
            found, ours = gradients_of(captured, batch)
            torch.testing.assert_close(found, total, rtol=1e-2 if bf16 else 1e-5, atol=0.0)
            if bf16:  # rounded in other places than without the compiler, but not more
                assert distance(ours, exact) <= 2 * distance(slopes, exact)
                continue
            for one, other in zip(ours, slopes, strict=True):
                assert (one - other).norm() <= 1e-4 * other.norm() + 1e-6


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
@pytest.mark.parametrize("score", ["coverage", "location-aware"])
def test_a_step_whose_queries_go_in_order_can_be_captured(score):
    model = (
        Transformer(TransformerConfig(**SIZES, attention=AttentionConfig(score, heads=2), dropout=0.0))
        .cuda()
        .train()
    )

    def step(batch):
        loss = consistent(model, batch, smoothing=0.1, weight=3.0)
        loss.total.backward()
        return loss

    captured = CapturedStep(step, model)
    for batch in (batch_of(*shape).to("cuda") for shape in ((16, 8, 8), (16, 8, 24))):
        found = []
        for run in (step, captured, captured):
            for parameter in model.parameters():
                parameter.grad = (
                    torch.zeros_like(parameter) if parameter.grad is None else parameter.grad.zero_()
                )
            found.append((run(batch).total.detach().clone(), [p.grad.clone() for p in model.parameters()]))
        for total, slopes in found[1:]:
            torch.testing.assert_close(total, found[0][0], rtol=1e-5, atol=0.0)
            for one, other in zip(slopes, found[0][1], strict=True):
                assert (one - other).norm() <= 1e-4 * other.norm() + 1e-6


@pytest.mark.gpu
@pytest.mark.slow
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
@pytest.mark.filterwarnings("ignore")  # of the compiler's own code
def test_a_compiled_and_captured_step_drops_others_each_time():
    model = (
        Transformer(TransformerConfig(**SIZES, attention=AttentionConfig("scaled-dot", heads=2), dropout=0.3))
        .cuda()
        .train()
    )

    def step(batch):
        loss = consistent(model, batch, smoothing=0.1, weight=3.0)
        loss.total.backward()
        return loss

    with compiled(model):
        captured, batch = CapturedStep(step, model), batch_of(16, 8, 8).to("cuda")
        totals = [captured(batch).total.item() for _ in range(4)]
    assert len(set(totals)) == 4
