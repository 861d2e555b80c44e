"""Fused implementations; each names the reference it must equal. Importing the package registers them."""

from regard.attention import dispatch, paths
from regard.kernels.additive.additive_cpu import ADDITIVE_CPU
from regard.kernels.additive.additive_cuda import ADDITIVE_CUDA, ADDITIVE_STEP_CUDA
from regard.kernels.additive.additive_scores import ADDITIVE_SCORES
from regard.kernels.additive.additive_step_cpu import ADDITIVE_STEP_CPU
from regard.kernels.local.local_attention import LOCAL
from regard.kernels.product.blocks import BLOCKS
from regard.kernels.product.cosine_query import COSINE_QUERY
from regard.kernels.product.sdpa import SDPA
from regard.kernels.sparsemax.sparsemax_attention import SPARSEMAX

ADDITIVE = (ADDITIVE_STEP_CPU, ADDITIVE_CPU, ADDITIVE_CUDA, ADDITIVE_STEP_CUDA, ADDITIVE_SCORES)
for kernel in (LOCAL, SDPA, *ADDITIVE, SPARSEMAX, BLOCKS):
    dispatch.register(kernel)
paths.register("cosine-query", COSINE_QUERY)
