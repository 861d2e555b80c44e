"""Models whose parts learn in turn: who learns when, at which rate, from which batch; going on exactly."""

from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from regard.errors import ConfigError
from regard.models.base import Model, Player
from regard.models.sagan import SAGAN, SAGANConfig
from regard.tasks.base import Loss
from regard.tasks.pictures import PairedShapesSettings, PairedShapesTask
from regard.train.config import RunConfig, TrainConfig
from regard.train.interrupt import Interrupted
from regard.train.loop import fit
from regard.train.metrics import read_metrics
from regard.train.progress import Quiet
from regard.train.run_folder import RunFolder

TRAIN = TrainConfig(
    steps=6,
    batch=4,
    lr=0.25,
    optimizer="sgd",
    clip=0.0,
    evaluate_every=0,
    checkpoint_every=0,
    log_every=2,
    threads=1,
)
SMALL = {"noise": 4, "generator": 8, "discriminator": 8, "attention": (4, 8), "pool": 1, "decay": 0.9}


@dataclass(frozen=True)
class Numbers:
    values: Tensor  # (B,)

    def to(self, device):
        return Numbers(self.values.to(device))


class Duel(Model):
    """Two numbers: `a` follows the data, `b` follows `a`."""

    def __init__(self, *, turns: int = 1, rate: float = 1.0) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(1, 1, bias=False), nn.Linear(1, 1, bias=False)
        nn.init.zeros_(self.a.weight)
        nn.init.zeros_(self.b.weight)
        self.players = (Player("a", rate=rate, turns=turns), Player("b"))
        self.turns_taken: list[tuple[str, bool, bool]] = []
        self.steps_done: list[int] = []

    def forward(self, values: Tensor, *, player: str) -> Tensor:
        a, b = self.a.weight.squeeze(), self.b.weight.squeeze()
        self.turns_taken.append((player, self.a.weight.requires_grad, self.b.weight.requires_grad))
        losses = {"a": 0.5 * (a - values).square(), "b": 0.5 * (b - a).square().expand(len(values))}
        return losses[player]

    def after_step(self, step: int) -> None:
        self.steps_done.append(step)


class DuelTask:
    """Batch number n holds four times n, from 1."""

    class Settings:
        pass

    def __init__(self) -> None:
        self.asked: list[int] = []

    def save(self, folder: Path) -> None:
        pass

    def plan(self, epoch, *, seed, batch):
        return [[n] * 4 for n in range(1, 40)]

    def evaluation_plan(self, split, *, batch):
        return []

    def batch(self, split, rows):
        self.asked.append(rows[0])
        return Numbers(torch.tensor(rows, dtype=torch.float32))

    def loss(self, model, batch):
        losses = model(batch.values)
        return Loss(losses.sum(), torch.tensor(len(losses)))


def duel(tmp_path, train=TRAIN, **settings):
    model, task = Duel(**settings), DuelTask()
    fit(model, task, RunConfig("duel", {}, "duel", {}, train), run=tmp_path / "run", progress=Quiet())
    return model, task


def test_players_learn_in_turn_each_from_a_batch_of_its_own(tmp_path):
    """a ← a + lr (n - a) for n = 1, 3, 5, …; then b ← b + lr (a - b)."""
    model, task = duel(tmp_path)
    a = b = 0.0
    for n in (1, 3, 5, 7, 9, 11):
        a += 0.25 * (n - a)
        b += 0.25 * (a - b)
    assert model.a.weight.item() == pytest.approx(a, rel=1e-6)
    assert model.b.weight.item() == pytest.approx(b, rel=1e-6)
    assert task.asked == list(range(1, 13))
    assert model.steps_done == [1, 2, 3, 4, 5, 6]


def test_a_player_has_its_own_rate_and_its_number_of_turns(tmp_path):
    model, task = duel(tmp_path, turns=3, rate=0.5)
    a = b = 0.0
    for n in range(1, 25, 4):
        for each in (n, n + 1, n + 2):
            a += 0.125 * (each - a)
        b += 0.25 * (a - b)
    assert model.a.weight.item() == pytest.approx(a, rel=1e-6)
    assert model.b.weight.item() == pytest.approx(b, rel=1e-6)
    assert task.asked == list(range(1, 25))


def test_only_the_player_whose_turn_it_is_gets_gradients_and_later_all_learn_again(tmp_path):
    model, _ = duel(tmp_path)
    assert model.turns_taken[:2] == [("a", True, False), ("b", False, True)]
    assert all(parameter.requires_grad for parameter in model.parameters())


def test_the_metrics_have_the_loss_of_each_player(tmp_path):
    duel(tmp_path)
    lines = [line for line in read_metrics(tmp_path / "run") if "loss" in line]
    assert [line["step"] for line in lines] == [2, 4, 6]
    first = lines[0]
    assert first["loss"] == first["loss_a"] == pytest.approx((0.5 * 1 + 0.5 * (3 - 0.25) ** 2) / 2)
    after = 0.25 + 0.25 * 2.75
    assert first["loss_b"] == pytest.approx((0.5 * 0.25**2 + 0.5 * (after - 0.0625) ** 2) / 2)


