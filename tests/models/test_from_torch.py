"""Weights of PyTorch's modules, moved in: the outputs are the same."""

import pytest
import torch
from torch import nn

from regard.attention.mask import Mask
from regard.errors import ConfigError
from regard.models.from_torch import both_from, decoder_from, encoder_from, multi_head_from

LENGTHS = torch.tensor([7, 3, 5])
HIDDEN = torch.arange(7) >= LENGTHS[:, None]  # True: padding, as PyTorch says it
FUTURE = torch.ones(6, 6).triu(1).bool()


def close(mine, theirs):
    torch.testing.assert_close(mine, theirs, atol=1e-5, rtol=0)


def scattered(module):
    """Biases and gains begin at 0 and 1, where a forgotten one would not show."""
    for parameter in module.parameters():
        if parameter.ndim == 1:
            nn.init.normal_(parameter, mean=0.5)
    return module.eval()


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("sizes", [{}, {"kdim": 12, "vdim": 20}])
def test_multi_head_attention_gives_the_same_output_and_weights(bias, sizes):
    theirs = scattered(nn.MultiheadAttention(32, 4, bias=bias, batch_first=True, **sizes))
    mine = multi_head_from(theirs)
    query, keys = torch.randn(3, 6, 32), torch.randn(3, 7, sizes.get("kdim", 32))
    values = torch.randn(3, 7, sizes.get("vdim", 32))
    expected, weights = theirs(query, keys, values, key_padding_mask=HIDDEN, average_attn_weights=False)
    result = mine(query, mine.prepare(keys, values, mask=Mask(lengths=LENGTHS)))
    close(result.context, expected)
    close(result.weights, weights)


def test_causal_self_attention_gives_the_same_output():
    theirs = scattered(nn.MultiheadAttention(32, 4, batch_first=True))
    mine, x = multi_head_from(theirs), torch.randn(3, 6, 32)
    expected, _ = theirs(x, x, x, attn_mask=FUTURE)
    close(mine(x, mine.prepare(x, mask=Mask(causal=True))).context, expected)


