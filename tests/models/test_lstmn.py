"""The LSTMN against its paper, written again as loops over numbers, and its one operation against both."""

import pytest
import torch
from oracles import lstmn as oracle
from oracles.linear import apply, sigmoid
from torch import nn

from regard.attention.normalizers.mean import Mean
from regard.attention.record import record
from regard.data.batches import PairBatch, pad
from regard.data.entailment import PairTextBatch
from regard.data.tensor_batch import LabelledBatch
from regard.data.text_windows import StreamBatch
from regard.errors import ConfigError, KernelRefused, ShapeError
from regard.kernels.lstmn import lstmn_tape
from regard.layers.lstmn import LSTMN, LSTMNCell
from regard.models.lstm_lm import LSTMLanguageConfig, LSTMLanguageModel
from regard.models.lstmn import LSTMNClassifier, LSTMNClassifierConfig, LSTMNConfig, LSTMNLanguageModel
from regard.models.lstmn_fusion import LSTMNFusion, LSTMNFusionConfig
from regard.models.lstmn_pairs import LSTMNPairs, LSTMNPairsConfig

SPANS = [None, 1, 2]
CUT = pytest.mark.parametrize("span", SPANS, ids=["whole", "span1", "span2"])
SUMMARY = pytest.mark.parametrize("summary", [True, False], ids=["summary", "plain"])


def cell_of(m=3, n=4, **choices):
    return LSTMNCell(inputs=m, hidden=n, **choices).double()


def numbers(cell):
    score = cell.attention.score
    return {
        "W": cell.W.weight.tolist(),
        "b": cell.W.bias.tolist(),
        "U": cell.U.weight.tolist(),
        "W_h": score.U.weight.tolist(),
        "b_h": score.U.bias.tolist(),
        "v": score.v.weight[0].tolist(),
    }


@CUT
@SUMMARY
@pytest.mark.parametrize("kernel", ["reference", "lstmn"])
def test_three_words_are_read_as_the_paper_writes_it(span, summary, kernel):
    cell = cell_of(span=span, summary=summary, kernel=kernel)
    xs = torch.randn(2, 3, 3, dtype=torch.double)
    found = cell(xs)
    for row in range(2):
        for t, (h, c, _) in enumerate(oracle.lstmn(xs[row].tolist(), numbers(cell), span)):
            torch.testing.assert_close(found[row, t].tolist(), h + c)


@CUT
def test_the_recorded_weights_are_the_papers(span):
    cell = cell_of(span=span)
    xs = torch.randn(1, 4, 3, dtype=torch.double)
    with record(cell) as trace:
        cell(xs)
    results = trace["attention"]
    for result, (_, _, weights) in zip(
        results, oracle.lstmn(xs[0].tolist(), numbers(cell), span), strict=True
    ):
        torch.testing.assert_close(result.weights[0, 0].tolist(), weights)
    assert [len(result.weights[0, 0]) for result in results] == [min(t, span or t) for t in (1, 2, 3, 4)]


@CUT
@SUMMARY
@pytest.mark.parametrize("recency", [None, 1.5])
def test_one_operation_has_the_gradients_of_the_steps(span, summary, recency):
    cell = cell_of(m=5, n=6, span=span, summary=summary, recency=recency)
    xs = torch.randn(3, 7, 5, dtype=torch.double, requires_grad=True)
    outer = torch.randn(3, 7, 12, dtype=torch.double)
    found = []
    for kernel in ("reference", "lstmn"):
        cell.kernel = kernel
        found.append(torch.autograd.grad((cell(xs) * outer).sum(), [xs, *cell.parameters()]))
    for name, a, b in zip(["inputs", *dict(cell.named_parameters())], *found, strict=True):
        torch.testing.assert_close(a, b, msg=lambda text, name=name: f"{name}: {text}")


def test_keys_too_large_for_exponentials_are_compared_by_their_sum():
    cell = cell_of()
    with torch.no_grad():
        cell.attention.score.U.weight.mul_(400.0)
        cell.W.bias[16:].sub_(90.0)
    xs = torch.randn(2, 5, 3, dtype=torch.double)
    score = cell.attention.score
    assert not lstmn_tape._fits_exponentials(score.U.weight, score.U.bias)
    reference = cell_of()
    reference.load_state_dict(cell.state_dict())
    reference.kernel = "reference"
    torch.testing.assert_close(cell(xs), reference(xs))