def test_a_turn_that_is_not_finite_changes_nothing_and_is_counted(tmp_path, monkeypatch):
    original = DuelTask.batch

    def broken(self, split, rows):
        batch = original(self, split, rows)
        return Numbers(batch.values * float("nan")) if rows[0] == 3 else batch

    monkeypatch.setattr(DuelTask, "batch", broken)
    model, _ = duel(tmp_path)
    assert torch.isfinite(model.a.weight).all()
    assert model.steps_done == [1, 3, 4, 5, 6]
    [line] = [line for line in read_metrics(tmp_path / "run") if line.get("event") == "non-finite"]
    assert line["step"] == 2


def test_a_loss_scale_is_refused_before_a_folder_is_made(tmp_path, monkeypatch):
    from regard.train import loop

    build = loop.build_accelerator
    monkeypatch.setattr(loop, "build_accelerator", lambda train, *how, **more: build(TRAIN, *how, **more))
    with pytest.raises(
        ConfigError,
        match=r"^train: 'train\.precision' is 'fp16'; expected 'no' or 'bf16' for Duel, whose a and b",
    ):
        duel(tmp_path, replace(TRAIN, precision="fp16"))
    assert not (tmp_path / "run").exists()


# SAGAN in the loop --------------------------------------------------------------------------------------


def sagan_config(**train):
    given = {"steps": 6, "batch": 4, "evaluate_every": 0, "checkpoint_every": 2, "log_every": 2, "threads": 1}
    settings = TrainConfig(**(given | {"betas": (0.0, 0.9), "clip": 0.0} | train))
    return RunConfig("sagan", SMALL, "paired-shapes", {"side": 8, "train": 40}, settings)


def train_sagan(config, run, **options):
    task = PairedShapesTask.create(PairedShapesSettings(**config.task_settings))
    torch.manual_seed(config.train.seed)
    model = SAGAN(SAGANConfig(**config.model_settings, **task.sizes()))
    fit(model, task, config, run=run, progress=Quiet(), **options)
    return model


def content(run):
    folder = RunFolder(run).require("last")
    return {path.name: path.read_bytes() for path in folder.glob("*.safetensors")}


@pytest.mark.parametrize("precision", ["no", "bf16"])
def test_an_adversarial_run_goes_on_bit_for_bit_as_if_never_stopped(tmp_path, monkeypatch, precision):
    """Weights, averages, both players' Adam states, noise: everything equals the run that was not stopped."""
    import signal

    config = sagan_config(precision=precision)
    train_sagan(config, tmp_path / "whole")
    original, calls = PairedShapesTask.batch, [0]

    def batch(self, split, rows):
        calls[0] += 1
        if calls[0] == 5:  # the discriminator's turn of the third update
            signal.raise_signal(signal.SIGTERM)
        return original(self, split, rows)

    with monkeypatch.context() as patch:
        patch.setattr(PairedShapesTask, "batch", batch)
        with pytest.raises(Interrupted, match=r"stopped at step 3"):
            train_sagan(config, tmp_path / "parts")
    train_sagan(config, tmp_path / "parts", resume=True)
    assert content(tmp_path / "parts") == content(tmp_path / "whole")
    assert set(content(tmp_path / "whole")) == {
        "model.safetensors",
        "optimizer.safetensors",
        "random.safetensors",
    }


def test_both_players_and_the_average_move(tmp_path):
    config = sagan_config(steps=3)
    torch.manual_seed(config.train.seed)
    before = SAGAN(SAGANConfig(**SMALL, classes=5, side=8)).state_dict()
    after = train_sagan(config, tmp_path / "run").state_dict()
    for part in ("generator", "discriminator", "average"):
        moved = [n for n in before if n.startswith(part) and not torch.equal(before[n], after[n])]
        assert moved, part
    gammas = [name for name in after if name.endswith("gamma") and name.startswith("generator")]
    assert gammas
    assert all(after[name] != 0 for name in gammas)


class Recorded:
    """What a captured step does to gradients, without a GPU: it adds to the memory it was recorded with."""

    def __init__(self, step, model):
        self.step, self.model, self.memory = step, model, {}

    def __call__(self, batch, phase, player):
        loss = self.step(batch, player)
        found = {name: p.grad for name, p in self.model.named_parameters() if p.grad is not None}
        known = self.memory.setdefault(player.name, found)
        assert all(name.startswith(player.name) for name in found)
        assert all(found[name] is gradient for name, gradient in known.items())
        return loss

    def clear_gradients(self):
        for parameter in self.model.parameters():
            if parameter.grad is not None:
                parameter.grad.zero_()


def test_gradients_stay_where_a_recording_writes_them_and_the_run_is_the_same(tmp_path, monkeypatch):
    from regard.train.session import Session

    plain = train_sagan(sagan_config(), tmp_path / "plain").state_dict()
    prepare = Session._prepare

    def prepared(self, model, cleanup):
        prepare(self, model, cleanup)
        self.captured = Recorded(self.backward, self.plain)

    monkeypatch.setattr(Session, "_prepare", prepared)
    recorded = train_sagan(sagan_config(), tmp_path / "recorded").state_dict()
    assert all(torch.equal(plain[name], recorded[name]) for name in plain)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
class TestPlayersOnAGPU:
    def test_captured_turns_learn_what_plain_turns_learn(self, tmp_path):
        plain = train_sagan(sagan_config(), tmp_path / "a").cpu().state_dict()
        captured = train_sagan(sagan_config(capture=True), tmp_path / "b").cpu().state_dict()
        for name in plain:
            assert torch.allclose(plain[name].double(), captured[name].double(), rtol=1e-3, atol=1e-4), name
