"""Fused implementations; each names the reference it must match. Importing the package registers them."""

from regard.attention import dispatch, paths
from regard.kernels.additive.additive_cpu import ADDITIVE_CPU
from regard.kernels.additive.additive_cuda import ADDITIVE_CUDA, ADDITIVE_STEP_CUDA
from regard.kernels.additive.additive_scores import ADDITIVE_LOOK, ADDITIVE_SCORES
from regard.kernels.additive.additive_step_cpu import ADDITIVE_STEP_CPU
from regard.kernels.decoder.decoder_cpu import BEST_TOKENS
from regard.kernels.decoder.few_rows import FEW_ROWS
from regard.kernels.local.local_attention import LOCAL
from regard.kernels.lstmn.lstmn_tape import LSTMN
from regard.kernels.ntm.ntm_sequence import NTM
from regard.kernels.product.blocks import BLOCKS
from regard.kernels.product.cosine_query import COSINE_QUERY
from regard.kernels.product.linear import DIVIDE_BY_LENGTH, MEAN
from regard.kernels.product.product_looks import PRODUCT_TOP, PRODUCT_WEIGHTS
from regard.kernels.product.product_step import PRODUCT_STEP
from regard.kernels.product.sdpa import SDPA
from regard.kernels.product.self_attention import SELF_ATTENTION_CPU, SELF_ATTENTION_CUDA
from regard.kernels.sparsemax.sparsemax_attention import SPARSEMAX
from regard.kernels.training.cross_entropy import CROSS_ENTROPY
from regard.kernels.training.residual import RESIDUAL_NORM

ADDITIVE = (ADDITIVE_STEP_CPU, ADDITIVE_CPU, ADDITIVE_CUDA, ADDITIVE_STEP_CUDA, ADDITIVE_SCORES)
for kernel in (LOCAL, SDPA, *ADDITIVE, SPARSEMAX, MEAN, DIVIDE_BY_LENGTH, BLOCKS):
    dispatch.register(kernel)
paths.register("cosine-query", COSINE_QUERY)
paths.register("product-step", PRODUCT_STEP)
paths.register("top-k", PRODUCT_TOP)
paths.register("weights", PRODUCT_WEIGHTS)
paths.register("scores", ADDITIVE_LOOK)
paths.register("self-attention", SELF_ATTENTION_CPU)
paths.register("self-attention", SELF_ATTENTION_CUDA)
paths.register("ntm", NTM)
paths.register("lstmn", LSTMN)
paths.register("residual-norm", RESIDUAL_NORM)
paths.register("cross-entropy", CROSS_ENTROPY)
paths.register("best-tokens", BEST_TOKENS)
paths.register("few-rows", FEW_ROWS)
