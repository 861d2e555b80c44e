"""torch.func and forward-mode differentiation see tensors that no loop can read: the reference runs there."""

import pytest
import torch
from torch.autograd import forward_ad
from torch.func import grad, hessian, jacrev, jvp, vmap

from regard.attention.compose import Attention
from regard.attention.mask import Mask
from regard.attention.normalizers.sparsemax import Sparsemax
from regard.attention.scores.additive import AdditiveScore
from regard.attention.scores.dot import DotScore
from regard.attention.windows.local_monotonic import LocalMonotonic
from regard.errors import KernelRefused

# PyTorch's own formulas of forward-mode differentiation are written in it
pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning")


def additive() -> AdditiveScore:
    return AdditiveScore(query=8, keys=8, hidden=16)


ATTENTIONS = {
    "additive": lambda: Attention(additive()),
    "additive, kept": lambda: Attention(additive(), keep_weights=True),
    "additive under sparsemax": lambda: Attention(additive(), normalizer=Sparsemax()),
    "sparsemax": lambda: Attention(DotScore(), normalizer=Sparsemax()),
    "local": lambda: Attention(DotScore(), window=LocalMonotonic(half_width=2)),
    "dot": lambda: Attention(DotScore()),
}
TRANSFORMS = {
    "vmap": lambda f, q, k: vmap(f)(q, k),
    "grad": lambda f, q, k: grad(lambda q: f(q, k).square().sum())(q),
    "jacrev": lambda f, q, k: jacrev(lambda q: f(q, k).sum((0, 2)))(q),
    "jvp": lambda f, q, k: jvp(lambda q: f(q, k), (q,), (torch.ones_like(q),))[1],
    "vmap of grad": lambda f, q, k: vmap(grad(lambda q, k: f(q, k).square().sum()))(q, k),
    "hessian": lambda f, q, k: hessian(lambda q: f(q, k[0]).square().sum())(q[0, :2]),
}


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("name", ATTENTIONS)
def test_every_transform_gives_what_it_gives_of_the_reference(name, causal, transform):
    attention, mask = ATTENTIONS[name](), Mask(causal=causal)
    query, keys = torch.randn(2, 6, 8), torch.randn(2, 40, 8)

    def asked(query, keys):
        return attention(query, attention.prepare(keys, mask=mask)).context

    found = TRANSFORMS[transform](asked, query, keys)
    attention.kernel = "reference"
    torch.testing.assert_close(found, TRANSFORMS[transform](asked, query, keys))


def test_the_reason_is_told_and_a_kernel_asked_for_by_name_refuses():
    attention = ATTENTIONS["additive"]()
    query, keys = torch.randn(2, 6, 8), torch.randn(2, 40, 8)
    reasons = []

    def asked(query):
        source = attention.prepare(keys)
        reasons.append(str(attention.explain(query, source)))
        return attention(query, source).context.sum()

    grad(asked)(query)
    reason = "torch.func and forward-mode differentiation run on the reference"
    assert reasons[0].startswith(f"reference: {reason}\n  not local: {reason}")
    attention.kernel = "additive-cpu"
    with pytest.raises(KernelRefused, match=f"'additive-cpu' cannot run this call: {reason}"):
        grad(asked)(query)
    assert attention(query, attention.prepare(keys)).kernel == "additive-cpu"


def test_dual_numbers_go_to_the_reference():
    attention = ATTENTIONS["sparsemax"]()
    query, keys = torch.randn(2, 6, 8), torch.randn(2, 40, 8)
    source = attention.prepare(keys)
    with forward_ad.dual_level():
        result = attention(forward_ad.make_dual(query, torch.ones_like(query)), source)
        assert result.kernel == "reference"
        assert forward_ad.unpack_dual(result.context).tangent is not None


@pytest.mark.parametrize("name", ["additive", "sparsemax"])
def test_a_compiled_graph_may_hold_a_transform(name):
    attention = ATTENTIONS[name]()
    query, keys = torch.randn(2, 6, 8), torch.randn(2, 40, 8)

    def each(query, keys):
        return vmap(lambda q, k: attention(q, attention.prepare(k)).context)(query, keys)

    compiled = torch.compile(each, fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(query, keys), each(query, keys))


def test_a_compiled_graph_without_one_takes_the_kernel():
    attention = ATTENTIONS["additive"]()
    attention.kernel = "additive-cpu"
    query, keys = torch.randn(2, 6, 8), torch.randn(2, 40, 8)

    def asked(query, keys):
        return attention(query, attention.prepare(keys)).context

    torch.testing.assert_close(
        torch.compile(asked, fullgraph=True, backend="eager")(query, keys), asked(query, keys)
    )
