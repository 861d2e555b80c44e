"""Attention by itself in exported programs: one program for all lengths, with PyTorch's operators alone."""

import logging
import warnings

import pytest
import torch
from built import built
from torch import nn
from torch.export import Dim

from regard.attention.mask import Mask
from regard.attention.multihead import MultiHead
from regard.attention.parts import Sizes

SIZES = Sizes(query=8, keys=8, hidden=16, positions=64, half_width=3)
LENGTHS = torch.tensor([40, 17])
CASES = [
    ("dot", "softmax", "global"),
    ("dot", "softmax", "local-monotonic"),
    ("dot", "sparsemax", "global"),
    ("additive", "softmax", "global"),
    ("additive", "softmax", "local-predictive"),
    ("additive", "sparsemax", "global"),
]


class Asked(nn.Module):
    def __init__(self, attention: nn.Module, *, causal: bool, hides: bool = True) -> None:
        super().__init__()
        self.attention, self.causal, self.hides = attention, causal, hides

    def forward(self, query, keys, lengths):
        mask = Mask(causal=self.causal, lengths=lengths if self.hides else None)
        return self.attention(query, self.attention.prepare(keys, mask=mask)).context


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(("score", "normalizer", "window"), CASES)
def test_one_exported_program_is_for_all_lengths(score, normalizer, window, masked, tmp_path):
    attention = built(score, SIZES, normalizer=normalizer, window=window).eval()
    model = Asked(attention, causal=masked, hides=masked)
    sizes = ({1: Dim("T", min=2, max=500)}, {1: Dim("S", min=2, max=500)}, None)
    given = (torch.randn(2, 6, 8), torch.randn(2, 40, 8), LENGTHS)
    torch.export.save(torch.export.export(model, given, dynamic_shapes=sizes), tmp_path / "program.pt2")
    again = torch.export.load(tmp_path / "program.pt2")
    assert not [node for node in again.graph.nodes if str(node.target).startswith("regard")]
    program = again.module()
    for T, S in ((6, 40), (11, 53), (70, 40), (2, 2)):
        inputs = (torch.randn(2, T, 8), torch.randn(2, S, 8), LENGTHS.clamp(max=S))
        torch.testing.assert_close(program(*inputs), model(*inputs), atol=1e-5, rtol=1e-4)


def test_heads_with_causality_and_lengths_become_onnx(tmp_path, caplog):
    runtime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    model = Asked(MultiHead(8, 2, bias=True), causal=True).eval()
    given = (torch.randn(2, 6, 8), torch.randn(2, 40, 8), LENGTHS)
    sizes = ({1: Dim("T", min=2, max=500)}, {1: Dim("S", min=2, max=500)}, None)
    caplog.set_level(logging.ERROR, "torch.onnx")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch's own
        torch.onnx.export(
            *(model, given, tmp_path / "heads.onnx"),
            dynamic_shapes=sizes,
            input_names=["query", "keys", "lengths"],
            dynamo=True,
            verbose=False,
        )
    session = runtime.InferenceSession(tmp_path / "heads.onnx")
    for T, S in ((6, 40), (11, 53)):
        inputs = (torch.randn(2, T, 8), torch.randn(2, S, 8), LENGTHS.clamp(max=S))
        named = zip(("query", "keys", "lengths"), inputs, strict=True)
        (found,) = session.run(None, {name: x.numpy() for name, x in named})
        torch.testing.assert_close(torch.from_numpy(found), model(*inputs), atol=1e-5, rtol=1e-4)