def test_queries_beyond_the_exponentials_saturate_as_they_should():
    cell = cell_of().float()
    with torch.no_grad():
        cell.W.bias[16:] = torch.tensor([200.0, -200.0, 60.0, -60.0])
    xs = torch.randn(2, 5, 3)
    score = cell.attention.score
    assert lstmn_tape._fits_exponentials(score.U.weight, score.U.bias)
    found = cell(xs)
    cell.kernel = "reference"
    torch.testing.assert_close(found, cell(xs))


def test_the_newest_slot_starts_ahead_by_so_much():
    plain, ahead = cell_of(), cell_of(recency=2.0)
    ahead.load_state_dict(plain.state_dict(), strict=False)
    xs = torch.randn(2, 5, 3, dtype=torch.double)
    with record(plain) as before:
        plain(xs)
    with record(ahead) as after:
        ahead(xs)
    odds = [trace["attention"][1].weights for trace in (before, after)]  # the second step: two slots
    ratio = [(w[..., 1] / w[..., 0]).log() for w in odds]
    torch.testing.assert_close(ratio[1] - ratio[0], torch.full_like(ratio[0], 2.0))


def test_an_lstmn_far_ahead_is_the_lstm_that_it_contains():
    cell = cell_of(recency=60.0, kernel="lstmn")
    plain = cell_of(span=1, kernel="lstmn")  # it can read the last slot only
    plain.load_state_dict(cell.state_dict(), strict=False)
    xs = torch.randn(2, 5, 3, dtype=torch.double)
    torch.testing.assert_close(cell(xs), plain(xs))


def test_with_all_weight_on_the_last_slot_it_is_an_lstm():
    cell = cell_of(span=1)
    lstm = nn.LSTM(3, 4, batch_first=True).double()
    n = 4
    order = [slice(0, n), slice(n, 2 * n), slice(3 * n, 4 * n), slice(2 * n, 3 * n)]  # torch has i f ĉ o
    with torch.no_grad():
        lstm.weight_ih_l0.copy_(torch.cat([cell.W.weight[rows] for rows in order]))
        lstm.weight_hh_l0.copy_(torch.cat([cell.U.weight[rows] for rows in order]))
        lstm.bias_ih_l0.copy_(torch.cat([cell.W.bias[rows] for rows in order]))
        lstm.bias_hh_l0.zero_()
    xs = torch.randn(2, 6, 3, dtype=torch.double)
    torch.testing.assert_close(cell(xs)[..., :n], lstm(xs)[0])


@CUT
@pytest.mark.parametrize("layers", [1, 3])
def test_a_language_model_step_by_step_equals_all_at_once(span, layers):
    config = LSTMNConfig(vocab=11, embedding=5, hidden=6, layers=layers, span=span)
    model = LSTMNLanguageModel(config).double().eval()
    inputs = torch.randint(11, (3, 6))
    whole = model(StreamBatch(inputs, inputs, torch.full((3,), 6))).log_softmax(-1)
    state, steps = model.start(3), []
    for t in range(6):
        found, state = model.step(inputs[:, t], state)
        steps.append(found)
    torch.testing.assert_close(torch.stack(steps, 1), whole)
    assert state[-1].source.keys.shape[1] == min(7, span or 7)


def test_upper_layers_see_the_word_too():
    stack = LSTMN(inputs=3, hidden=4, layers=2)
    assert [cell.W.in_features for cell in stack.cells] == [3, 7]


def test_context_is_read_and_only_targets_are_scored():
    for model in (
        LSTMNLanguageModel(LSTMNConfig(vocab=9, embedding=4, hidden=5)),
        LSTMLanguageModel(LSTMLanguageConfig(vocab=9, embedding=4, hidden=5)),
    ):
        inputs = torch.randint(9, (2, 7))
        few = model(StreamBatch(inputs, inputs[:, -3:], torch.tensor([3, 3])))
        every = model(StreamBatch(inputs, inputs, torch.tensor([7, 7])))
        torch.testing.assert_close(few, every[:, -3:])


