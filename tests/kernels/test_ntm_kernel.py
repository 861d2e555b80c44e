"""A machine's run as one operation equals its run step by step; what does not fit is refused, and why."""

import pytest
import torch
from kernels.interpreting import check_in_interpreter
from kernels.ntm_cases import CASES, ODD, build, check, outcome, run
from seeds import offset_seed
from torch._subclasses.fake_tensor import FakeTensorMode

from regard.attention.memory.heads import Heads
from regard.data.bits import BitBatch
from regard.errors import KernelRefused
from regard.kernels.decoder.decoder_cpu import NO_COMPILER
from regard.kernels.ntm import ntm_cpu, ntm_sequence
from regard.kernels.ntm.ntm_sequence import NTM as NTM_KERNEL
from regard.kernels.ntm.ntm_sequence import Sequence
from regard.models.ntm import NTM, NTMConfig
from regard.tasks.ntm import CopySettings, CopyTask

gpu = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")]
PAPER = {"hidden": 100, "rows": 128, "width": 20}


def test_the_triton_kernels_in_the_interpreter():
    check_in_interpreter("ntm_interpreted.py")


class OnGPU:
    """As much of a tensor as a refusal looks at."""

    device = torch.device("cuda")
    is_cpu, is_cuda = False, True

    def __init__(self, dtype=torch.float32):
        self.dtype = dtype


compiled = pytest.mark.skipif(ntm_cpu.compiled() is None, reason="needs a C++ compiler")


def refusal(x, *, layers=1, rows=128, width=20, heads=2):
    return NTM_KERNEL.refuses(Sequence(x, layers, rows, width, heads, None, lambda: ()))


@pytest.mark.parametrize(
    ("x", "sizes", "reason"),
    [
        (OnGPU(), {}, None),
        (OnGPU(), {"heads": 16, "rows": 16}, None),
        (torch.zeros(1, device="meta"), {}, "device is meta, this kernel needs cpu or cuda"),
        (OnGPU(torch.float64), {}, "dtype is torch.float64, this kernel has float32"),
        (OnGPU(), {"layers": 3}, "the controller has 3 layers, this kernel has one"),
        (OnGPU(), {"heads": 17}, "there are 17 heads, this kernel has up to 16"),
        (OnGPU(), {"rows": 100}, "the memory has 100 rows, this kernel has a power of two, 16 or more"),
        (OnGPU(), {"rows": 8}, "the memory has 8 rows, this kernel has a power of two, 16 or more"),
        (OnGPU(), {"rows": 1024}, "the memory has 1024 x 20 cells, this kernel has up to 16384"),
    ],
    ids=["fits", "many", "meta", "double", "layers", "heads", "rows", "few", "large"],
)
def test_what_does_not_fit_is_refused_with_a_reason(x, sizes, reason):
    assert refusal(x, **sizes) == reason


@compiled
def test_a_cpu_takes_any_number_of_rows_and_heads():
    assert refusal(torch.zeros(1), rows=1000, width=99, heads=40) is None
    with torch.autocast("cpu"):
        reason = refusal(torch.zeros(1))
    assert reason == "autocast is on, this kernel has one precision"


class Marked(torch.Tensor):
    pass


def test_a_subclass_of_tensors_goes_step_by_step():
    model, given = NTM(NTMConfig(inputs=9, outputs=8)), torch.randn(2, 3, 9).as_subclass(Marked)
    assert "its input is a subclass of Tensor" in model.explain(given).why


@compiled
def test_tensors_without_numbers_get_the_shapes_of_the_answer_and_of_the_gradients():
    with FakeTensorMode():
        model, given = NTM(NTMConfig(inputs=9, outputs=8)), torch.randn(2, 3, 9, requires_grad=True)
        assert model.explain(given).kernel == "ntm"
        found = model(BitBatch(given, torch.zeros(2, 3, 8), torch.ones(2, 3, dtype=torch.bool)))
        assert found.shape == (2, 3, 8)
        [gradient] = torch.autograd.grad(found.sum(), given)
        assert gradient.shape == given.shape


