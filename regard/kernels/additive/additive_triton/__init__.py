"""Additive attention on a GPU: the Triton kernels. additive_launch.py and additive_step_cuda.py launch them.

    arithmetic   reciprocals shared by several features, exponentials, masks
    expand       the exponentials of queries and keys, in the memory layout that the scores read
    scores       many queries: scores, softmax, and the product with the values
    gradient     many queries: from the gradient of the scores to those of a, b and v
    step         one query or a few: forward and backward, two or three launches each

Imported only when a kernel runs, because Triton is optional. SASS selects the paths written in NVIDIA's
assembly; Triton's interpreter runs the same formulas without it.
"""
