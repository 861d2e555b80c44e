"""Triton's compiler takes the kernels without a GPU: its interpreter allows what the compiler refuses."""

import pytest
import torch

pytestmark = pytest.mark.skipif(torch.version.hip is not None, reason="for NVIDIA's assembler")

SIZES = {"D": 20, "DV": 12, "BT": 2, "BW": 16, "BD": 16, "SASS": True}
FLAGS = ("LENGTHS", "LEFT", "RIGHT", "LOCAL")
BAND = dict.fromkeys(("N", "T", "S", "share", "offset", "reach", "left", "right", "half"), "i32")
BAND |= {"scale": "fp32", "p": "*fp32", "of_p": "*fp32", "numbers": "*fp32", "parts": "*fp32"}
BAND |= {"lengths": "*i64", "order": "*i64", "edges": "*i64", "starts": "*i32"}
TOP_SIZES = {"H": 12, "D": 64, "BLOCK_D": 64, "K": 8, "BLOCK_K": 8, "BLOCK_C": 512}
TOP = dict.fromkeys(("T", "S", "first", "offset", "chunks"), "i32") | {"scale": "fp32", "mask": "*u8"}
TOP |= dict.fromkeys((f"{x}_{axis}" for x in ("query", "key", "mask") for axis in "bhts"), "i32")
TOP |= dict.fromkeys(("tops", "most", "total", "weights"), "*fp32") | {"places": "*i64"}


def check_compiles(kernel, constants, types, warps=4):
    """For one NVIDIA generation; what has no other type is a pointer to half precision."""
    triton = pytest.importorskip("triton")
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    constants = {name: constants[name] for name in kernel.arg_names if name in constants}
    signature = {x: "constexpr" if x in constants else types.get(x, "*bf16") for x in kernel.arg_names}
    source, target = ASTSource(kernel, signature, constants), GPUTarget("cuda", 90, 32)
    made = triton.compile(source, target=target, options={"enable_fp_fusion": True, "num_warps": warps})
    assert "cubin" in made.asm


@pytest.mark.parametrize("additive", [False, True], ids=["products", "additive"])
@pytest.mark.parametrize("centred", [False, True], ids=["local-m", "local-p"])
@pytest.mark.parametrize("name", ["forward_kernel", "row_kernel", "key_kernel"])
def test_bands_of_single_rows_compile(name, additive, centred):
    pytest.importorskip("triton")
    from regard.kernels.local import local_rows_triton

    constants = SIZES | dict.fromkeys(FLAGS, True) | {"ADDITIVE": additive, "CENTRED": centred}
    check_compiles(getattr(local_rows_triton, name), constants, BAND)


@pytest.mark.parametrize("masked", [False, True], ids=["all", "masked"])
@pytest.mark.parametrize("causal", [False, True], ids=["both sides", "causal"])
@pytest.mark.parametrize("name", ["tops_kernel", "pick_kernel"])
def test_the_largest_weights_of_products_compile(name, causal, masked):
    pytest.importorskip("triton")
    from regard.kernels.product import product_top_triton
    from regard.kernels.product.product_looks import PICKING
    from regard.kernels.product.product_looks import TOP as TILE

    rows, columns, warps = TILE
    constants = TOP_SIZES | {"MASKED": masked, "CAUSAL": causal, "BLOCK_T": rows, "BLOCK_S": columns}
    kernel = getattr(product_top_triton, name)
    check_compiles(kernel, constants, TOP, warps if name == "tops_kernel" else PICKING)