@pytest.mark.parametrize("pool", ["mean", "last"])
@pytest.mark.parametrize("cell", ["lstmn", "lstm"])
def test_padding_does_not_change_a_label(pool, cell):
    sizes = {"vocab": 9, "classes": 3, "embedding": 4, "hidden": 5}
    model = LSTMNClassifier(LSTMNClassifierConfig(**sizes, pool=pool, cell=cell)).double()
    symbols = torch.randint(9, (2, 6, 2))
    lengths = torch.tensor([6, 3])
    alone = model(LabelledBatch(symbols[1:, :3], lengths[1:], lengths[1:]))
    torch.testing.assert_close(model(LabelledBatch(symbols, lengths, lengths))[1:], alone)
    other = symbols.clone()
    other[1, 3:] = 0
    torch.testing.assert_close(model(LabelledBatch(other, lengths, lengths))[1:], alone)


def test_steps_that_carry_several_symbols_sum_their_embeddings():
    model = LSTMNClassifier(LSTMNClassifierConfig(vocab=9, classes=3, embedding=4, hidden=5))
    one = LabelledBatch(torch.tensor([[[1, 2]]]), torch.tensor([1]), torch.tensor([0]))
    with torch.no_grad():
        model.E.weight[5] = model.E.weight[1] + model.E.weight[2]
        model.E.weight[6] = 0.0
    same = LabelledBatch(torch.tensor([[[5, 6]]]), torch.tensor([1]), torch.tensor([0]))
    torch.testing.assert_close(model(one), model(same))


def pairs(lengths=(5, 3), targets=(4, 2)):
    return PairBatch(
        torch.randint(4, 12, (len(lengths), max(lengths))),
        torch.tensor(lengths),
        torch.randint(4, 13, (len(targets), max(targets))),
        torch.tensor(targets),
    )


def fused(fusion, **choices):
    sizes = {"source_vocab": 12, "target_vocab": 13, "embedding": 3, "hidden": 4}
    return LSTMNFusion(LSTMNFusionConfig(**sizes, fusion=fusion, **choices)).double().eval()


def test_deep_fusion_is_the_papers():
    model = fused("deep")
    batch = pairs((3,), (3,))
    fusion = model.fusion
    source = oracle.lstmn(model.E_source(batch.source)[0].tolist(), numbers(model.encoder.cells[0]))
    gamma, alpha = [h for h, _, _ in source], [c for _, c, _ in source]
    words = model.E(torch.tensor([1, *batch.target[0, :-1].tolist()])).tolist()
    score, n = fusion.attention.score, 4
    W, b, U = fusion.W.weight.tolist(), fusion.W.bias.tolist(), fusion.U.weight.tolist()
    before, every_weight = [[0.0] * n], []

    def added(t):
        given = [x + y for x, y in zip(apply(W, words[t]), b, strict=True)]
        asks = [x + y for x, y in zip(given[:n], apply(U[:n], before[-1]), strict=True)]
        u = score.v.weight[0].tolist()
        weights, hidden, memory = oracle.read(
            gamma, alpha, asks, score.U.weight.tolist(), score.U.bias.tolist(), u
        )
        before.append(hidden)
        every_weight.append(weights)
        found = apply(U[n:], hidden)
        return [sigmoid(x + y) * a for x, y, a in zip(given[n:], found, memory, strict=True)]

    expected = oracle.lstmn(words, numbers(fusion.cell), added=added)
    with record(model) as trace:
        scores = model(batch)
    for t, (h, _, weights) in enumerate(expected):
        torch.testing.assert_close(scores[0, t], model.W(torch.tensor(h, dtype=torch.double)))
        torch.testing.assert_close(trace["fusion.attention"][t].weights[0, 0].tolist(), every_weight[t])
        torch.testing.assert_close(trace["fusion.cell.attention"][t].weights[0, 0].tolist(), weights)


def test_shallow_fusion_reads_what_it_found_beside_the_word():
    model = fused("shallow")
    batch = pairs((3,), (3,))
    fusion = model.fusion
    source = oracle.lstmn(model.E_source(batch.source)[0].tolist(), numbers(model.encoder.cells[0]))
    gamma = [h for h, _, _ in source]
    words = model.E(torch.tensor([1, *batch.target[0, :-1].tolist()])).tolist()
    score = fusion.attention.score
    # the cell reads [x_t; γ̃_t]: its matrix is that of the word beside that of what was found
    cell = numbers(fusion.cell)
    cell["W"] = [a + b for a, b in zip(cell["W"], fusion.C.weight.tolist(), strict=True)]
    inputs, h = [], [0.0] * 4
    for word in words:
        asks = [
            a + b + c
            for a, b, c in zip(
                apply(fusion.W.weight.tolist(), word), fusion.W.bias.tolist(),
                apply(fusion.U.weight.tolist(), h), strict=True,
            )
        ]  # fmt: skip
        key = (score.U.weight.tolist(), score.U.bias.tolist(), score.v.weight[0].tolist())
        _, found, _ = oracle.read(gamma, gamma, asks, *key)
        inputs.append(word + found)
        h = oracle.lstmn(inputs, cell)[-1][0]
    expected = torch.tensor([h for h, _, _ in oracle.lstmn(inputs, cell)], dtype=torch.double)
    torch.testing.assert_close(model(batch)[0], model.W(expected))


