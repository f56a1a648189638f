# SPDX-License-Identifier: BSD-3-Clause
"""Gradients of looked up rows added to a table's beside torch, alternating in one run over the same upstream rows and ids.

    python3 -m venv V
    V/bin/pip install --no-deps torch==2.15.0 typing-extensions sympy networkx jinja2 fsspec filelock mpmath MarkupSafe numpy
    V/bin/python scatter.py path/to/libembed.so [--rounds N] [--threads N] [--only NAME]

Needs cc with OpenMP. A torch wheel that was made for CUDA wants CUDA's libraries: have them, or stand-ins, on LD_LIBRARY_PATH. A sample
runs as bench/README.md says. Dense: embed_grad_add into a dense gradient beside Tensor.index_add_. Sparse: embed_grad_clear and
embed_grad_add beside coalesce() of a sparse tensor, whose new memory is on a warm heap. Goal: not slower than
index_add_."""
import argparse
import ctypes as C
import statistics
import sys

from surroundings import enter

if __name__ == "__main__":
    enter()

import numpy as np

try:
    import torch
except (ImportError, OSError) as missing:
    sys.exit(f"torch is missing: {missing}")

from common import Embed, Machine, compiled, memory

SHAPES = ((50257, 768, 4096, 1.0), (100514, 384, 16384, 1.0), (1000000, 384, 16384, 1.0))  # rows, dim, ids, goal
LISTS = 8


class Gradients(Embed):
    def __init__(self, path, threads):
        super().__init__(path, threads)
        p, n = C.c_void_p, C.c_int64
        self.declare("embed_grad_create", p, n, p)
        self.declare("embed_grad_create_dense", p, n, n, p, n, p)
        self.declare("embed_grad_add", p, p, p, n, p, n)
        for name in ("embed_grad_clear", "embed_grad_release", "embed_grad_values"):
            self.declare(name, p)
        self.lib.embed_grad_values.restype = p
        self.lib.embed_grad_rows.restype = n
        self.declare("embed_grad_rows", p)

    def gradient(self, dim, dense=None):
        g = C.c_void_p()
        if dense is None:
            self.check(self.lib.embed_grad_create(self.context, dim, C.byref(g)))
        else:
            self.check(self.lib.embed_grad_create_dense(self.context, len(dense), dim, dense.ctypes.data, 0, C.byref(g)))
        return g

    def add(self, g, ids, upstream):
        self.check(self.lib.embed_grad_add(self.context, g, ids.ctypes.data, ids.size, upstream.ctypes.data, 0))

    def values(self, g, dim):
        rows = self.lib.embed_grad_rows(g)
        return np.ctypeslib.as_array(C.cast(self.lib.embed_grad_values(g), C.POINTER(C.c_float)), (rows, dim))


def compare(machine, title, moved, goal, calls, rounds):
    text, ours, peer = f"{title:38s}", None, None
    for name, k in machine.measure(calls, rounds).items():
        if len(k) < 3:
            text += f" | {name}: {len(k)} samples kept, too few"
            continue
        seconds, read = (statistics.median(values) for values in zip(*k))
        text += f" | {name} {1e3 * seconds:.3f} ms, {moved / seconds / 1e9:.1f} GB/s = {moved / seconds / 1e9 / read:.2f} of R {read:.1f} (kept {len(k)})"
        ours, peer = ours or seconds, seconds
    if ours and peer and goal:
        text += f" | {peer / ours:.2f} x as fast, goal {goal} {'ok' if peer / ours >= 0.97 * goal else 'MISSED'}"
    elif ours and peer:
        text += f" | {peer / ours:.2f} x as fast"
    print(text, flush=True)


def measure(embed, machine, rows, dim, n, goal, rounds):
    generator = np.random.default_rng(1)
    lists = [generator.integers(0, rows, n, np.int64) for _ in range(LISTS)]
    narrow = [ids.astype(np.int32) for ids in lists]
    upstream = memory((LISTS, n, dim), np.float32)
    upstream[:] = generator.standard_normal(upstream.shape, np.float32)
    ours, theirs = memory((rows, dim), np.float32), memory((rows, dim), np.float32)
    torch_lists, torch_rows, torch_sum = [torch.from_numpy(ids) for ids in lists], torch.from_numpy(upstream), torch.from_numpy(theirs)
    dense, sparse, turn = embed.gradient(dim, ours), embed.gradient(dim), [0]

    def now():
        turn[0] = (turn[0] + 1) % LISTS
        return turn[0]

    def add_dense():
        i = now()
        embed.add(dense, narrow[i], upstream[i])

    def index_add():
        i = now()
        torch_sum.index_add_(0, torch_lists[i], torch_rows[i])

    def add_sparse():
        i = now()
        embed.lib.embed_grad_clear(sparse)
        embed.add(sparse, narrow[i], upstream[i])

    def coalesce():
        i = now()
        return torch.sparse_coo_tensor(torch_lists[i][None], torch_rows[i], (rows, dim), check_invariants=False).coalesce()

    exact = np.zeros((rows, dim))
    np.add.at(exact, lists[1], upstream[1].astype(np.float64))
    add_dense()
    turn[0] = 0
    index_add()
    turn[0] = 0
    add_sparse()
    named = np.unique(lists[1])
    errors = [float(np.abs(got - exact[named]).max()) for got in (ours[named], theirs[named], embed.values(sparse, dim))]
    print(f"largest error against float64, {rows}x{dim} {n} ids: dense {errors[0]:.1e}, torch's {errors[1]:.1e}, sparse {errors[2]:.1e}")
    moved = 4 * dim * (n + 2 * statistics.mean(len(np.unique(ids)) for ids in lists))
    compare(machine, f"dense  f32 {rows}x{dim} {n} ids", moved, goal, {"libembed": add_dense, "index_add_": index_add}, rounds)
    compare(machine, f"sparse f32 {rows}x{dim} {n} ids", moved, None, {"libembed": add_sparse, "coalesce": coalesce}, rounds)
    for g in (dense, sparse):
        embed.lib.embed_grad_release(g)


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("library")
    arguments.add_argument("--rounds", type=int, default=9)
    arguments.add_argument("--threads", type=int, default=2)
    arguments.add_argument("--only", default="")
    a = arguments.parse_args()
    torch.set_num_threads(a.threads)
    torch.set_grad_enabled(False)
    embed, machine = Gradients(a.library, a.threads), Machine(compiled("read.c", "cc"), a.threads)
    print(f"{embed.heading()}; torch {torch.__version__}, {torch.backends.cpu.get_cpu_capability()}; {a.threads} threads")
    for rows, dim, n, goal in SHAPES:
        if a.only in f"{rows}x{dim}":
            measure(embed, machine, rows, dim, n, goal, a.rounds)


if __name__ == "__main__":
    main()
