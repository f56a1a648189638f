#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Linear layer and cross-entropy, forward and backward, beside PyTorch: the same numbers, taking turns in one process.

    V/bin/python loss.py path/to/libembed.so [--shape A|C] [--form f32|bf16] [--rounds N] [--threads N]

V: head.py's. A sample runs as bench/README.md says. Ours adds to a dense gradient in fp32 and writes d_hidden; the peers have fp32 gradients to
add to as well (bf16: of bf16). "products" is PyTorch's products into memory that is there, with its own loss between them; "eager" is
linear, cross_entropy, backward; "chunk N" its linear_cross_entropy in chunks of N rows, which keeps no array of all logits. bf16: the table, and
the peers' hidden rows and products; ours is EMBED_LOSS_BF16, "ours exact" without. Errors: the largest of d_hidden and of the gradient, as a share of its
largest number, against float64."""
import argparse
import ctypes as C
import os
import statistics

from surroundings import enter

if __name__ == "__main__":
    enter()

import numpy as np

from common import BF16, F32, Embed, Machine, compiled, memory

SHAPES = {"A": (50257, 768, 256), "C": (151936, 1024, 128)}
GOALS = {"f32": (1.15, 1.7), "bf16": (1.12, 3.5)}  # of the best peer, and of the best in little memory
LOSS_BF16 = 8  # EMBED_LOSS_BF16


class Ours(Embed):
    def __init__(self, path, threads):
        super().__init__(path, threads)
        p, n, i = C.c_void_p, C.c_int64, C.c_int32
        self.declare("embed_head_create", p, p, p, p, p)
        self.declare("embed_grad_create_dense", p, n, n, p, n, p)
        self.declare("embed_cross_entropy_train", p, p, p, i, n, n, p, p, p, p, p, i, n, p, p)

    def train(self, table, x, targets, gradient, dx, loss, flags):
        h, g = C.c_void_p(), C.c_void_p()
        self.check(self.lib.embed_head_create(self.context, table, None, None, C.byref(h)))
        self.check(self.lib.embed_grad_create_dense(self.context, *gradient.shape, gradient.ctypes.data, 0, C.byref(g)))
        at = [a.ctypes.data for a in (x, targets, loss, dx)]
        options = (C.c_uint32 * 2)(8, flags)  # size and flags: the rest is 0

        def call():
            self.check(self.lib.embed_cross_entropy_train(self.context, h, at[0], F32, len(x), 0, at[1], None, at[2], None, at[3], F32, 0, g, options))
        return call


def torch_calls(threads, w, x, targets, bf16):
    import torch
    import torch.nn.functional as F
    torch.set_num_threads(threads)
    kind = torch.bfloat16 if bf16 else torch.float32
    weight, hidden, target = torch.from_numpy(w).to(kind).requires_grad_(), torch.from_numpy(x).to(kind).requires_grad_(), torch.from_numpy(targets).long()
    weight.grad, hidden.grad = torch.zeros_like(weight), torch.zeros_like(hidden)

    def eager():
        hidden.grad.zero_()
        F.cross_entropy(F.linear(hidden, weight), target).backward()

    plain, rows, logits = weight.detach(), hidden.detach(), torch.empty(len(x), len(w), dtype=kind)

    def products():
        torch.mm(rows, plain.t(), out=logits)
        z = logits.detach().requires_grad_()
        slope, = torch.autograd.grad(F.cross_entropy(z, target), z)
        torch.mm(slope, plain, out=hidden.grad)
        weight.grad.addmm_(slope.t(), rows)

    calls = {"products": products, "eager": eager}
    if hasattr(torch.nn, "LinearCrossEntropyOptions"):
        for size in (64, 128):
            def chunked(options=torch.nn.LinearCrossEntropyOptions(batch_chunk_size=size)):
                hidden.grad.zero_()
                F.linear_cross_entropy(hidden, weight, target, options=options).backward()
            calls[f"chunk {size}"] = chunked
    return f"torch {torch.__version__}", calls, lambda: (weight.grad.float().numpy(), hidden.grad.float().numpy(), weight.grad)


def wanted(w, x, targets):
    """Both gradients in float64; of the table's every 97th row."""
    z = x.astype(np.float64) @ w.astype(np.float64).T
    z -= z.max(1, keepdims=True)
    p = np.exp(z)
    p /= p.sum(1, keepdims=True)
    p[np.arange(len(x)), targets] -= 1
    p /= len(x)
    return p[:, ::97].T @ x.astype(np.float64), p @ w.astype(np.float64)


