"""The Neural Turing Machine: shapes, state, first values, and what it says to bad input."""

import pytest
import torch
from seeds import offset_seed
from torch.testing import assert_close
from torch.utils._python_dispatch import TorchDispatchMode

from regard.data.bits import BitBatch
from regard.errors import ConfigError, ShapeError
from regard.models.lstm_sequence import LSTMSequence, LSTMSequenceConfig
from regard.models.ntm import NTM, NTMConfig
from regard.tasks.ntm import CopySettings, CopyTask

SIZES = {"inputs": 5, "outputs": 4, "hidden": 12, "rows": 9, "width": 6}
KINDS = [
    {"controller": "lstm"},
    {"controller": "lstm", "layers": 2, "read_heads": 3, "write_heads": 2},
    {"controller": "feedforward", "reach": 2},
    {"controller": "feedforward", "layers": 2, "write_heads": 3, "learnt": ("memory", "reads", "weights")},
]
NAMES = ["lstm", "lstm-2x-5-heads", "feedforward-reach-2", "feedforward-2x-learnt"]


def batch(B=3, L=4):
    task = CopyTask(CopySettings(bits=4, tested=(L,)))
    return task.batch("test", range(B))


@pytest.mark.parametrize("kind", KINDS, ids=NAMES)
def test_one_step_at_a_time_equals_the_whole_sequence(kind):
    model = NTM(NTMConfig(**SIZES, **kind))
    given = batch()
    state, answers = model.start(3), []
    for x in given.inputs.unbind(1):
        h, _, state = model.step(x, state)
        answers.append(model.output(torch.cat([h, state.reads.flatten(1)], -1)))
    assert_close(model(given), torch.stack(answers, 1))


@pytest.mark.parametrize("kind", KINDS, ids=NAMES)
def test_sequences_of_a_batch_do_not_touch_each_other(kind):
    model = NTM(NTMConfig(**SIZES, **kind)).double()
    given = batch()
    given = BitBatch(given.inputs.double(), given.targets, given.counted)
    alone = BitBatch(given.inputs[1:2], given.targets[1:2], given.counted[1:2])
    assert_close(model(given)[1:2], model(alone))


@pytest.mark.parametrize("kind", KINDS, ids=NAMES)
def test_every_parameter_receives_a_gradient(kind):
    model = NTM(NTMConfig(**SIZES, **kind))
    model(batch()).square().sum().backward()
    silent = [name for name, p in model.named_parameters() if p.grad is None or not p.grad.abs().sum() > 0]
    assert silent == []


def test_padding_at_the_end_changes_no_earlier_answer():
    model, given = NTM(NTMConfig(**SIZES)), batch()
    assert_close(model(given.rounded())[:, : given.inputs.shape[1]], model(given))


def test_the_trace_tells_what_the_forward_pass_did():
    model, given = NTM(NTMConfig(**SIZES, read_heads=2)), batch()
    tape = model.trace(given.inputs)
    T = given.inputs.shape[1]
    assert_close(tape.logits, model(given))
    assert tape.read_weights.shape == (3, T, 2, 9)
    assert tape.write_weights.shape == (3, T, 1, 9)
    assert tape.reads.shape == (3, T, 2, 6)
    assert tape.adds.shape == (3, T, 1, 6)
    assert tape.controls.gamma.shape == (3, T, 3, 1)


def test_the_heads_start_on_row_0_of_a_blank_memory():
    state = NTM(NTMConfig(**SIZES)).start(2)
    assert torch.equal(state.memory.cells, torch.full((2, 9, 6), 1e-6))
    assert torch.equal(state.memory.read, torch.eye(9)[None, :1].expand(2, -1, -1))
    assert torch.equal(state.memory.write, state.memory.read)


def test_learnt_first_weightings_are_distributions():
    state = NTM(NTMConfig(**SIZES, learnt=("weights",))).start(2)
    assert_close(state.memory.read.sum(-1), torch.ones(2, 1))


def test_a_bias_of_the_gates_is_added_to_gates_alone():
    """Those of all heads; and of an LSTM's forget gates."""
    found = []
    for biases in ({}, {"gate_bias": -2.0, "forget_bias": 1.0}):
        torch.manual_seed(offset_seed(0))
        model = NTM(NTMConfig(**SIZES, read_heads=2, write_heads=3, layers=2, **biases))
        h = torch.randn(4, 12)
        squashed = model.heads(h)._replace(gate=torch.logit(model.heads(h).gate))
        found.append((squashed, [layer.bias_ih for layer in model.controller.layers]))
    (plain, before), (changed, after) = found
    assert_close(changed, plain._replace(gate=plain.gate - 2.0))
    for one, other in zip(before, after, strict=True):
        assert_close(
            other.unflatten(0, (4, 12)) - one.unflatten(0, (4, 12)), torch.eye(4)[1][:, None].expand(4, 12)
        )


