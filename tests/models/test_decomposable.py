"""Decomposable attention against loops written from the paper; its size; order, padding, company."""

import pytest
import torch
from oracles import decomposable as paper
from torch import nn

from regard.attention.config import AttentionConfig
from regard.attention.record import record
from regard.data.batches import pad
from regard.data.entailment import PairTextBatch
from regard.errors import ConfigError
from regard.layers.distance import DistanceScore, with_positions
from regard.models.decomposable import BagOfWords, BagOfWordsConfig, Decomposable, DecomposableConfig

SIZES = {"vocab": 20, "classes": 3}
SMALL = {**SIZES, "embedding": 5, "hidden": 4}
PREMISES = [[0, 3, 4, 5, 9], [0, 7, 8]]
HYPOTHESES = [[0, 4, 11], [0, 8, 7, 12, 2, 13]]


def batch_of(premises, hypotheses):
    labels = torch.zeros(len(premises), dtype=torch.long)
    return PairTextBatch(*pad(premises), *pad(hypotheses), labels)


def small(**choices):
    model = Decomposable(DecomposableConfig(**SMALL | choices)).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():  # biases too, which begin at zero
            parameter.normal_(std=1.2 * model.config.hidden**-0.5)
    return model


def layers(net):
    return [(m.weight.tolist(), m.bias.tolist()) for m in net.modules() if isinstance(m, nn.Linear)]


@pytest.mark.parametrize("intra", [False, True], ids=["vanilla", "intra"])
def test_the_scores_are_those_of_the_equations(intra):
    model = small(intra=intra, far=2)
    scores = model(batch_of(PREMISES, HYPOTHESES))
    *H, out = layers(model.H)
    for row, pair in enumerate(zip(PREMISES, HYPOTHESES, strict=True)):
        a, b = (model.words(torch.tensor(sentence)).tolist() for sentence in pair)
        if intra:
            F, d = layers(model.inside.F), model.inside.attention.score.d.tolist()
            a, b = (paper.intra(sentence, F, d, 2) for sentence in (a, b))
        expected = paper.decomposable(a, b, layers(model.F), layers(model.G), H, out)
        torch.testing.assert_close(scores[row], torch.tensor(expected, dtype=torch.double))


def learnt(model):
    return sum(p.numel() for p in model.parameters() if p.requires_grad)


def test_it_has_as_many_parameters_as_the_paper_reports():
    vanilla = Decomposable(DecomposableConfig(**SIZES, fixed=True))
    intra = Decomposable(DecomposableConfig(**SIZES, fixed=True, intra=True))
    assert learnt(vanilla) == 60_000 + 80_400 + 120_400 + 120_400 + 603 == 381_803
    assert learnt(intra) == 381_803 + 80_400 + 40_000 + 80_000 + 22 == 582_225
    assert learnt(Decomposable(DecomposableConfig(**SIZES))) == 381_803 + 20 * 300


def test_order_matters_with_intra_sentence_attention_alone():
    turned = batch_of([[0, 9, 5, 4, 3]], [[0, 11, 4]])
    straight = batch_of(PREMISES[:1], HYPOTHESES[:1])
    vanilla, intra = (small(hidden=16, intra=intra) for intra in (False, True))  # of 4 units all may be off
    torch.testing.assert_close(vanilla(turned), vanilla(straight))
    one, other = intra(turned), intra(straight)
    assert (one - other).abs().max() > 1e-6 * other.abs().max()  # least of 300 seeds: 1.4e-3


@pytest.mark.parametrize("normalizer", ["softmax", "sparsemax", "mean"])
@pytest.mark.parametrize("intra", [False, True], ids=["vanilla", "intra"])
def test_a_pair_is_labelled_the_same_alone_and_in_company(normalizer, intra):
    model = small(attention=AttentionConfig("dot", normalizer=normalizer), intra=intra)
    together = model(batch_of(PREMISES, HYPOTHESES))
    for row in range(2):
        alone = model(batch_of(PREMISES[row : row + 1], HYPOTHESES[row : row + 1]))
        torch.testing.assert_close(together[row : row + 1], alone)
    rounded = model(batch_of(PREMISES, HYPOTHESES).rounded())
    assert rounded.shape == (16, 3)
    torch.testing.assert_close(rounded[:2], together)


