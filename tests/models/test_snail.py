"""SNAIL for few-shot classification: its sizes, what it may depend on, and what it refuses."""

import pytest
import torch

from regard.data.episodes import EpisodeBatch
from regard.errors import ConfigError, ShapeError
from regard.layers.temporal import AttentionBlock, TCBlock
from regard.models.snail import SNAIL, SNAILConfig

SMALL = {"embedding": 8, "channels": 4, "keys": (8, 8, 8), "values": (4, 4, 4), "filters": 4}


def episodes(B=2, N=3, K=2, Q=2):
    labels = torch.stack([torch.randperm(N * K) // K for _ in range(B)])
    return EpisodeBatch(
        torch.randint(0, 256, (B, N * K, 28, 28), dtype=torch.uint8),
        labels,
        torch.randint(0, 256, (B, Q, 28, 28), dtype=torch.uint8),
        torch.randint(0, N, (B, Q)),
    )


def small(**choices):
    return SNAIL(SNAILConfig(**{"ways": 3, "steps": 7} | SMALL | choices)).eval()


@pytest.mark.parametrize(
    ("ways", "steps", "widths"),
    [
        (5, 6, [69, 101, 485, 613, 997, 1253]),
        (5, 26, [69, 101, 741, 869, 1509, 1765]),
        (20, 21, [84, 116, 756, 884, 1524, 1780]),
        (20, 101, [84, 116, 1012, 1140, 2036, 2292]),
    ],
    ids=["5-way-1-shot", "5-way-5-shot", "20-way-1-shot", "20-way-5-shot"],
)
def test_the_channels_are_the_paper_s(ways, steps, widths):
    with torch.device("meta"):
        model = SNAIL(SNAILConfig(ways=ways, steps=steps))
    assert [type(block) for block in model.blocks] == [AttentionBlock, TCBlock] * 2 + [AttentionBlock]
    assert [64 + ways, *(block.outputs for block in model.blocks)] == widths


def test_an_image_is_embedded_as_in_the_paper_s_order():
    """Convolution, batch norm, ReLU, max-pool; here ReLU stands last, which changes nothing."""
    embed = small().embed
    x = torch.rand(3, 28, 28)
    h = x[:, None]
    for i in range(4):
        convolution, norm = embed[1 + 4 * i], embed[2 + 4 * i]
        h = torch.nn.functional.max_pool2d(norm(convolution(h)).relu(), 2)
    torch.testing.assert_close(embed(x), embed[-1](h.flatten(1)))


def test_queries_have_no_label_and_stand_last():
    batch = episodes()
    x = small().sequences(batch)
    assert x.shape == (2, 6 + 2, 8 + 3)
    assert not x[:, 6:, 8:].any()
    assert torch.equal(x[:, :6, 8:].argmax(-1), batch.labels)
    assert torch.equal(x[:, :6, 8:].sum(-1), torch.ones(2, 6))


@pytest.mark.parametrize("K", [1, 2])
@pytest.mark.parametrize("left_out", [None, "attention", "convolutions"])
def test_queries_that_share_their_examples_are_scored_as_sequences_of_their_own(left_out, K):
    """The paper's reading: every query behind a copy of the examples, all of it through all blocks."""
    model, batch = small(**({left_out: False} if left_out else {})), episodes(K=K, Q=4)
    x, S = model.sequences(batch), 3 * K
    for q in range(4):
        alone = torch.cat([x[:, :S], x[:, [S + q]]], 1)
        for block in model.blocks:
            alone = block(alone)
        torch.testing.assert_close(model.W(alone[:, -1]), model(batch)[:, q])


def test_queries_of_an_episode_do_not_know_of_each_other():
    model, batch = small(), episodes()
    both = model(batch)
    for q in range(2):
        alone = EpisodeBatch(batch.support, batch.labels, batch.queries[:, [q]], batch.answers[:, [q]])
        torch.testing.assert_close(model(alone)[:, 0], both[:, q])


def test_episodes_of_a_batch_do_not_know_of_each_other():
    model, batch = small(), episodes()
    alone = EpisodeBatch(batch.support[1:], batch.labels[1:], batch.queries[1:], batch.answers[1:])
    torch.testing.assert_close(model(alone), model(batch)[1:])


def test_fewer_shots_than_the_longest_episode_run_too():
    assert small()(episodes(K=1)).shape == (2, 2, 3)


@pytest.mark.parametrize("left_out", ["attention", "convolutions"])
def test_what_is_left_out_is_gone_and_nothing_else(left_out):
    model = small(**{left_out: False})
    kinds = {"attention": [TCBlock] * 2, "convolutions": [AttentionBlock] * 3}
    assert [type(block) for block in model.blocks] == kinds[left_out]
    assert (model.aligner is None) == (left_out == "attention")
    batch = episodes()
    assert model(batch).shape == (2, 2, 3)
    other = EpisodeBatch(batch.support, batch.labels.flip(1), batch.queries, batch.answers)
    assert not torch.equal(model(batch), model(other))  # the labels reach the answer either way


def test_without_convolutions_the_order_of_the_examples_says_nothing():
    """One attention block alone: those above read what the causal ones below made of the order."""
    model, batch = small(convolutions=False), episodes(N=3, K=2)
    model.blocks = model.blocks[:1]
    model.W = torch.nn.Linear(8 + 3 + 4, 3)
    order = torch.randperm(6)
    other = EpisodeBatch(batch.support[:, order], batch.labels[:, order], batch.queries, batch.answers)
    torch.testing.assert_close(model(batch), model(other))


def test_what_is_wrong_is_said():
    message = r"^snail: `attention` and `convolutions` are both false; expected one of them to be true\."
    with pytest.raises(ConfigError, match=message):
        small(attention=False, convolutions=False)
    message = r"^snail: `keys` has 2 sizes and `values` 3; expected the same number, two or more"
    with pytest.raises(ConfigError, match=message):
        small(keys=(8, 8))
    batch = episodes()
    wrong = EpisodeBatch(batch.support, batch.labels, batch.queries[:1], batch.answers)
    message = r"^SNAIL: `queries` has shape \(1, 2, 28, 28\); expected \(B=2, Q, H=28, W=28\)\.$"
    with pytest.raises(ShapeError, match=message):
        small()(wrong)
