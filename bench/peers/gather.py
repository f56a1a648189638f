# SPDX-License-Identifier: BSD-3-Clause
"""Lookups and bags of 32 beside FBGEMM's generated kernels, alternating in one run over tables of the same memory.

    python3 -m venv F
    F/bin/pip install --no-deps torch==2.14.0 fbgemm-gpu-cpu==1.9.0 numpy typing-extensions sympy networkx jinja2 fsspec filelock mpmath MarkupSafe
    F/bin/python gather.py path/to/libembed.so [--rounds N] [--threads N] [--only NAME]

Needs g++ with OpenMP. A torch wheel that was made for CUDA wants CUDA's libraries: have them, or stand-ins, on LD_LIBRARY_PATH.
Each sample runs under SCHED_FIFO between two read probes and is dropped when they disagree by 15 % or a core was lost (bench/README.md).
int8 is FBGEMM's own row in both; int4 has a scale per row in FBGEMM's and one per 32 columns in ours, 12 % more bytes."""
import argparse
import ctypes as C
import importlib.metadata
import importlib.util
import os
import statistics
import sys

try:
    import numpy as np
    import torch  # its libraries are what fbgemm.so wants
    FBGEMM = importlib.util.find_spec("fbgemm_gpu").submodule_search_locations[0]  # found, not loaded: fbgemm.cpp comes first
except (AttributeError, ImportError, OSError) as missing:
    sys.exit(f"FBGEMM is missing: {missing}")

from common import F16, F32, I4_GROUP, U8_ROW, Embed, Machine, compiled, memory

SHAPES = ((32768, 4096, 8192), (50257, 768, 32768), (524288, 384, 32768))  # rows, dim, ids
BAG = 32


def shim():
    """fbgemm.cpp, linked to the wheel's fbgemm.so."""
    peer = compiled("fbgemm.cpp", "g++", "-std=c++17", os.path.join(FBGEMM, "fbgemm.so"), f"-Wl,-rpath,{FBGEMM}", "-Wl,--allow-shlib-undefined")
    p, n, i = C.c_void_p, C.c_int64, C.c_int
    peer.peer_bags.argtypes = [i, p, n, n, p, p, n, n, p, i]
    peer.peer_copy.argtypes = [p, n, p, n, p, i]
    return peer


def compare(machine, title, moved, calls, rounds):
    """calls: name -> function; the first is ours. moved: bytes that a figure counts."""
    text, ours = f"{title:34s}", None
    for name, k in machine.measure(calls, rounds).items():
        if len(k) < 3:
            text += f" | {name}: {len(k)} samples kept, too few"
            continue
        seconds, read = (statistics.median(values) for values in zip(*k))
        ours = ours or seconds
        text += f" | {name} {moved / seconds / 1e9:5.1f} GB/s (R {read:4.1f}, kept {len(k)})"
        text += "" if name == "libembed" else f" = {seconds / ours:.2f} x ours"
    print(text, flush=True)


class Lookups(Embed):
    def __init__(self, path, threads):
        super().__init__(path, threads)
        p, n, i = C.c_void_p, C.c_int64, C.c_int32
        self.declare("embed_lookup", p, p, p, n, p, i, n, p)
        self.declare("embed_bag", p, p, p, n, p, n, p, p, i, n, p)

    def lookup(self, table, ids, out):
        self.check(self.lib.embed_lookup(self.context, table, ids.ctypes.data, ids.size, out.ctypes.data, F32, 0, None))

    def bag(self, table, ids, offsets, out):
        self.check(self.lib.embed_bag(self.context, table, ids.ctypes.data, ids.size, offsets.ctypes.data, offsets.size - 1, None,
                                      out.ctypes.data, F32, 0, None))