# what PyTorch's own encoder says of itself
@pytest.mark.filterwarnings("ignore:enable_nested_tensor", "ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("norm_first", [False, True], ids=["post-norm", "pre-norm"])
@pytest.mark.parametrize("batch_first", [False, True])
def test_a_whole_transformer_gives_the_same_output(norm_first, batch_first):
    theirs = scattered(
        nn.Transformer(
            32, 4, 2, 3, 64, norm_first=norm_first, batch_first=batch_first, dropout=0.3,
        )
    )  # fmt: skip
    encoder, decoder = both_from(theirs)
    source, target = torch.randn(3, 7, 32), torch.randn(3, 6, 32)
    turned = (lambda x: x) if batch_first else (lambda x: x.transpose(0, 1))
    with torch.no_grad():
        expected = theirs(
            turned(source),
            turned(target),
            tgt_mask=FUTURE,
            src_key_padding_mask=HIDDEN,
            memory_key_padding_mask=HIDDEN,
        )
        visible = Mask(lengths=LENGTHS)
        annotations = encoder(source, visible)
        found = decoder(target, annotations, visible, Mask(causal=True))
    close(found, turned(expected))


def test_a_moved_decoder_goes_step_by_step():
    theirs = scattered(nn.Transformer(16, 2, 1, 2, 32, batch_first=True))
    encoder, decoder = both_from(theirs)
    source, target = torch.randn(3, 7, 16), torch.randn(3, 6, 16)
    with torch.no_grad():
        expected = theirs(source, target, tgt_mask=FUTURE)
        annotations = encoder(source, Mask())
        sources = decoder.prepare(annotations, Mask())
        caches = decoder.empty(annotations, Mask(causal=True))
        looked = decoder.nowhere(sources, caches)
        for t in range(6):
            step, caches, looked = decoder.step(target[:, t : t + 1], sources, caches, looked)
            close(step[:, 0], expected[:, t])


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("norm_first", [False, True], ids=["post-norm", "pre-norm"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_no_number_is_rounded_on_the_way(bias, norm_first, dtype):
    theirs = nn.Transformer(8, 2, 1, 1, 16, bias=bias, norm_first=norm_first, dtype=dtype)
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.copy_(torch.randn(parameter.shape, dtype=torch.float64))
    encoder, decoder = both_from(theirs)
    own = [*encoder.parameters(), *decoder.parameters()]
    assert {parameter.dtype for parameter in own} == {dtype}
    assert sorted(numbers(own)) == sorted(numbers(theirs.parameters()))


def numbers(parameters):
    """All numbers but zeros, which stand for a bias that is not there."""
    return [x for parameter in parameters for x in parameter.flatten().tolist() if x]


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
@pytest.mark.parametrize("norm_first", [False, True], ids=["post-norm", "pre-norm"])
def test_a_transformer_without_biases_gives_the_same_output(norm_first):
    theirs = scattered(nn.Transformer(16, 2, 1, 1, 32, bias=False, norm_first=norm_first, batch_first=True))
    theirs.double()
    encoder, decoder = both_from(theirs)
    source, target = torch.randn(3, 7, 16).double(), torch.randn(3, 6, 16).double()
    expected = theirs(source, target, tgt_mask=FUTURE)
    found = decoder(target, encoder(source, Mask()), Mask(), Mask(causal=True))
    torch.testing.assert_close(found, expected)


def test_a_last_norm_without_parameters_gives_the_same_output():
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, dtype=torch.float64)
    norm = nn.LayerNorm(8, eps=0.1, elementwise_affine=False)
    theirs = nn.TransformerEncoder(layer, 1, norm, enable_nested_tensor=False).eval()
    x = torch.randn(3, 7, 8, dtype=torch.float64)
    torch.testing.assert_close(encoder_from(theirs)(x, Mask()), theirs(x))


def test_moved_weights_are_copies_and_keep_their_mode():
    theirs = nn.MultiheadAttention(8, 2)
    mine = multi_head_from(theirs)
    assert mine.training
    assert not multi_head_from(theirs.eval()).training
    with torch.no_grad():
        mine.W_Q.weight.zero_()
    assert theirs.in_proj_weight.abs().sum() > 0


@pytest.mark.parametrize("activation", [torch.relu, nn.functional.relu, nn.ReLU()])
def test_a_relu_is_one_however_it_is_written(activation):
    layer = nn.TransformerEncoderLayer(8, 2, 16, activation=activation, batch_first=True)
    theirs = scattered(nn.TransformerEncoder(layer, 1, enable_nested_tensor=False))
    x = torch.randn(3, 7, 8)
    close(encoder_from(theirs)(x, Mask()), theirs(x))


def test_another_module_than_expected_is_refused():
    text = r"^multi_head_from: `module` has Linear; expected torch\.nn\.MultiheadAttention\.$"
    with pytest.raises(ConfigError, match=text):
        multi_head_from(nn.Linear(8, 8))
    text = r"^encoder_from: `module` has TransformerEncoderLayer; expected torch\.nn\.TransformerEncoder\.$"
    layer = nn.TransformerEncoderLayer(8, 2, 16)
    with pytest.raises(ConfigError, match=text):
        encoder_from(layer)
    text = r"^encoder_from: `norm` has RMSNorm; expected torch\.nn\.LayerNorm\.$"
    with pytest.raises(ConfigError, match=text):
        encoder_from(nn.TransformerEncoder(layer, 1, nn.RMSNorm(8), enable_nested_tensor=False))
    text = r"^decoder_from: `layers` has Identity; expected torch\.nn\.TransformerDecoderLayer\.$"
    with pytest.raises(ConfigError, match=text):
        decoder_from(nn.TransformerDecoder(nn.Identity(), 1))
    with pytest.raises(
        ConfigError, match=r"^both_from: `module` has Linear; expected torch\.nn\.Transformer\.$"
    ):
        both_from(nn.Linear(8, 8))


def test_what_the_paper_does_not_have_is_refused():
    with pytest.raises(ConfigError, match=r"multi_head_from: `module` has add_bias_kv or add_zero_attn"):
        multi_head_from(nn.MultiheadAttention(8, 2, add_bias_kv=True))
    layer = nn.TransformerEncoderLayer(8, 2, 16, activation="gelu")
    with pytest.raises(ConfigError, match=r"`activation` has gelu; expected relu, as in the paper\."):
        encoder_from(nn.TransformerEncoder(layer, 1, enable_nested_tensor=False))
    layer = nn.TransformerDecoderLayer(8, 2, 16, activation="gelu")
    with pytest.raises(
        ConfigError, match=r"^decoder_from: `activation` has gelu; expected relu, as in the paper\."
    ):
        decoder_from(nn.TransformerDecoder(layer, 1))