@pytest.mark.parametrize("fusion", ["shallow", "deep"])
@CUT
def test_a_fused_decoder_step_by_step_equals_teacher_forcing(fusion, span):
    model, batch = fused(fusion, span=span), pairs()
    whole = model(batch).log_softmax(-1)
    state, token = model.start(batch), torch.tensor([1, 1])
    for t in range(4):
        found, state = model.step(token, state)
        torch.testing.assert_close(found, whole[:, t])
        token = batch.target[:, t]


@pytest.mark.parametrize("fusion", ["shallow", "deep"])
def test_a_fused_decoder_ignores_source_padding_and_follows_its_rows(fusion):
    model, batch = fused(fusion), pairs()
    alone = PairBatch(
        batch.source[1:, :3], batch.source_lengths[1:], batch.target[1:], batch.target_lengths[1:]
    )
    torch.testing.assert_close(model(batch)[1:], model(alone))
    _, state = model.step(torch.tensor([1, 1]), model.start(batch))
    swapped, _ = model.step(torch.tensor([5, 4]), model.select(state, torch.tensor([1, 0])))
    straight, _ = model.step(torch.tensor([4, 5]), state)
    torch.testing.assert_close(swapped, straight.flip(0))


def sentence_pairs(premises=([0, 3, 4, 5], [0, 7, 8]), hypotheses=([0, 4], [0, 8, 7, 2])):
    labels = torch.zeros(len(premises), dtype=torch.long)
    return PairTextBatch(*pad(premises), *pad(hypotheses), labels)


def paired(fusion, **choices):
    sizes = {"vocab": 10, "classes": 3, "embedding": 3, "hidden": 4}
    return LSTMNPairs(LSTMNPairsConfig(**sizes, fusion=fusion, **choices)).double().eval()


def mean_hidden(words, cell, span):
    hidden = [h for h, _, _ in oracle.lstmn(words.tolist(), numbers(cell), span)]
    return torch.tensor(hidden, dtype=torch.double).mean(0)


@pytest.mark.parametrize("span", [None, 1], ids=["whole", "two LSTMs"])
def test_a_pair_is_labelled_by_the_means_of_two_tapes(span):
    model, batch = paired("none", span=span), sentence_pairs()
    a, b = model.words(batch.premise[0]), model.words(batch.hypothesis[0, :2])
    means = [
        mean_hidden(words, reader.cells[0], span)
        for words, reader in ((a, model.premise), (b, model.hypothesis))
    ]
    torch.testing.assert_close(model(batch)[0], model.H(torch.cat(means)))


def test_with_deep_fusion_a_hypothesis_remembers_the_premise():
    model, batch = paired("deep"), sentence_pairs()
    premise = oracle.lstmn(model.words(batch.premise[0]).tolist(), numbers(model.premise.cells[0]))
    words, fusion = model.words(batch.hypothesis[0, :2]), model.hypothesis
    tapes = torch.tensor([[h + c for h, c, _ in premise]], dtype=torch.double)
    hidden = fusion.read(words[None], fusion.start(tapes, torch.tensor([4])))
    means = tapes[0, :, :4].mean(0), hidden[0].mean(0)
    torch.testing.assert_close(model(batch)[0], model.H(torch.cat(means)))


@pytest.mark.parametrize("fusion", ["none", "shallow", "deep"])
def test_a_pair_is_labelled_the_same_alone_and_in_company(fusion):
    model, batch = paired(fusion), sentence_pairs()
    alone = sentence_pairs([[0, 7, 8]], [[0, 8, 7, 2]])
    torch.testing.assert_close(model(batch)[1:], model(alone))
    torch.testing.assert_close(model(batch.rounded())[:2], model(batch))


