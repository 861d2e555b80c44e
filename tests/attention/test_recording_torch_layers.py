"""record(model) over PyTorch's own layers and FlexAttention."""

import random
import sys
import types

import pytest
import torch
import torch.nn.functional as F
from foreign_calls import CLOSE, Calls, formula, tensors
from torch import nn

from regard import record
from regard.attention.record import UnseenWarning


def masks_of(T):
    causal = torch.ones(T, T).triu(1).bool()
    padding = torch.zeros(2, T, dtype=torch.bool)
    padding[1, T - 2 :] = True
    return {
        "none": (None, None),
        "causal": (causal, None),
        "padding": (None, padding),
        "both": (causal, padding),
    }


def expected_heads(module, query, key, hidden, padding):
    """The weights of nn.MultiheadAttention by its parameters."""
    E, H = module.embed_dim, module.num_heads
    if not module.batch_first:
        query, key = query.transpose(0, 1), key.transpose(0, 1)
    weight, bias = module.in_proj_weight.detach(), module.in_proj_bias.detach()
    q = F.linear(query, weight[:E], bias[:E]).unflatten(-1, (H, -1)).transpose(1, 2)
    k = F.linear(key, weight[E : 2 * E], bias[E : 2 * E]).unflatten(-1, (H, -1)).transpose(1, 2)
    visible = torch.ones(q.shape[0], 1, q.shape[-2], k.shape[-2], dtype=torch.bool)
    visible = visible if hidden is None else visible & ~hidden
    visible = visible if padding is None else visible & ~padding[:, None, None]
    return formula(q, k, visible=visible)


@pytest.mark.parametrize("masks", masks_of(6))
@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("batch_first", [True, False])
def test_multihead_attention(masks, need_weights, training, batch_first):
    module = nn.MultiheadAttention(8, 2, batch_first=batch_first).train(training)
    x = torch.randn(2, 6, 8) if batch_first else torch.randn(6, 2, 8)
    hidden, padding = masks_of(6)[masks]
    options = {"attn_mask": hidden, "key_padding_mask": padding, "need_weights": need_weights}
    with torch.no_grad():
        plain = module(x, x, x, **options)
        with record(module) as trace:
            out = module(x, x, x, **options)
    assert torch.equal(out[0], plain[0])
    assert out[1] is None if not need_weights else torch.equal(out[1], plain[1])
    (result,) = trace[""]
    expected = expected_heads(module, x, x, hidden, padding)
    torch.testing.assert_close(result.weights, expected, **CLOSE)
    torch.testing.assert_close(result.rows(torch.tensor([3])), expected[..., 3:4, :], **CLOSE)
    torch.testing.assert_close(result.top(2)[0], expected.topk(2).values, **CLOSE)
    fast = batch_first and not training
    assert result.kernel == ("native" if fast else "bmm" if need_weights else "sdpa")


def chance(p=0.5):
    return random.random() < p


def drawn_mask(shape, dtype):
    """Under a mask some rows may see nothing; of numbers that are added, minus infinity hides."""
    hidden = torch.rand(shape) < 0.3
    if dtype == torch.bool:
        return hidden
    return torch.randn(shape, dtype=dtype).masked_fill(hidden, -torch.inf)


def drawn_call():
    """A module, what it is given, and the options of the call, all at random; often one for its fast path."""
    fast, H, dtype = chance(0.3), random.choice((1, 2, 4)), random.choice((torch.float32, torch.float64))
    itself, given = fast or chance(), {"batch_first": fast or chance()}
    if not fast:
        given |= {name: chance() for name in ("bias", "add_bias_kv", "add_zero_attn")}
    if not itself:
        given |= {"kdim": random.choice((None, 3)), "vdim": random.choice((None, 5))}
    module = nn.MultiheadAttention(4 * H, H, dtype=dtype, **given).train(not fast and chance())
    batch, T = random.choice(((), (1,), (3,))), random.choice((1, 3, 5))
    S = T if itself else random.choice((1, 4, 6))
    sizes = (T, module.embed_dim), (S, module.kdim), (S, module.vdim)
    parts = [torch.randn(*batch, *size, dtype=dtype) for size in sizes]
    parts = [parts[0]] * 3 if itself else parts
    if batch and not module.batch_first:
        parts = [x.transpose(0, 1) for x in parts]
    options, kind = {"need_weights": chance()}, random.choice((torch.bool, dtype))
    if chance():
        options["key_padding_mask"] = drawn_mask((*batch, S), kind)
    if chance():
        shape = (T, S) if chance() else (*(n * H for n in batch or (1,)), T, S)
        options |= {"attn_mask": drawn_mask(shape, kind), "is_causal": chance()}
    return module, parts, options


