# Writes a small model in the shape of Qwen3-MoE with the gguf package (0.19.0, pip install gguf) and prints what its tensors
# weigh. tests/models/tiny-qwen3moe.gguf is the beginning of what it wrote: a GGUF file that this project did not write.
# usage: tiny_gguf.py OUTPUT [BYTES_TO_KEEP]
import os
import sys

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType as Type, GGUFWriter

HIDDEN, EXPERTS, WIDTH, LAYERS, VOCAB, HEADS, KV_HEADS, HEAD_DIM = 256, 8, 512, 3, 64, 4, 2, 128

output = sys.argv[1]
writer = GGUFWriter(output, "qwen3moe")
total = 0


def tensor(name, shape, kind):
    global total
    block, block_bytes = GGML_QUANT_SIZES[kind]
    total += int(np.prod(shape)) // block * block_bytes
    if kind == Type.F32:
        writer.add_tensor(name, np.zeros(shape[::-1], np.float32))
    else:
        rows = [*shape[::-1][:-1], shape[0] // block * block_bytes]
        writer.add_tensor(name, np.zeros(rows, np.uint8), raw_dtype=kind)


writer.add_name("tiny")
writer.add_file_type(15)
writer.add_block_count(LAYERS)
writer.add_embedding_length(HIDDEN)
writer.add_context_length(4096)
writer.add_head_count(HEADS)
writer.add_head_count_kv(KV_HEADS)
writer.add_key_length(HEAD_DIM)
writer.add_value_length(HEAD_DIM)
writer.add_expert_count(EXPERTS)
writer.add_expert_used_count(2)
writer.add_expert_feed_forward_length(WIDTH)
writer.add_tokenizer_model("gpt2")
writer.add_token_list([b"t%d" % i for i in range(VOCAB)])
writer.add_array("general.tags", ["a", "b"])
writer.add_bool("general.flag", True)
writer.add_float32("qwen3moe.rope.freq_base", 1e6)
tensor("token_embd.weight", [HIDDEN, VOCAB], Type.Q4_K)
tensor("output.weight", [HIDDEN, VOCAB], Type.Q6_K)
tensor("output_norm.weight", [HIDDEN], Type.F32)
for i in range(LAYERS):
    layer = f"blk.{i}."
    high = Type.Q6_K if i == 0 else Type.Q4_K
    tensor(layer + "attn_norm.weight", [HIDDEN], Type.F32)
    tensor(layer + "ffn_norm.weight", [HIDDEN], Type.F32)
    tensor(layer + "attn_q.weight", [HIDDEN, HEADS * HEAD_DIM], Type.Q4_K)
    tensor(layer + "attn_k.weight", [HIDDEN, KV_HEADS * HEAD_DIM], Type.Q4_K)
    tensor(layer + "attn_v.weight", [HIDDEN, KV_HEADS * HEAD_DIM], high)
    tensor(layer + "attn_output.weight", [HEADS * HEAD_DIM, HIDDEN], Type.Q4_K)
    tensor(layer + "attn_q_norm.weight", [HEAD_DIM], Type.F32)
    tensor(layer + "attn_k_norm.weight", [HEAD_DIM], Type.F32)
    tensor(layer + "ffn_gate_inp.weight", [HIDDEN, EXPERTS], Type.F32)
    tensor(layer + "ffn_gate_exps.weight", [HIDDEN, WIDTH, EXPERTS], Type.Q4_K)
    tensor(layer + "ffn_up_exps.weight", [HIDDEN, WIDTH, EXPERTS], Type.Q4_K)
    tensor(layer + "ffn_down_exps.weight", [WIDTH, HIDDEN, EXPERTS], high)
writer.write_header_to_file()
writer.write_kv_data_to_file()
writer.write_tensors_to_file()
writer.close()
print(total, "bytes of tensors in a file of", os.path.getsize(output))
if len(sys.argv) > 2:
    os.truncate(output, int(sys.argv[2]))