@pytest.mark.parametrize("fusion", ["none", "shallow", "deep"])
def test_only_fusion_shows_the_premise_to_the_reader_of_the_hypothesis(fusion):
    model, seen = paired(fusion), []
    model.H.register_forward_hook(lambda module, inputs, output: seen.append(inputs[0][0, 4:]))
    for premise in ([0, 3, 4, 5], [0, 3, 4, 6]):
        model(sentence_pairs([premise], [[0, 4]]))
    assert torch.equal(*seen) == (fusion == "none")


def test_recording_takes_the_steps_and_changes_nothing():
    model = LSTMNLanguageModel(LSTMNConfig(vocab=9, embedding=4, hidden=5)).double()
    inputs = torch.randint(9, (2, 6))
    batch = StreamBatch(inputs, inputs, torch.tensor([6, 6]))
    with record(model) as trace:
        seen = model(batch)
    assert len(trace[model.aligner]) == 6
    torch.testing.assert_close(seen, model(batch))


def test_another_normalizer_is_obeyed():
    cell = cell_of()
    cell.attention.normalizer = Mean()
    xs = torch.randn(1, 4, 3, dtype=torch.double)
    with record(cell) as trace:
        seen = cell(xs)
    assert trace["attention"][-1].weights.tolist() == [[[0.25] * 4]]
    torch.testing.assert_close(cell(xs), seen)


def test_what_the_one_operation_cannot_run_it_says():
    cell = cell_of(kernel="lstmn")
    cell.attention.normalizer = Mean()
    xs = torch.randn(1, 2, 3, dtype=torch.double)
    with pytest.raises(
        KernelRefused,
        match=r"kernel 'lstmn' cannot run this call: normalizer is Mean\(\), this kernel computes",
    ):
        cell(xs)
    cell = cell_of(kernel="lstmn")
    with (
        pytest.raises(KernelRefused, match="the attention is being recorded, which sees it step"),
        record(cell),
    ):
        cell(xs)


@pytest.mark.parametrize(
    "path", ["U", "attention", "attention.score", "attention.score.U", "attention.normalizer"]
)
def test_a_hook_on_a_part_is_called_at_every_step(path):
    cell, seen = cell_of(), []
    xs = torch.randn(2, 4, 3, dtype=torch.double)
    expected = cell(xs)
    cell.get_submodule(path).register_forward_hook(lambda *_: seen.append(path))
    torch.testing.assert_close(cell(xs), expected)
    assert len(seen) == (5 if path == "attention.score.U" else 4)  # it is asked about slot 0 too


def test_a_hook_that_changes_what_a_part_finds_is_obeyed():
    cell = cell_of(kernel="lstmn")
    xs = torch.randn(2, 4, 3, dtype=torch.double)
    before = cell(xs)
    cell.attention.score.U.register_forward_pre_hook(lambda *_: None)
    with pytest.raises(KernelRefused, match="a part is Linear with hooks or methods of its own, which goes"):
        cell(xs)
    cell.kernel = "auto"
    cell.U.register_forward_hook(lambda module, given, out: 2 * out)
    assert not torch.allclose(cell(xs), before)


def test_a_step_of_ones_own_is_taken():
    class Still(LSTMNCell):
        def step(self, projected, tape, added=None):
            return super().step(0 * projected, tape, added)

    cell = Still(inputs=3, hidden=4)
    assert torch.equal(cell(torch.randn(1, 3, 3)), cell(torch.randn(1, 3, 3)))


def test_what_cannot_be_built_says_so():
    with pytest.raises(
        ConfigError, match=r"LSTMN: `span` has 0; expected 1 or more slots, or None for all\."
    ):
        LSTMNCell(inputs=3, hidden=4, span=0)
    with pytest.raises(ConfigError, match=r"LSTMN: `layers` has 0; expected 1 or more\."):
        LSTMN(inputs=3, hidden=4, layers=0)
    with pytest.raises(
        ConfigError, match=r"LSTMN: `kernel` has 'sdpa'; expected one of auto, reference, lstmn\."
    ):
        LSTMNCell(inputs=3, hidden=4, kernel="sdpa")
    with pytest.raises(
        ShapeError, match=r"LSTMN: `inputs` has shape \(2, 5, 4\); expected \(B=2, T=5, m=3\)\."
    ):
        LSTMNCell(inputs=3, hidden=4)(torch.zeros(2, 5, 4))
    with pytest.raises(
        ShapeError, match=r"LSTMN: `inputs` has shape \(2, 0, 3\); expected one step or more\."
    ):
        LSTMNCell(inputs=3, hidden=4)(torch.zeros(2, 0, 3))
