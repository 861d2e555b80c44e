"""Triton's compiler takes the kernels of single rows: its interpreter allows what the compiler refuses."""

import pytest
import torch

SIZES = {"D": 20, "DV": 12, "BT": 2, "BW": 16, "BD": 16, "SASS": True}
FLAGS = ("LENGTHS", "LEFT", "RIGHT", "LOCAL")
NOT_HALF = {"p": "fp32", "of_p": "fp32", "numbers": "fp32", "parts": "fp32", "lengths": "i64", "order": "i64"}
NOT_HALF |= {"edges": "i64", "starts": "i32"}


@pytest.mark.skipif(torch.version.hip is not None, reason="for NVIDIA's assembler")
@pytest.mark.parametrize("additive", [False, True], ids=["products", "additive"])
@pytest.mark.parametrize("centred", [False, True], ids=["local-m", "local-p"])
@pytest.mark.parametrize("name", ["forward_kernel", "row_kernel", "key_kernel"])
def test_it_compiles_without_a_gpu(name, additive, centred):
    triton = pytest.importorskip("triton")
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from regard.kernels.local import local_rows_triton

    kernel = getattr(local_rows_triton, name)
    every = SIZES | dict.fromkeys(FLAGS, True) | {"ADDITIVE": additive, "CENTRED": centred}
    constants = {x: every[x] for x in kernel.arg_names if x in every}
    scalars = {"scale": "fp32"} | dict.fromkeys(("N", "T", "S", "share", "offset", "reach"), "i32")
    scalars |= dict.fromkeys(("left", "right", "half"), "i32")
    signature = {
        x: "constexpr" if x in constants else scalars.get(x, "*" + NOT_HALF.get(x, "bf16"))
        for x in kernel.arg_names
    }
    source, target = ASTSource(kernel, signature, constants), GPUTarget("cuda", 90, 32)
    made = triton.compile(source, target=target, options={"enable_fp_fusion": True})
    assert "cubin" in made.asm
