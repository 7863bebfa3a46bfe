"""A model of random weights in GGUF (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md), small enough to make on the spot.

Its words mean nothing. Its vocabulary is bytes with a few pairs of letters, as of a byte-level BPE. Whatever ends a string, a
list or an object is made likely, so that JSON under a grammar comes to its end; and so is a call of a tool as the first word,
for the server's grammar of a forced tool allows any text before the call.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

CONTEXT, WIDTH, INNER, HEADS, LAYERS = 16_384, 64, 128, 4, 2
PAIRS = [vowel + consonant for vowel in "aeiou" for consonant in "nrstlmdc"]
TEMPLATE = "models/templates/Qwen-Qwen2.5-7B-Instruct.jinja"
"""Of a model that many run at home; it knows tools."""
CALLS = ("<tool_call>", "</tool_call>")
"""Words of the template, each one token as in its own model."""
SPECIALS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
LIKELY = {'"': 8.0, "}": 7.0, "]": 7.0, CALLS[1]: 6.0, SPECIALS[2]: 5.0, "{": 4.0, ":": 3.0, ",": 3.0}
"""Token → what is added to its logit; the random part has a deviation of about 0.5."""


def write_tiny_model(path: Path, *, llama_cpp: Path, seed: int = 1) -> None:
    """Write the model, with the ``gguf`` package and a chat template of llama.cpp's source; the same bytes for the same seed."""
    sys.path.insert(0, str(llama_cpp / "gguf-py"))
    try:
        from gguf import GGUFWriter, TokenType  # type: ignore[import-not-found]
    finally:
        sys.path.pop(0)

    tokens = [*(_as_letter(byte) for byte in range(256)), *PAIRS, *CALLS, *SPECIALS]
    writer = GGUFWriter(path, "llama")
    writer.add_name("tiny")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_feed_forward_length(INNER)
    writer.add_block_count(LAYERS)
    writer.add_head_count(HEADS)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_merges([" ".join(pair) for pair in PAIRS])
    kinds = {**dict.fromkeys(CALLS, TokenType.USER_DEFINED), **dict.fromkeys(SPECIALS, TokenType.CONTROL)}
    writer.add_token_types([kinds.get(token, TokenType.NORMAL) for token in tokens])
    writer.add_eos_token_id(tokens.index("<|im_end|>"))
    writer.add_add_bos_token(False)
    writer.add_chat_template((llama_cpp / TEMPLATE).read_text("utf-8"))
    for name, values in _weights(tokens, seed).items():
        writer.add_tensor(name, values.astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _weights(tokens: list[str], seed: int) -> dict[str, np.ndarray]:
    """Return the tensors by their names; a shape is (outputs, inputs)."""
    drawn = np.random.default_rng(seed)
    embedding = drawn.normal(0, 0.3, (len(tokens), WIDTH))
    output = drawn.normal(0, 0.1, (len(tokens), WIDTH))
    # Number 0 of every state is about 7 after the last norm: a place for what the output adds to each token.
    embedding[:, 0] = 4.0
    output[:, 0] = [LIKELY.get(token, 0.0) / 7 for token in tokens]
    # Numbers 1 and 2 are there after one token each: the line's end that the template ends with, and the begin of a call.
    for number, after, follows in ((1, _as_letter(10), CALLS[0]), (2, CALLS[0], _as_letter(10))):
        embedding[:, number] = output[:, number] = 0.0
        embedding[tokens.index(after), number] = 4.0
        output[tokens.index(follows), number] = 12 / 5
    found = {"token_embd.weight": embedding, "output.weight": output, "output_norm.weight": np.ones(WIDTH)}
    for layer in range(LAYERS):
        shapes = {f"attn_{one}": (WIDTH, WIDTH) for one in ("q", "k", "v", "output")}
        shapes |= {"ffn_gate": (INNER, WIDTH), "ffn_up": (INNER, WIDTH), "ffn_down": (WIDTH, INNER)}
        found |= {f"blk.{layer}.{name}.weight": drawn.normal(0, 0.02, shape) for name, shape in shapes.items()}
        found |= {f"blk.{layer}.{name}.weight": np.ones(WIDTH) for name in ("attn_norm", "ffn_norm")}
    return found


def _as_letter(byte: int) -> str:
    """Return the letter that stands for a byte in GPT-2's vocabulary: itself where it prints, else one from U+0100 on.

    https://github.com/openai/gpt-2/blob/master/src/encoder.py, bytes_to_unicode
    """
    prints = [*range(33, 127), *range(161, 173), *range(174, 256)]
    if byte in prints:
        return chr(byte)
    return chr(256 + [other for other in range(256) if other not in prints].index(byte))