@pytest.mark.parametrize("controller", ["lstm", "feedforward"])
def test_a_gain_strengthens_what_the_inputs_say_alone(controller):
    projected = []
    for gain in (1.0, 3.0):
        torch.manual_seed(offset_seed(0))
        model = NTM(NTMConfig(**SIZES, controller=controller, layers=2, input_gain=gain))
        rest = {
            name: p for name, p in model.named_parameters() if not name.startswith("controller.layers.0.w")
        }
        inputs = torch.zeros(1, 1, 5)
        (silent, reads), (spoken, _) = model.controller.project(inputs), model.controller.project(inputs + 1)
        projected.append((spoken - silent, reads, rest))
    (said, reads, rest), (louder, same_reads, same_rest) = projected
    assert_close(louder, 3 * said)
    assert_close(same_reads, reads)
    assert_close(same_rest, rest)


def test_constants_are_no_parameters_and_are_not_saved():
    kept = NTM(NTMConfig(**SIZES)).state_dict()
    assert "first_reads" in kept
    assert "first_cells" not in kept
    assert "first_cells" in NTM(NTMConfig(**SIZES, learnt=("memory",))).state_dict()


def test_a_memory_of_random_values_is_learnt():
    model = NTM(NTMConfig(**SIZES, learnt=("memory",), memory_std=0.5, blank=2.0))
    assert isinstance(model.first_cells, torch.nn.Parameter)
    cells = model.first_cells.detach()
    assert 0.25 < float(cells.std()) < 0.75
    assert 1.5 < float(cells.mean()) < 2.5
    message = (
        r"^ntm: `memory_std` has 0\.5 with a constant memory; expected 'memory' in `learnt`, so that the"
    )
    with pytest.raises(ConfigError, match=message):
        NTM(NTMConfig(**SIZES, memory_std=0.5))


def test_a_sequence_longer_than_the_memory_runs_and_stays_finite():
    model = NTM(NTMConfig(**SIZES))
    given = batch(L=30)  # 61 steps on nine rows
    logits = model(given)
    logits.square().sum().backward()
    assert logits.isfinite().all()
    assert all(p.grad.isfinite().all() for p in model.parameters())


class Waiting(TorchDispatchMode):
    """Names the operations whose result the host must know before it can go on."""

    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if function.overloadpacket in (torch.ops.aten._local_scalar_dense, torch.ops.aten.nonzero):
            self.names.append(str(function))
        return function(*args, **kwargs or {})


def test_waits_are_seen():
    given = torch.randn(5)
    with Waiting() as waiting:
        given.nonzero().sum().item()
    assert len(waiting.names) == 2


@pytest.mark.parametrize("kind", KINDS, ids=NAMES)
def test_a_training_step_waits_for_no_value(kind):
    """As a recording of the step on a GPU needs."""
    model, given, task = NTM(NTMConfig(**SIZES, **kind)), batch(), CopyTask(CopySettings(bits=4))
    with Waiting() as waiting:
        task.loss(model, given).total.backward()
    assert waiting.names == []


def test_the_baseline_answers_at_every_step_from_learnt_first_values():
    model = LSTMSequence(LSTMSequenceConfig(inputs=5, outputs=4, hidden=8, layers=3))
    given = batch()
    logits = model(given)
    assert logits.shape == given.targets.shape
    logits.sum().backward()
    assert model.first.grad.abs().sum() > 0


@pytest.mark.parametrize(
    ("model", "owner"),
    [
        (lambda: NTM(NTMConfig(**SIZES)), "NTM"),
        (lambda: LSTMSequence(LSTMSequenceConfig(inputs=5, outputs=4)), "LSTMSequence"),
    ],
    ids=["ntm", "lstm"],
)
def test_empty_and_ill_shaped_sequences_are_refused(model, owner):
    none = BitBatch(torch.zeros(2, 0, 5), torch.zeros(2, 0, 4), torch.zeros(2, 0, dtype=torch.bool))
    with pytest.raises(ShapeError, match=rf"^{owner}: `inputs` has shape \(2, 0, 5\); expected at least one"):
        model()(none)
    other = BitBatch(torch.zeros(2, 3, 7), torch.zeros(2, 3, 4), torch.zeros(2, 3, dtype=torch.bool))
    with pytest.raises(
        ShapeError, match=rf"^{owner}: `inputs` has shape \(2, 3, 7\); expected \(B=2, T=3, I=5\)\."
    ):
        model()(other)


@pytest.mark.parametrize("name", ["rows", "width", "read_heads", "write_heads", "hidden", "layers"])
def test_sizes_below_one_are_refused(name):
    with pytest.raises(ConfigError, match=rf"^ntm: `{name}` has 0; expected 1 or more\.$"):
        NTM(NTMConfig(**SIZES | {name: 0}))


def test_the_baseline_refuses_sizes_below_one():
    with pytest.raises(ConfigError, match=r"^lstm-sequence: `layers` has 0; expected 1 or more\.$"):
        LSTMSequence(LSTMSequenceConfig(inputs=1, outputs=1, layers=0))
