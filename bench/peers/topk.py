#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The best 40: of logits that are there already beside torch.topk, and of a whole head at batch 1 beside linear, topk and logsumexp.

    python3 -m venv V
    V/bin/pip install --no-deps torch==2.15.0 typing-extensions sympy networkx jinja2 fsspec filelock mpmath MarkupSafe numpy
    V/bin/python topk.py path/to/libembed.so [--rounds N] [--threads N]

Needs cc with OpenMP. A torch wheel that was made for CUDA wants CUDA's libraries: have them, or stand-ins, on LD_LIBRARY_PATH. A sample runs as
bench/README.md says; ours and torch's take turns over the same numbers, and the logits of both answers are compared."""
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

from common import BF16, F32, Embed, Machine, TableOptions, compiled, memory

K, LOGSUMEXP, IDS, LOGITS = 40, 2, 8, 16
GIVEN = ((1, 50257, 1), (1, 50257, 32), (64, 50257, 1), (1, 151936, 1), (1, 151936, 32), (64, 151936, 1), (1, 262144, 1), (1, 262144, 32))  # calls a sample
HEADS = ((50257, 768), (151936, 1024))


class SweepOptions(C.Structure):
    _fields_ = [("size", C.c_uint32), ("flags", C.c_uint32), ("ask", C.c_uint32), ("k", C.c_int32), ("nan", C.c_int32), ("activation", C.c_int32)]


class Sweep(Embed):
    def __init__(self, path, threads):
        super().__init__(path, threads)
        p, n, i = C.c_void_p, C.c_int64, C.c_int32
        self.declare("embed_table_convert", p, p, p, p)
        self.declare("embed_head_create", p, p, p, p, p)
        self.declare("embed_sweep", p, p, p, i, n, p, n, p, p, p, n, p, p)
        self.declare("embed_sweep_logits", p, p, n, n, p, n, p, p, p, n, p, p)
        self.declare("embed_result_f32", p, C.c_uint32, p, p)
        self.lib.embed_result_f32.restype = p
        self.result = C.c_void_p()
        self.check(self.lib.embed_result_create(self.context, C.byref(self.result)))

    def given(self, logits):
        o, (n, vocab), z = SweepOptions(C.sizeof(SweepOptions), 0, IDS | LOGITS, K, 0, 0), logits.shape, logits.ctypes.data
        return lambda: self.check(self.lib.embed_sweep_logits(self.context, z, vocab, 0, None, n, None, None, None, 0, C.byref(o), self.result))

    def head(self, w, dtype):
        table, t, h = self.table(w, *w.shape, F32), C.c_void_p(), C.c_void_p()
        o = TableOptions(C.sizeof(TableOptions), 0, 0, 0, 0, dtype, 0)
        self.check(self.lib.embed_table_convert(self.context, table, C.byref(o), C.byref(t)))
        self.check(self.lib.embed_head_create(self.context, t, None, None, C.byref(h)))
        self.release(table)
        return h

    def best(self, head, x):
        o, hidden = SweepOptions(C.sizeof(SweepOptions), 0, IDS | LOGITS | LOGSUMEXP, K, 0, 0), x.ctypes.data
        return lambda: self.check(self.lib.embed_sweep(self.context, head, hidden, F32, 0, None, len(x), None, None, None, 0, C.byref(o), self.result))

    def logits(self, n):
        at = self.lib.embed_result_f32(self.result, LOGITS, None, None)
        return np.frombuffer((C.c_float * (n * K)).from_address(at), np.float32).reshape(n, K)


def repeated(call, times):
    def calls():
        for _ in range(times):
            call()
    return call if times == 1 else calls


def compare(machine, title, goal, ours, theirs, rounds, agree, calls=1):
    """Of one call a sample the rows come from memory; of several they are in a cache, as logits that were just made."""
    kept = machine.measure({"libembed": repeated(ours, calls), "torch": repeated(theirs, calls)}, rounds)
    if min(map(len, kept.values())) < 3:
        print(f"{title:52s} | {', '.join(f'{name} {len(k)}' for name, k in kept.items())} samples kept, too few", flush=True)
        return
    seconds = {name: statistics.median(s for s, _ in k) / calls for name, k in kept.items()}
    ratio = seconds["torch"] / seconds["libembed"]
    print(f"{title:52s} | libembed {seconds['libembed'] * 1e3:8.3f} ms | torch {seconds['torch'] * 1e3:8.3f} ms | {ratio:5.2f} x, goal {goal}: "
          f"{'met' if ratio >= goal else 'NOT MET'} | kept {len(kept['libembed'])}, {len(kept['torch'])} | largest difference {agree():.0e}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--threads", type=int, default=2)
    a = parser.parse_args()
    torch.set_num_threads(a.threads)
    torch.set_grad_enabled(False)
    embed, machine, random = Sweep(a.library, a.threads), Machine(compiled("read.c", "cc"), a.threads), np.random.default_rng(1)
    print(f"{embed.heading()}; torch {torch.__version__}, {torch.backends.cpu.get_cpu_capability()}; {a.threads} threads", flush=True)
    last = []

    def turn(function):
        def call():
            last[:] = [function()]
        return call

    for n, vocab, calls in GIVEN:
        z = memory((n, vocab), np.float32)
        z[:] = random.standard_normal(z.shape, np.float32)
        peer = torch.from_numpy(z)
        title = f"best {K} of given logits {n} x {vocab}{' in a cache' if calls > 1 else ''}"
        compare(machine, title, 10, embed.given(z), turn(lambda: torch.topk(peer, K)), a.rounds, lambda: np.abs(embed.logits(n) - last[0].values.numpy()).max(), calls)
    for vocab, dim in HEADS:
        w, x = memory((vocab, dim), np.float32), memory((1, dim), np.float32)
        w[:] = random.standard_normal(w.shape, np.float32) * 0.02
        x[:] = random.standard_normal(x.shape, np.float32)
        for name, dtype, kind in (("f32", F32, torch.float32), ("bf16", BF16, torch.bfloat16)):
            head, weights, hidden = embed.head(w, dtype), torch.from_numpy(w).to(kind), torch.from_numpy(x).to(kind)

            def theirs():
                z = torch.nn.functional.linear(hidden, weights)
                return torch.topk(z, K), torch.logsumexp(z, 1)
            compare(machine, f"head {name} {vocab}x{dim}, best {K}, logsumexp", 3, embed.best(head, x), turn(theirs), a.rounds,
                    lambda: np.abs(embed.logits(1) - last[0][0].values.float().numpy()).max())
            embed.lib.embed_head_release(head)


if __name__ == "__main__":
    main()