def fill(form, stored, generator, dim):
    """Values whose scales are numbers."""
    if form == "f32":
        stored[:] = generator.random(stored.shape[-1], np.float32)
    elif form == "f16":
        stored[:] = generator.random(stored.shape[-1], np.float32).astype(np.float16)
    else:
        stored[:] = generator.integers(0, 256, stored.shape[-1], np.uint8)
        if form == "int8":
            stored[:, dim:] = np.frombuffer(np.array([0.01, -1], np.float32), np.uint8)
        elif form == "int4 of FBGEMM":
            stored[:, dim // 2:] = np.frombuffer(np.array([0.01, -1], np.float16), np.uint8)
        else:
            for group in range(0, stored.shape[-1], 18):
                stored[:, group:group + 2] = np.frombuffer(np.array([0.01], np.float16), np.uint8)


def worst(got, want):
    return float(np.max(np.abs(got.astype(np.float64) - want)))


def decoded(form, rows, dim):
    """In float64."""
    if form in ("f32", "f16"):
        return rows.astype(np.float64)
    scale, bias = np.float64(np.float32(0.01)), -1.0
    if form == "int8":
        return rows[:, :dim] * scale + bias
    scale = np.float64(np.float16(0.01))
    if form == "int4 of FBGEMM":
        return np.stack([rows[:, :dim // 2] & 15, rows[:, :dim // 2] >> 4], -1).reshape(len(rows), dim) * scale + bias
    q = rows.reshape(len(rows), -1, 18)[:, :, 2:]
    return (np.concatenate([q & 15, q >> 4], -1).astype(np.float64) - 8).reshape(len(rows), dim) * scale


def measure(embed, machine, peer, rows, dim, n, wanted, rounds):
    threads, generator = machine.threads, np.random.default_rng(1)
    lists = [generator.integers(0, rows, n, np.int32) for _ in range(12)]  # the same ids again would find their rows in a cache
    turn = [0]

    def ids():
        turn[0] = (turn[0] + 1) % len(lists)
        return lists[turn[0]]
    ones, bags = np.arange(n + 1, dtype=np.int32), np.arange(0, n + 1, BAG, dtype=np.int32)
    offsets, out = bags.astype(np.int64), memory((n, dim), np.float32)

    def fbgemm(bits, table, bag):
        lists_of = ones if bag == 1 else bags
        assert peer.peer_bags(bits, table.ctypes.data, rows, dim, ids().ctypes.data, lists_of.ctypes.data, bag, n // bag, out.ctypes.data, threads)
    forms = (("f32", F32, np.float32, dim, 32), ("f16", F16, np.float16, dim, 16), ("int8", U8_ROW, np.uint8, dim + 8, 8), ("int4", I4_GROUP, np.uint8, dim // 32 * 18, 4))
    for form, dtype, element, width, bits in forms:
        if wanted and wanted not in f"{form} {dim}":
            continue
        stored = memory((rows, width), element)
        fill(form, stored, generator, dim)
        theirs, their_form = stored, form
        if form == "int4":
            theirs, their_form = memory((rows, dim // 2 + 4), np.uint8), "int4 of FBGEMM"
            fill(their_form, theirs, generator, dim)
        table, asked = embed.table(stored, rows, dim, dtype), lists[1]
        turn[0] = 0
        embed.lookup(table, asked, out)
        ours = worst(out[:64], decoded(form, stored[asked[:64]], dim))
        fbgemm(bits, theirs, 1)
        print(f"largest error against float64, {form} {rows}x{dim}: ours {ours:.1e}, FBGEMM's {worst(out[:64], decoded(their_form, theirs[asked[:64]], dim)):.1e}")
        calls = {"libembed": lambda: embed.lookup(table, ids(), out), "FBGEMM": lambda: fbgemm(bits, theirs, 1)}
        if form == "f32":
            calls["memcpy loop"] = lambda: peer.peer_copy(stored.ctypes.data, 4 * dim, ids().ctypes.data, n, out.ctypes.data, threads)
        compare(machine, f"gather {form} {rows}x{dim} {n} ids", n * dim * 4, calls, rounds)
        calls = {"libembed": lambda: embed.bag(table, ids(), offsets, out), "FBGEMM": lambda: fbgemm(bits, theirs, BAG)}
        compare(machine, f"bag {BAG} {form} {rows}x{dim} {n} ids", n * stored.itemsize * width, calls, rounds)
        embed.release(table)


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("library")
    arguments.add_argument("--rounds", type=int, default=9)
    arguments.add_argument("--threads", type=int, default=2)
    arguments.add_argument("--only", default="")
    a = arguments.parse_args()
    peer = shim()
    embed, machine = Lookups(a.library, a.threads), Machine(peer, a.threads)
    print(f"{embed.heading()}; FBGEMM {importlib.metadata.version('fbgemm-gpu-cpu')}, torch {torch.__version__}; {a.threads} threads")
    for rows, dim, n in SHAPES:
        measure(embed, machine, peer, rows, dim, n, a.only, a.rounds)


if __name__ == "__main__":
    main()
