"""Small models of transformers with random weights, one of each family, and what each is given."""

from typing import NamedTuple

import torch
import transformers
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace

SMALL = {"num_hidden_layers": 2, "num_attention_heads": 4, "hidden_size": 32, "intermediate_size": 48}
TRANSLATES = {
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 48,
    "vocab_size": 64,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 1,
}


SPECIAL = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "cls_token_id": 1, "sep_token_id": 2}


class Family(NamedTuple):
    config: object
    batch: object  # makes the inputs
    attentions: tuple[str, ...]  # fields of the output, in the order of the paths
    model: str = "AutoModel"


def text(T=7):
    mask = torch.ones(2, T, dtype=torch.long)
    mask[1, T - 3 :] = 0
    return {"input_ids": torch.randint(3, 64, (2, T)), "attention_mask": mask}


def pair():
    return {**text(), "decoder_input_ids": torch.randint(3, 64, (2, 5))}


FAMILIES = {
    "bert": Family(lambda: transformers.BertConfig(**SMALL, vocab_size=64), text, ("attentions",)),
    "gpt2": Family(
        lambda: transformers.GPT2Config(n_embd=32, n_layer=2, n_head=4, vocab_size=64, n_positions=32),
        text,
        ("attentions",),
    ),
    "llama": Family(
        lambda: transformers.LlamaConfig(**SMALL, num_key_value_heads=2, vocab_size=64), text, ("attentions",)
    ),
    "t5": Family(
        lambda: transformers.T5Config(
            d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4, vocab_size=64, decoder_start_token_id=0
        ),
        pair,
        ("encoder_attentions", "decoder_attentions", "cross_attentions"),
    ),
    "marian": Family(
        lambda: transformers.MarianConfig(**TRANSLATES, max_position_embeddings=32),
        pair,
        ("encoder_attentions", "decoder_attentions", "cross_attentions"),
    ),
    "vit": Family(
        lambda: transformers.ViTConfig(**SMALL, image_size=16, patch_size=4),
        lambda: {"pixel_values": torch.randn(2, 3, 16, 16)},
        ("attentions",),
    ),
    "whisper": Family(
        lambda: transformers.WhisperConfig(**TRANSLATES, num_mel_bins=8, max_source_positions=10),
        lambda: {"input_features": torch.randn(2, 8, 20), "decoder_input_ids": torch.randint(3, 64, (2, 5))},
        ("encoder_attentions", "decoder_attentions", "cross_attentions"),
    ),
    "clip": Family(
        lambda: transformers.CLIPTextConfig(
            **SMALL, vocab_size=64, eos_token_id=2, max_position_embeddings=16
        ),
        text,
        ("attentions",),
        "CLIPTextModel",
    ),
    "distilbert": Family(
        lambda: transformers.DistilBertConfig(dim=32, n_layers=2, n_heads=4, hidden_dim=48, vocab_size=64),
        text,
        ("attentions",),
    ),
    "modernbert": Family(  # the whole text in one layer, a window in the other
        lambda: transformers.ModernBertConfig(
            **SMALL, vocab_size=64, global_attn_every_n_layers=2, local_attention=8, **SPECIAL
        ),
        text,
        ("attentions",),
    ),
    "mistral": Family(
        lambda: transformers.MistralConfig(**SMALL, num_key_value_heads=2, vocab_size=64, sliding_window=4),
        text,
        ("attentions",),
    ),
    "mixtral": Family(
        lambda: transformers.MixtralConfig(
            **SMALL, num_key_value_heads=2, vocab_size=64, num_local_experts=4
        ),
        text,
        ("attentions",),
    ),
    "gemma3_text": Family(
        lambda: transformers.Gemma3TextConfig(
            **SMALL,
            num_key_value_heads=2,
            head_dim=8,
            vocab_size=64,
            sliding_window=4,
            layer_types=["sliding_attention", "full_attention"],
        ),
        text,
        ("attentions",),
    ),
    "deepseek_v3": Family(  # keys are wider than values
        lambda: transformers.DeepseekV3Config(
            **SMALL,
            num_key_value_heads=4,
            vocab_size=64,
            q_lora_rank=16,
            kv_lora_rank=16,
            qk_rope_head_dim=4,
            qk_nope_head_dim=8,
            v_head_dim=8,
            n_routed_experts=4,
            num_experts_per_tok=2,
            moe_intermediate_size=16,
            n_group=1,
            topk_group=1,
            first_k_dense_replace=1,
        ),
        text,
        ("attentions",),
    ),
    "bart": Family(
        lambda: transformers.BartConfig(**TRANSLATES, max_position_embeddings=32),
        pair,
        ("encoder_attentions", "decoder_attentions", "cross_attentions"),
    ),
    "wav2vec2": Family(
        lambda: transformers.Wav2Vec2Config(
            **SMALL,
            conv_dim=[16, 16],
            conv_kernel=[3, 3],
            conv_stride=[2, 2],
            num_conv_pos_embeddings=8,
            num_conv_pos_embedding_groups=2,
        ),
        lambda: {"input_values": torch.randn(2, 60)},
        ("attentions",),
    ),
}


def model_of(name, attention="sdpa"):
    family = FAMILIES[name]
    kind = getattr(transformers, family.model)
    make = kind.from_config if family.model.startswith("Auto") else kind._from_config
    return make(family.config(), attn_implementation=attention).eval()


def attentions_of(name, output):
    """The weights of an output in the order in which the layers ran: a decoder's, then over the memory."""
    found = [output[field] for field in FAMILIES[name].attentions]
    if len(found) == 1:
        return list(found[0])
    encoder, own, cross = found
    return [*encoder, *(x for both in zip(own, cross, strict=True) for x in both)]


def tokenizer_of(words):
    """A tokenizer that knows these words."""
    made = Tokenizer(WordLevel({word: n for n, word in enumerate(["<pad>", "<s>", "</s>", *words])}, "<pad>"))
    made.pre_tokenizer = Whitespace()
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=made, pad_token="<pad>", eos_token="</s>", bos_token="<s>"
    )
