"""Matrices one after the other in memory: joined without a copy, and parameters as before."""

import copy

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from regard import MultiHead
from regard.attention.together import joined, lie_together, place_together

gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")


def parts(dtype=torch.float32):
    return [nn.Parameter(torch.randn(4, 6, dtype=dtype)) for _ in range(3)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_parts_that_lie_together_are_joined_without_a_copy_and_always_as_they_are(dtype):
    found = parts(dtype)
    values = torch.cat(found).detach().clone()
    assert not lie_together(*found)
    assert torch.equal(joined(*found), values)
    place_together(*found)
    assert lie_together(*found)
    assert torch.equal(joined(*found), values)
    assert joined(*found).data_ptr() == found[0].data_ptr()
    with torch.no_grad():
        found[1].mul_(2.0)
        values[4:8].mul_(2.0)
    assert torch.equal(joined(*found), values)


@pytest.mark.parametrize("fused", [False, True])
def test_they_learn_each_by_itself(fused):
    together, alone = parts(), parts()
    with torch.no_grad():
        for mine, other in zip(alone, together, strict=True):
            mine.copy_(other)
    place_together(*together)
    for some in (together, alone):
        optimizer = torch.optim.Adam(some[1:], lr=0.1, fused=fused)
        sum(n * x.square().sum() for n, x in enumerate(some)).backward()
        optimizer.step()
    for mine, other in zip(alone, together, strict=True):
        assert torch.equal(mine, other)
        assert torch.equal(mine.grad, other.grad)
    assert lie_together(*together)


CHANGES = {
    "assigned": lambda x: x.__setitem__(1, nn.Parameter(x[1].detach().clone())),
    "moved": lambda x: setattr(x[2], "data", x[2].data.clone()),
    "another order": lambda x: x.reverse(),
    "another shape": lambda x: setattr(x[1], "data", x[1].data.view(6, 4)),
    "turned": lambda x: setattr(x[1], "data", x[1].data.view(6, 4).t()),
    "copied": lambda x: x.__setitem__(slice(None), copy.deepcopy(x)),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_has_moved_lies_together_no_more(change):
    found = parts()
    place_together(*found)
    CHANGES[change](found)
    assert not lie_together(*found)
    if change != "another shape":
        assert torch.equal(joined(*found), torch.cat(found))


def test_neighbours_by_chance_are_not_one_piece_of_memory():
    space = torch.arange(48, dtype=torch.float32)
    others = [
        torch.frombuffer(space[n : n + 16].numpy(), dtype=torch.float32).view(4, 4) for n in (0, 16, 32)
    ]
    assert [x.data_ptr() - others[0].data_ptr() for x in others] == [0, 64, 128]
    assert not lie_together(*others)


def test_fake_tensors_are_joined_as_any_others():
    with FakeTensorMode():
        found = [torch.randn(4, 6) for _ in range(3)]
    assert joined(*found).shape == (12, 6)


def test_unlike_parts_stay_where_they_are():
    for other in (
        torch.randn(5, 6),
        torch.randn(4, 6, dtype=torch.float64),
        torch.randn(4, 6, device="meta"),
    ):
        found = [*parts()[:2], nn.Parameter(other)]
        place_together(*found)
        assert not lie_together(*found)


def on_a_gpu(change=lambda heads: None):
    heads = MultiHead(32, 4, bias=True).cuda()
    change(heads)
    return heads, [
        [getattr(heads, f"W_{name}")._parameters[kind] for name in "QKV"] for kind in ("weight", "bias")
    ]


@pytest.mark.gpu
@gpu
def test_heads_on_a_gpu_keep_theirs_together():
    heads, found = on_a_gpu()
    assert all(lie_together(*parts) for parts in found)
    heads.load_state_dict(MultiHead(32, 4, bias=True).state_dict())
    assert all(lie_together(*parts) for parts in found)
    heads, found = on_a_gpu(lambda heads: heads.half())
    assert all(lie_together(*parts) for parts in found)
    moved = heads.cpu()
    assert not lie_together(*(getattr(moved, f"W_{name}").weight for name in "QKV"))
    with torch.device("cuda"):
        made = MultiHead(32, 4)
    assert lie_together(*(getattr(made, f"W_{name}").weight for name in "QKV"))


@pytest.mark.gpu
@gpu
def test_what_stays_on_a_gpu_keeps_its_address():
    heads, _ = on_a_gpu()
    copied = copy.deepcopy(heads)
    before = [x.data_ptr() for x in copied.parameters()]
    copied.to("cuda").float().train()
    assert [x.data_ptr() for x in copied.parameters()] == before
    x = torch.randn(2, 5, 32, device="cuda")
    with torch.no_grad():
        torch.testing.assert_close(copied(x).context, heads(x).context)


@pytest.mark.gpu
@gpu
@pytest.mark.parametrize("norm", [nn.utils.weight_norm, nn.utils.parametrizations.weight_norm])
def test_a_projection_with_a_norm_moves_as_before(norm):
    heads = MultiHead(32, 4)
    norm(heads.W_K)
    x = torch.randn(2, 5, 32)
    with torch.no_grad():
        expected = heads(x).context
        torch.testing.assert_close(heads.cuda()(x.cuda()).context.cpu(), expected, rtol=1e-3, atol=1e-4)
