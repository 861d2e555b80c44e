"""Additive attention on a GPU: the Triton kernels. additive_launch.py and additive_step_cuda.py launch them.

    arithmetic   reciprocals that several features share, exponentials, what a mask shows
    expand       the exponentials of queries and keys, in the order in which the scores read them
    scores       many queries: scores, softmax, and the product with the values
    gradient     many queries: what the gradient of the scores gives to a, b and v
    step         one query or few: forward and backward, each nearly in one launch

Imported only when a kernel runs, because Triton is optional. SASS marks the paths written for NVIDIA's
assembler; the same formulas without it are what Triton's interpreter runs.
"""
