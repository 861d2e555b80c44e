"""A machine's run as one operation equals its run step by step; what does not fit is refused, and why."""

import pytest
import torch
from kernels.interpreting import check_in_interpreter
from kernels.ntm_cases import CASES, check
from seeds import offset_seed

from regard.attention.memory.heads import Heads
from regard.data.bits import BitBatch
from regard.errors import KernelRefused
from regard.kernels.ntm import ntm_sequence
from regard.models.ntm import NTM, NTMConfig
from regard.tasks.ntm import CopySettings, CopyTask

gpu = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")]
PAPER = {"hidden": 100, "rows": 128, "width": 20}


def test_the_triton_kernels_in_the_interpreter():
    check_in_interpreter("ntm_interpreted.py")


class OnGPU:
    """As much of a tensor as a refusal looks at."""

    device = torch.device("cuda")

    def __init__(self, dtype=torch.float32, is_cuda=True):
        self.dtype, self.is_cuda = dtype, is_cuda


FITS = {"layers": 1, "rows": 128, "width": 20, "heads": 2}


@pytest.mark.parametrize(
    ("x", "sizes", "reason"),
    [
        (OnGPU(), {}, None),
        (OnGPU(), {"heads": 16, "rows": 16}, None),
        (torch.zeros(1), {}, "device is cpu, this kernel needs cuda"),
        (OnGPU(torch.float64), {}, "dtype is torch.float64, this kernel has float32"),
        (OnGPU(), {"layers": 3}, "the controller has 3 layers, this kernel has one"),
        (OnGPU(), {"heads": 17}, "there are 17 heads, this kernel has up to 16"),
        (OnGPU(), {"rows": 100}, "the memory has 100 rows, this kernel has a power of two, 16 or more"),
        (OnGPU(), {"rows": 8}, "the memory has 8 rows, this kernel has a power of two, 16 or more"),
        (OnGPU(), {"rows": 1024}, "the memory has 1024 x 20 cells, this kernel has up to 16384"),
    ],
    ids=["fits", "many", "cpu", "double", "layers", "heads", "rows", "few", "large"],
)
def test_what_does_not_fit_is_refused_with_a_reason(x, sizes, reason):
    assert ntm_sequence._refuses(x, **{**FITS, **sizes}) == reason


def test_asked_for_by_name_it_runs_or_says_why_not():
    task = CopyTask(CopySettings(bits=4, tested=(3,)))
    given = task.batch("test", range(2))
    with pytest.raises(
        KernelRefused,
        match=r"^kernel 'ntm' cannot run this call: device is cpu, this kernel needs cuda\.$",
    ):
        NTM(NTMConfig(**task.sizes(), kernel="ntm"))(given)
    torch.manual_seed(offset_seed(0))
    model = NTM(NTMConfig(**task.sizes(), kernel="auto"))
    torch.manual_seed(offset_seed(0))
    assert torch.equal(model(given), NTM(NTMConfig(**task.sizes()))(given)), "on a CPU it goes step by step"


class Louder(NTM):
    def step(self, x, state):
        return super().step(2 * x, state)


class OwnHeads(Heads):
    def forward(self, h):
        return super().forward(2 * h)


@pytest.mark.parametrize("controller", ["feedforward", "lstm"])
@pytest.mark.parametrize("path", ["controller", "controller.layers.0", "heads", "heads.speak"])
def test_with_a_hook_on_a_part_it_goes_step_by_step(path, controller, monkeypatch):
    monkeypatch.setattr(ntm_sequence, "_refuses", lambda *_: None)  # as on a GPU
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