def apart(got, want):
    return float(np.abs(got - want).max() / np.abs(want).max())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library")
    parser.add_argument("--shape", default="A", choices=SHAPES)
    parser.add_argument("--form", default="f32", choices=GOALS)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=2)
    a = parser.parse_args()
    rows, dim, n = SHAPES[a.shape]
    embed, machine = Ours(a.library, a.threads), Machine(compiled("read.c", "cc"), a.threads)
    random = np.random.default_rng(1)
    w, x, targets = memory((rows, dim), np.float32), random.standard_normal((n, dim), np.float32), random.integers(0, rows, n).astype(np.int32)
    w[:] = random.standard_normal(w.shape, np.float32) * 0.02
    if a.form == "bf16":  # numbers that a bfloat holds
        for numbers in (w, x):
            numbers.view(np.uint32)[:] &= 0xFFFF0000
    stored = w if a.form == "f32" else (w.view(np.uint32) >> 16).astype(np.uint16)
    gradient, dx, loss = memory((rows, dim), np.float32), np.empty((n, dim), np.float32), np.empty(n, np.float32)
    table = embed.table(stored, rows, dim, BF16 if a.form == "bf16" else F32)
    calls = {"ours": embed.train(table, x, targets, gradient, dx, loss, LOSS_BF16 if a.form == "bf16" else 0)}
    if a.form == "bf16":
        calls["ours exact"] = embed.train(table, x, targets, gradient, dx, loss, 0)
    version, peers, answers = torch_calls(a.threads, w, x, targets, a.form == "bf16")
    calls.update(peers)
    print(f"{embed.heading()}; {version}; {a.threads} threads; load {os.getloadavg()[0]:.1f}; {rows} x {dim}, {n} rows, {a.form}", flush=True)
    dw_want, dx_want = wanted(w, x, targets)
    errors = {}
    for name, call in calls.items():
        if name not in peers:
            gradient[:] = 0
            call()
            errors[name] = apart(gradient[::97], dw_want), apart(dx, dx_want)
            continue
        answers()[2].zero_()
        call()
        got = answers()
        errors[name] = apart(got[0][::97], dw_want), apart(got[1], dx_want)
    kept = machine.measure(calls, a.rounds)
    ours = statistics.median(s for s, _ in kept["ours"]) if kept["ours"] else float("nan")
    best = {True: 0.0, False: 0.0}
    for name in calls:
        seconds = statistics.median(s for s, _ in kept[name]) if kept[name] else float("nan")
        if not name.startswith("ours"):
            little = name.startswith("chunk")
            best[little] = min(best[little] or seconds, seconds)
        print(f"{name:12s} {seconds * 1e3:8.1f} ms   / ours {seconds / ours:5.2f}   {6 * n * rows * dim / seconds / 1e9:6.1f} GFLOP/s   "
              f"errors {errors[name][0]:.1e} {errors[name][1]:.1e}   kept {len(kept[name])}")
    for little, goal in zip((False, True), GOALS[a.form]):
        if goal and best[little]:
            print(f"{'in little memory' if little else 'best peer'} / ours {best[little] / ours:.2f}, goal {goal} {'ok' if best[little] >= goal * ours else 'MISSED'}")


if __name__ == "__main__":
    main()