def test_both_directions_are_recorded_and_padding_gets_no_weight():
    model = small()
    with record(model) as trace:
        model(batch_of(PREMISES, HYPOTHESES))
    there, back = (result.weights for result in trace[model.aligner])
    assert there.shape == (2, 5, 6)
    assert back.shape == (2, 6, 5)
    assert there[0, :, 3:].abs().max() == 0
    assert back[1, :, 3:].abs().max() == 0
    torch.testing.assert_close(there.sum(-1), torch.ones(2, 5, dtype=there.dtype))


def test_words_are_transformed_once_each_and_not_once_a_pair_of_words():
    model, seen = small(), []
    model.F.register_forward_hook(lambda module, inputs, output: seen.append(tuple(output.shape)))
    model(batch_of(PREMISES, HYPOTHESES))
    assert seen == [(2, 5, 4), (2, 6, 4)]


def test_equal_words_are_aligned_before_any_training():
    model = Decomposable(DecomposableConfig(vocab=200, classes=3)).eval()
    words = torch.randperm(199)[:9] + 1
    batch = batch_of([[0, *words.tolist()]], [[0, *words.flip(0).tolist()]])
    with torch.no_grad(), record(model) as trace:
        model(batch)
    found = trace["attend"][0].weights[0].argmax(-1)
    assert (found[1:] == torch.arange(9, 0, -1)).float().mean() > 0.8


@pytest.mark.parametrize("fixed", [False, True], ids=["trained", "fixed"])
def test_fixed_vectors_get_no_gradient(fixed):
    model = BagOfWords(BagOfWordsConfig(**SMALL, fixed=fixed))
    model(batch_of(PREMISES, HYPOTHESES)).sum().backward()
    assert (model.E.weight.grad is None) == fixed


def test_a_bag_of_words_sees_no_word_of_the_other_sentence():
    """Its scores are H of two sums, each of one sentence alone."""
    model = BagOfWords(BagOfWordsConfig(**SMALL)).eval()
    batch = batch_of(PREMISES, HYPOTHESES)
    sums = [
        torch.stack([model.G(model.words(torch.tensor(s))).sum(0) for s in part])
        for part in (PREMISES, HYPOTHESES)
    ]
    torch.testing.assert_close(model(batch), model.H(torch.cat(sums, -1)))
    assert model.aligner is None


def test_vectors_of_another_size_are_refused():
    model = BagOfWords(BagOfWordsConfig(**SMALL))
    with pytest.raises(
        ConfigError,
        match=r"^BagOfWords: `vectors` has shape \(20, 7\); expected \(20, 5\)\. Set model\.embedding to",
    ):
        model.take_vectors(torch.zeros(20, 7))


def test_all_distances_beyond_the_last_share_one_bias():
    score = DistanceScore(far=1)
    with torch.no_grad():
        score.d.copy_(torch.tensor([1.0, 2.0, 3.0, 9.0]))
    x = with_positions(torch.zeros(4, 2))
    expected = torch.tensor([[2.0, 1, 9, 9], [3, 2, 1, 9], [9, 3, 2, 1], [9, 9, 3, 2]])
    assert torch.equal(score(x, x), expected)
    assert torch.equal(score(x[2:3], x), expected[2:3])  # a query is scored alike alone
    with pytest.raises(ConfigError, match=r"^DistanceScore: `far` has -1; expected 0 or more\.$"):
        DistanceScore(far=-1)


@pytest.mark.parametrize("intra", [False, True], ids=["vanilla", "intra"])
def test_every_parameter_gets_a_gradient(intra):
    sizes = SMALL | {"hidden": 16}  # of 4 units all may be off, for one seed in 15
    model = Decomposable(DecomposableConfig(**sizes, intra=intra, dropout=0.0))
    model(batch_of(PREMISES, HYPOTHESES)).square().sum().backward()
    without = [name for name, p in model.named_parameters() if p.grad is None or not p.grad.abs().sum() > 0]
    assert without == []
