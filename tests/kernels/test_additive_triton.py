"""The Triton kernels of additive attention without a GPU."""

from kernels.interpreting import check_in_interpreter


def test_kernels_equal_the_cpu_kernel_in_the_interpreter():
    check_in_interpreter("additive_interpreted.py")
