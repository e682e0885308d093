"""Tiny random models, made on the spot: a few hundred kilobytes each, with tokenizers trained on a few sentences."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

SENTENCES = [
    "The sky is blue and the grass is green.",
    "Question: What is the capital of France? Answer: Paris.",
    "Straße, été, 七 and Ωmega are words too.",
    "A: no B: yes C: perhaps D: never",
    "Two and two are four.\n\nThree and three are six.",
    "Once upon a time there was a small model that knew little.",
]
TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}<|{{ message['role'] }}|>\n{{ message['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>\n{% endif %}"
)


def make_gpt2(folder: Path, *, seed: int = 0, positions: int = 64) -> Path:
    """A GPT-2 without BOS: its tokenizer adds nothing, and its only special token ends a text."""
    tokenizer = _train([("<|endoftext|>", "eos_token")])
    torch.manual_seed(seed)
    config = GPT2Config(
        vocab_size=len(tokenizer),
        n_positions=positions,
        n_embd=32,
        n_layer=2,
        n_head=2,
        bos_token_id=tokenizer.eos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        initializer_range=0.4,
    )
    return _save(GPT2LMHeadModel(config), tokenizer, folder)


def make_llama(folder: Path, *, seed: int = 0, positions: int = 128, dtype: torch.dtype = torch.float32) -> Path:
    """A Llama whose tokenizer puts BOS before every text, with a chat template."""
    tokenizer = _train([("<s>", "bos_token"), ("</s>", "eos_token"), ("<unk>", "unk_token")])
    bos = tokenizer.bos_token_id
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", bos)]
    )
    tokenizer.chat_template = TEMPLATE
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=positions,
        bos_token_id=bos,
        eos_token_id=tokenizer.eos_token_id,
        initializer_range=0.4,
    )
    return _save(LlamaForCausalLM(config).to(dtype), tokenizer, folder)


def _train(special: list[tuple[str, str]]) -> PreTrainedTokenizerFast:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=[text for text, _ in special],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(SENTENCES, trainer)
    names = {name: text for text, name in special}
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names)


def _save(model: Any, tokenizer: Any, folder: Path) -> Path:
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def make_adapter(model: Path, folder: Path) -> Path:
    """A LoRA adapter with random weights."""
    from peft import LoraConfig, get_peft_model

    torch.manual_seed(1)
    config = LoraConfig(task_type="CAUSAL_LM", r=4, target_modules=["q_proj", "v_proj"], init_lora_weights=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # peft uses a name that transformers will remove
        get_peft_model(LlamaForCausalLM.from_pretrained(model), config).save_pretrained(folder)
    return folder