def test_without_a_compiler_it_goes_step_by_step(monkeypatch):
    monkeypatch.setattr(ntm_cpu, "compiled", lambda: None)
    model, given = NTM(NTMConfig(inputs=9, outputs=8)), torch.randn(2, 3, 9)
    assert model.explain(given).why == NO_COMPILER


def test_asked_for_by_name_it_runs_or_says_why_not():
    task = CopyTask(CopySettings(bits=4, tested=(3,)))
    given = task.batch("test", range(2))
    with pytest.raises(
        KernelRefused,
        match=r"^kernel 'ntm' cannot run this call: the controller has 2 layers, this kernel has one\.$",
    ):
        NTM(NTMConfig(**task.sizes(), layers=2, kernel="ntm"))(given)
    torch.manual_seed(offset_seed(0))
    model = NTM(NTMConfig(**task.sizes(), kernel="auto"))
    torch.manual_seed(offset_seed(0))
    reference = NTM(NTMConfig(**task.sizes(), kernel="reference"))
    torch.testing.assert_close(model(given), reference(given))


@compiled
@pytest.mark.usefixtures("poisoned")
@pytest.mark.parametrize(
    ("case", "settings"),
    [
        *((case, {}) for case in CASES),
        *((case, settings) for case in ("feed-forward", "lstm") for settings in ODD.values()),
    ],
)
def test_one_operation_equals_the_steps_on_a_cpu(case, settings):
    check(case, B=5, T=9, **settings)


@compiled
@pytest.mark.parametrize("case", ["feed-forward", "lstm"])
def test_the_papers_sizes_on_a_cpu(case):
    check(case, B=9, T=20, **PAPER)


@compiled
@pytest.mark.parametrize("case", CASES)
def test_threads_companions_and_gradients_change_no_bit(case, monkeypatch):
    model = build(case)
    inputs = torch.randn(13, 4, 3, requires_grad=True)
    alone = outcome(model, lambda x: run(model, x), inputs)
    assert all(
        torch.equal(x, y) for x, y in zip(outcome(model, lambda x: run(model, x), inputs), alone, strict=True)
    )
    with torch.no_grad():  # the memory of one step is kept
        assert torch.equal(run(model, inputs), alone[0])
        parts = [run(model, inputs[part]) for part in (slice(0, 1), slice(1, 6), slice(6, 13))]
    torch.testing.assert_close(torch.cat(parts), alone[0])  # the products around the operation may differ
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    monkeypatch.setattr(ntm_cpu, "SHARED", 1)
    shared = outcome(model, lambda x: run(model, x), inputs)
    assert all(torch.equal(x, y) for x, y in zip(shared, alone, strict=True))


@compiled
@pytest.mark.parametrize("case", CASES)
def test_extreme_numbers_leave_weightings_and_gradients_finite(case):
    """Strengths, gates, shifts and gammas that saturate, keys of zeros, a memory that is blank or tiny."""
    for blank, scale in ((0.0, 0.0), (1e-42, 1.0), (1e-6, 1e3), (1e30, 30.0)):
        model = build(case, learnt=("reads",), blank=blank)
        with torch.no_grad():
            model.heads.speak.weight *= scale
            model.heads.speak.bias *= scale
        found = outcome(model, lambda x, model=model: run(model, x), torch.randn(3, 6, 3, requires_grad=True))
        assert all(x.isfinite().all() for x in found)


@compiled
def test_a_number_that_is_none_comes_out():
    model, inputs = build("lstm"), torch.randn(3, 5, 3)
    inputs[1, 2, 0] = float("nan")
    found = run(model, inputs)
    assert found[1, 2:].isnan().all()
    assert found[[0, 2]].isfinite().all()
    assert found[1, :2].isfinite().all()


