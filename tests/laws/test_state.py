"""Modules own parameters and nothing else: state dicts, repeated calls, untouched arguments."""

import torch
from laws.cases import EACH, PRODUCT, build, call, inputs, parametrize
from torch.testing import assert_close

from regard import Mask


@parametrize(PRODUCT)
def test_a_state_dict_carries_everything(case):
    first, second, x = build(case), build(case), inputs(case)
    with torch.no_grad():
        for parameter in second.parameters():
            parameter.add_(1)
    second.load_state_dict(first.state_dict())
    assert torch.equal(call(second, x).context, call(first, x).context)
    assert list(first.buffers()) == []


@parametrize(EACH)
def test_calls_leave_no_trace_on_the_module_and_write_to_no_argument(case):
    attention, x = build(case), inputs(case)
    before = x.map(lambda a: a.clone())
    mask = Mask(lengths=torch.tensor([7, 4]), causal=True)
    state = {name: tensor.clone() for name, tensor in attention.state_dict().items()}
    names = set(vars(attention))
    first, second = call(attention, x, mask), call(attention, x, mask)
    assert torch.equal(first.context, second.context)
    assert torch.equal(first.weights, second.weights)
    assert set(vars(attention)) == names
    assert all(torch.equal(a, b) for a, b in zip(x.leaves(), before.leaves(), strict=True))
    assert all(torch.equal(tensor, state[name]) for name, tensor in attention.state_dict().items())
    assert_close(mask.lengths, torch.tensor([7, 4]))


@parametrize(EACH)
def test_keys_are_prepared_once_and_serve_many_queries(case):
    attention, x = build(case), inputs(case)
    source = attention.prepare(x.keys, x.values)
    for _ in range(3):
        query = torch.randn_like(x.query)
        again = attention.prepare(x.keys, x.values)
        assert torch.equal(
            attention(query, source, history=x.history).context,
            attention(query, again, history=x.history).context,
        )
