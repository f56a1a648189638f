#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Open to first row in Python's own readers, and in libembed on the same files in turns with them.

    python3 bench/peers/open.py [--library PATH/libembed.so] [--rounds N]

The files are those of bench_op's open-safetensors and open-gguf: 300 tensors of F16, 150,000 tokens with types and merges. They lie
in a temporary folder and in the page cache. A time is the median of as many calls as the line says; gguf needs from seconds to a
minute for one. A module that is not installed is said to be missing.
"""
import argparse
import ctypes
import importlib
import importlib.metadata
import os
import random
import statistics
import struct
import tempfile
import time

DIM = 64


def write_safetensors(path, tensors=300):
    parts = ("input_layernorm", "mlp.down_proj", "mlp.gate_proj", "mlp.up_proj", "self_attn.q_proj", "self_attn.k_proj",
             "self_attn.v_proj", "self_attn.o_proj", "post_attention_layernorm")
    entries, place = ['"__metadata__":{"format":"pt"}'], 0
    for i in range(tensors):
        part = parts[(i - 1) % len(parts)]
        name, shape = f"model.layers.{(i - 1) // len(parts)}.{part}.weight", [DIM] if "norm" in part else [DIM, DIM]
        if i == 0:
            name, shape = "model.embed_tokens.weight", [1024, DIM]
        if i == tensors - 1:
            name, shape = "model.norm.weight", [DIM]
        end = place + 2 * (shape[0] * DIM if len(shape) == 2 else DIM)
        entries.append(f'"{name}":{{"dtype":"F16","shape":{str(shape).replace(" ", "")},"data_offsets":[{place},{end}]}}')
        place = end
    header = ("{" + ",".join(entries) + "}").encode()
    header += b" " * (-len(header) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(header)) + header + bytes(place))


def tokens_of(count):
    numbers = random.Random(4)
    for i in range(count):
        least, letters = numbers.randint(2, 12), ""
        while i or not letters:
            i, letter = divmod(i, 26)
            letters += chr(97 + letter)
        yield (letters + "".join(numbers.choices("ABCDEFGHIJKLMNOPQRSTUVWXYZ", k=max(0, least - len(letters))))).encode()


def write_gguf(path, count=150000):
    def string(s):
        return struct.pack("<Q", len(s)) + s

    tokens = list(tokens_of(count))
    merges = [t[:len(t) // 2] + b" " + t[len(t) // 2 + 1:] for t in tokens]
    table = count * DIM * 4
    header = b"GGUF" + struct.pack("<IQQ", 3, 2, 4) + string(b"general.architecture") + struct.pack("<I", 8) + string(b"qwen2")
    header += string(b"tokenizer.ggml.tokens") + struct.pack("<IIQ", 9, 8, count) + b"".join(map(string, tokens))
    header += string(b"tokenizer.ggml.token_type") + struct.pack("<IIQ", 9, 5, count) + struct.pack("<i", 1) * count
    header += string(b"tokenizer.ggml.merges") + struct.pack("<IIQ", 9, 8, count) + b"".join(map(string, merges))
    header += string(b"token_embd.weight") + struct.pack("<IQQIQ", 2, DIM, count, 0, 0)
    header += string(b"output_norm.weight") + struct.pack("<IQIQ", 1, DIM, 0, table)
    header += bytes(-len(header) % 32)
    with open(path, "wb") as file:
        file.write(header)
        file.truncate(len(header) + table + DIM * 4)


def peer(module, read):
    """(heading, function) or the reason why there is none."""
    try:
        loaded = importlib.import_module(module)
        return f"{module} {importlib.metadata.version(module)}", lambda path: read(loaded, path)
    except ImportError as reason:
        return f"{module}: missing ({reason})", None


def read_safetensors(module, path):
    with module.safe_open(path, framework="np") as file:
        return file.get_slice("model.embed_tokens.weight")[5:6]


def read_gguf(module, path):
    reader = module.GGUFReader(path)
    return reader.tensors[0].data[5].sum()


def libembed(path):
    """A function that opens a file, finds the table, looks row 5 up and lets go of both."""
    if not path:
        return "libembed: not asked for (--library)", None
    lib, pointer, context = ctypes.CDLL(path), ctypes.c_void_p, ctypes.c_void_p()
    lib.embed_error_text.restype = ctypes.c_char_p
    lib.embed_error_text.argtypes = lib.embed_table_release.argtypes = lib.embed_file_release.argtypes = [pointer]
    lib.embed_file_open.argtypes = [pointer, ctypes.c_char_p, pointer, pointer]
    lib.embed_file_table.argtypes = [pointer, pointer, ctypes.c_int64, pointer]
    lib.embed_lookup.argtypes = [pointer, pointer, pointer, ctypes.c_int64, pointer, ctypes.c_int32, ctypes.c_int64, pointer]
    if lib.embed_context_create(None, ctypes.byref(context)):
        return "libembed: no context", None
    ids, row, f32 = (ctypes.c_int32 * 1)(5), (ctypes.c_float * DIM)(), 0

    def read(path):
        file, table = pointer(), pointer()
        status = lib.embed_file_open(context, path.encode(), None, ctypes.byref(file))
        status = status or lib.embed_file_table(context, file, -1, ctypes.byref(table))
        status = status or lib.embed_lookup(context, table, ids, 1, row, f32, 0, None)
        if status:
            raise RuntimeError(lib.embed_error_text(context).decode())
        lib.embed_table_release(table)
        lib.embed_file_release(file)

    return "libembed (by ctypes)", read


def seconds(read, path):
    start = time.perf_counter()
    read(path)
    return time.perf_counter() - start


def compare(what, path, readers, rounds, patience=20):
    """In turns, each reader 20 ms at least; after so many seconds no further turn begins."""
    times, begin = {heading: [] for heading, read in readers if read}, time.perf_counter()
    for _ in range(rounds):
        for heading, read in readers:
            turn = 0
            while read and turn < 0.02:
                times[heading].append(seconds(read, path))
                turn += times[heading][-1]
        if time.perf_counter() - begin > patience:
            break
    for heading, read in readers:
        taken = times.get(heading)
        print(f"{what:12} {heading:24} {1e3 * statistics.median(taken):12.3f} ms   median of {len(taken)}" if read else f"{what:12} {heading}")
    medians = [statistics.median(taken) for taken in times.values()]
    if len(medians) == 2:
        print(f"{what:12} the peer / ours {medians[1] / medians[0]:12.1f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", help="libembed.so")
    parser.add_argument("--rounds", type=int, default=20)
    arguments = parser.parse_args()
    ours = libembed(arguments.library)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "many.safetensors")
        write_safetensors(path)
        compare("safetensors", path, (ours, peer("safetensors", read_safetensors)), arguments.rounds)
        path = os.path.join(folder, "vocabulary.gguf")
        write_gguf(path)
        compare("gguf", path, (ours, peer("gguf", read_gguf)), arguments.rounds)


if __name__ == "__main__":
    main()