def test_any_call_of_multihead_attention_has_the_weights_that_it_returns_or_mixes_its_values_by():
    """Rows that see nothing have weights of zero here, and no number there."""
    close, kernels = {"rtol": 1e-4, "atol": 1e-5}, set()
    for _ in range(150):
        module, parts, options = drawn_call()
        with torch.set_grad_enabled(module.training), record(module, gradients=True) as trace:
            module(*parts, **options)
        (result,) = trace[""]
        # without weights, PyTorch takes is_causal instead of the mask, and leaves the mask out
        if options["need_weights"] or not options.get("is_causal"):
            whole = options | {"need_weights": True, "average_attn_weights": False}
            expected = module(*parts, **whole)[1].nan_to_num(0.0)
            torch.testing.assert_close(result.weights, expected.view(result.weights.shape), **close)
        if result.kernel == "sdpa":
            mixed = result.weights @ result.seen.values
            torch.testing.assert_close(mixed, result.context.nan_to_num(0.0), **close)
        kernels.add(result.kernel)
    assert kernels == {"bmm", "sdpa", "native"}


def test_multihead_attention_of_another_sequence_with_dropout_and_an_extra_key():
    module = nn.MultiheadAttention(8, 2, dropout=0.5, add_zero_attn=True, batch_first=True)
    query, key = torch.randn(2, 3, 8), torch.randn(2, 5, 8)
    with record(module) as trace:
        module(query, key, key)
    (result,) = trace[""]
    assert result.dropout == 0.5
    assert result.weights.shape == (2, 2, 3, 6)
    torch.testing.assert_close(result.weights.sum(-1), torch.ones(2, 2, 3))
    torch.testing.assert_close(
        result.weights[..., -1], result.scores[..., -1].exp() / result.scores.exp().sum(-1)
    )
    assert (result.scores[..., -1] == 0).all()


def test_multihead_attention_inside_torch_func_is_named():
    module, x = nn.MultiheadAttention(8, 2, batch_first=True), torch.randn(3, 4, 8)
    with pytest.warns(UnseenWarning, match="it ran inside torch.func"), record(module) as trace:
        torch.vmap(lambda row: module(row[None], row[None], row[None])[0])(x)
    assert trace == {}


def test_multihead_attention_without_a_batch():
    module = nn.MultiheadAttention(8, 2)
    x = torch.randn(4, 8)
    with record(module) as trace:
        module(x, x, x)
    expected = expected_heads(module, x[:, None], x[:, None], None, None)
    torch.testing.assert_close(trace[""][0].weights, expected, **CLOSE)


def test_the_weights_of_the_fast_path_are_those_of_the_call_whatever_becomes_of_the_parameters():
    module = nn.MultiheadAttention(8, 2, batch_first=True).eval()
    x = torch.randn(2, 6, 8)
    with torch.no_grad(), record(module) as trace:
        module(x, x, x)
    expected = expected_heads(module, x, x, None, None)
    with torch.no_grad():
        module.in_proj_weight.zero_()
    torch.testing.assert_close(trace[""][0].weights, expected, **CLOSE)


@pytest.mark.parametrize("masks", masks_of(6))
@pytest.mark.parametrize(("nested", "norm_first"), [(True, False), (False, False), (False, True)])
@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors is in prototype")
def test_the_encoder_stays_on_its_fast_path(masks, nested, norm_first):
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, norm_first=norm_first)
    model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=nested).eval()
    hidden, padding = masks_of(6)[masks]
    x = torch.randn(2, 6, 8)
    with torch.no_grad():
        plain = model(x, mask=hidden, src_key_padding_mask=padding)
        with record(model) as trace:
            out = model(x, mask=hidden, src_key_padding_mask=padding)
    assert torch.equal(out, plain)
    assert [result.kernel for results in trace.values() for result in results] == ["native", "native"]
    first = model.layers[0]
    attended = first.norm1(x) if norm_first else x
    expected = expected_heads(first.self_attn, attended, attended, hidden, padding)
    weights = trace["layers.0"][0].weights
    lengths = [6, 6] if padding is None else [6, 4]
    for row, length in enumerate(lengths):  # nested rows end where their padding begins
        torch.testing.assert_close(weights[row, :, :length], expected[row, :, :length], **CLOSE)


