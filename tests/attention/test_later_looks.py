"""A result that is looked at later: its weights are those of the call, or are refused."""

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from regard import (
    AdditiveScore,
    Attention,
    CosineScore,
    DotScore,
    FeedForwardScore,
    KernelRefused,
    LocalPredictive,
    record,
)


@pytest.fixture(autouse=True)
def drawn():
    global QUERY, KEYS
    QUERY, KEYS = torch.randn(2, 9, 5), torch.randn(2, 20, 5)


LOOKS = {
    "weights": lambda result: result.weights,
    "rows": lambda result: result.rows(torch.tensor([0])),
    "top": lambda result: result.top(1),
}
ATTENTIONS = {
    "additive": lambda: Attention(AdditiveScore(query=5, keys=5, hidden=6), kernel="additive-cpu"),
    "cosine": lambda: Attention(CosineScore(query=5)),
    "local-p": lambda: Attention(
        DotScore(), window=LocalPredictive(query=5, hidden=4, half_width=1), kernel="local"
    ),
}


@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("name", ATTENTIONS)
def test_weights_of_parameters_that_have_changed_are_refused(name, look):
    attention = ATTENTIONS[name]()
    with record(nn.ModuleList([attention])) as trace:
        attention(QUERY, attention.prepare(KEYS)).context.square().sum().backward()
    torch.optim.SGD(attention.parameters(), lr=1.0).step()
    with pytest.raises(
        KernelRefused,
        match=r"^AttentionResult: the weights were not kept, and its parameters have changed since the call; "
        r"expected a look before that\. `Attention\(…, keeps=True\)` keeps them\.$",
    ):
        LOOKS[look](trace["0"][0])
    LOOKS[look](attention(QUERY, attention.prepare(KEYS)))


def test_hypotheses_that_share_a_source_refuse_as_well():
    attention = ATTENTIONS["cosine"]()
    shared = attention.prepare(KEYS).share(torch.tensor([0, 0, 1, 1]))
    result = attention(torch.randn(4, 1, 5), shared)
    assert result.rows(torch.tensor([0])).shape == (4, 1, 20)
    with torch.no_grad():
        attention.score.beta.weight.add_(1.0)
    with pytest.raises(KernelRefused, match=r"its parameters have changed since the call"):
        _ = result.weights


def test_weights_that_are_kept_stay_those_of_the_call():
    attention = Attention(AdditiveScore(query=5, keys=5, hidden=6), keeps=True)
    result = attention(QUERY, attention.prepare(KEYS))
    before = result.weights.clone()
    with torch.no_grad():
        attention.score.v.weight.zero_()
    assert torch.equal(result.weights, before)


def test_a_score_that_has_begun_to_draw_dropout_cannot_give_the_weights_of_before():
    attention = Attention(FeedForwardScore(dim=5, hidden=4, dropout=0.5)).eval()
    result = attention(QUERY, attention.prepare(KEYS))
    assert not result.has_weights
    attention.train()
    with pytest.raises(KernelRefused, match=r"its score has begun to draw dropout since the call"):
        _ = result.weights


@pytest.mark.parametrize("name", ATTENTIONS)
def test_what_was_computed_in_inference_mode_can_be_looked_at_afterwards(name):
    attention = ATTENTIONS[name]()
    with torch.inference_mode():
        result = attention(QUERY.clone(), attention.prepare(KEYS.clone()))
    expected = attention.align(QUERY, attention.prepare(KEYS)).weights.detach()
    assert_close(result.rows(torch.tensor([1])), expected[:, 1:2])
    assert_close(result.top(2)[0], expected.topk(2).values)
    assert_close(result.weights, expected)


@pytest.mark.parametrize("name", ATTENTIONS)
def test_a_query_that_autocast_made_can_be_looked_at_afterwards(name):
    attention, linear = ATTENTIONS[name](), nn.Linear(5, 5)
    with torch.autocast("cpu", torch.bfloat16):
        source, query = attention.prepare(linear(KEYS)), linear(QUERY)
        inside, after = (attention(query, source) for _ in range(2))
        seen = inside.weights
    assert query.dtype == torch.bfloat16
    assert not after.has_weights
    assert_close(after.weights, seen, atol=0.05, rtol=0)