def test_a_transform_of_torch_func_takes_the_reference():
    model, inputs = build("lstm"), torch.randn(2, 4, 3)
    nothing = torch.zeros(2, 4, 2)

    def answer(x):
        return model(BitBatch(x, nothing, nothing[..., 0].bool()))

    found = torch.func.grad(lambda x: answer(x).sum())(inputs)
    inputs.requires_grad_()
    torch.testing.assert_close(found, torch.autograd.grad(answer(inputs).sum(), inputs)[0])


class Louder(NTM):
    def step(self, x, state):
        return super().step(2 * x, state)


class OwnHeads(Heads):
    def forward(self, h):
        return super().forward(2 * h)


@pytest.mark.parametrize("controller", ["feedforward", "lstm"])
@pytest.mark.parametrize("path", ["controller", "controller.layers.0", "heads", "heads.speak"])
def test_with_a_hook_on_a_part_it_goes_step_by_step(path, controller, monkeypatch):
    monkeypatch.setattr(NTM_KERNEL, "refuses", lambda call: call.foreign)  # as on a GPU
    monkeypatch.setattr(ntm_sequence, "machine", lambda *_: pytest.fail("the hook was passed by"))
    task, seen = CopyTask(CopySettings(bits=4, tested=(3,))), []
    model = NTM(NTMConfig(**task.sizes(), controller=controller))
    given = task.batch("test", range(2))
    handle = model.get_submodule(path).register_forward_hook(lambda *_: seen.append(path))
    model(given)
    assert seen == [path] * given.inputs.shape[1]
    assert "with hooks or methods of its own, which goes step by step" in model.explain(given.inputs).why
    handle.remove()
    assert model.explain(given.inputs).kernel == "ntm"


def test_with_parts_of_ones_own_it_goes_step_by_step():
    task = CopyTask(CopySettings(bits=4, tested=(3,)))
    assert NTM(NTMConfig(**task.sizes())).explain(OnGPU()).kernel == "ntm"
    model = Louder(NTMConfig(**task.sizes()))
    assert model.explain(OnGPU()).why == "Louder has a step of its own, this kernel computes NTM's"
    model = NTM(NTMConfig(**task.sizes()))
    model.heads = OwnHeads(inputs=model.config.hidden, width=model.config.width)
    assert model.explain(OnGPU()).why == "a part is OwnHeads, which goes step by step"


@pytest.mark.parametrize("case", [pytest.param(case, marks=gpu) for case in CASES])
def test_one_operation_equals_the_steps_on_a_gpu(case):
    check(case, device="cuda", B=5, T=9)


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({}, marks=gpu, id="one head of each"),
        pytest.param({"read_heads": 8, "write_heads": 8, "hidden": 512}, marks=gpu, id="eight of each"),
    ],
)
@pytest.mark.parametrize("case", ["feed-forward", "lstm"])
def test_the_papers_sizes_on_a_gpu(case, settings):
    check(case, device="cuda", B=33, T=20, **{**PAPER, **settings})


@pytest.mark.parametrize("controller", [pytest.param(name, marks=gpu) for name in ("feedforward", "lstm")])
def test_a_captured_step_gives_the_same_gradients(controller):
    from regard.train.capture import CapturedStep

    task = CopyTask(CopySettings())
    model = NTM(NTMConfig(**task.sizes(), controller=controller, kernel="ntm")).cuda()
    batches = [task.example((length,), length).to("cuda") for length in (3, 16, 3, 7)]

    def step(batch: BitBatch):
        loss = task.loss(model, batch)
        loss.total.backward()
        return loss

    captured = CapturedStep(step, model)
    for batch in batches:
        model.zero_grad(set_to_none=False)
        step(batch)
        right = [p.grad.clone() for p in model.parameters()]
        captured.clear_gradients()
        captured(batch)
        for parameter, gradient in zip(model.parameters(), right, strict=True):
            torch.testing.assert_close(parameter.grad, gradient)