def test_the_decoder_attends_to_itself_and_to_the_memory():
    layer = nn.TransformerDecoderLayer(8, 2, 16, batch_first=True)
    model = nn.TransformerDecoder(layer, 2).eval()
    target, memory = torch.randn(2, 4, 8), torch.randn(2, 6, 8)
    causal = nn.Transformer.generate_square_subsequent_mask(4)
    with record(model) as trace:
        model(target, memory, tgt_mask=causal, tgt_is_causal=True)
    shapes = {path: tuple(results[0].weights.shape) for path, results in trace.items()}
    assert shapes == {
        f"layers.{n}.{name}": shape
        for n in range(2)
        for name, shape in (("self_attn", (2, 2, 4, 4)), ("multihead_attn", (2, 2, 4, 6)))
    }
    assert (trace["layers.0.self_attn"][0].weights.triu(1) == 0).all()


# FlexAttention


EAGER_FLEX = pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")


@pytest.fixture(scope="module")
def flex():
    from torch.nn.attention import flex_attention

    return flex_attention


@EAGER_FLEX
def test_flex_attention_with_a_score_mod_that_reads_tensors(flex):
    slopes, bias = torch.rand(4), torch.randn(5, 7)
    (q, k, v), model = tensors(), Calls(lambda *a, **o: flex.flex_attention(*a, **o))

    def mod(score, b, h, t, s):
        return score * 0.5 + slopes[h] * (t - s) + bias[t, s] + b

    with record(model) as trace:
        out = model(q, k, v, score_mod=mod)
    t, s = torch.arange(5)[:, None], torch.arange(7)
    added = slopes[:, None, None] * (t - s) + bias + torch.arange(2)[:, None, None, None]
    expected = formula(q, k, bias=added, scale=0.5 * 8**-0.5)
    (result,) = trace[""]
    torch.testing.assert_close(result.weights, expected, **CLOSE)
    torch.testing.assert_close(result.rows(torch.tensor([4, 1])), expected[..., [4, 1], :], **CLOSE)
    torch.testing.assert_close(expected @ v, out, **CLOSE)
    assert result.kernel == "flex"


@EAGER_FLEX
def test_flex_attention_with_a_block_mask_and_groups(flex):
    documents = torch.tensor([[0] * 100 + [1] * 100, [0] * 40 + [1] * 160])

    def visible(b, h, t, s):
        return (documents[b, t] == documents[b, s]) & (t >= s)

    mask = flex.create_block_mask(visible, 2, None, 200, 200, device="cpu", BLOCK_SIZE=64)
    (q, k, v), model = tensors(T=200, S=200, G=2), Calls(lambda *a, **o: flex.flex_attention(*a, **o))
    with record(model, heads=[3, 1]) as trace:
        out = model(q, k, v, block_mask=mask, enable_gqa=True)
    dense = (documents[:, None, :, None] == documents[:, None, None]) & torch.ones(200, 200).tril().bool()
    expected = formula(q, k, visible=dense)
    torch.testing.assert_close(trace[""][0].weights, expected[:, [3, 1]], **CLOSE)
    torch.testing.assert_close(expected @ v.repeat_interleave(2, 1), out, **CLOSE)


COMPILED_FLEX = """
import torch
from torch import nn
from torch.nn.attention.flex_attention import flex_attention
attend = torch.compile(flex_attention, backend="eager")

class Flex(nn.Module):
    def forward(self, *given):
        return attend(*given)
"""


def test_a_compiled_flex_attention_is_seen_by_the_name_that_it_has(monkeypatch):
    module = types.ModuleType("somebodys_flex")
    monkeypatch.setitem(sys.modules, "somebodys_flex", module)
    exec(COMPILED_FLEX, vars(module))
    model, (q, k, v) = module.Flex(), tensors()
    with record(model) as trace:
        model(q, k, v)
    torch.testing.assert_close(trace[""][0].weights, formula(q, k), **CLOSE)
