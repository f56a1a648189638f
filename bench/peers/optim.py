# SPDX-License-Identifier: BSD-3-Clause
"""A training step of an embedding table beside torch.optim.SparseAdam: lookup, backward, step, over tables of the same memory in turns.

    python3 optim.py path/to/libembed.so [--rounds N] [--threads N]

Needs torch, and gcc with OpenMP. Samples are taken as bench/peers/gather.py takes them. Fresh random ids for every sample, the same in
both; before the figures one step of both from the same state is compared."""
import argparse
import ctypes as C
import statistics
import sys

try:
    import numpy as np
    import torch
except (ImportError, OSError) as missing:
    sys.exit(f"torch is missing: {missing}")

from common import F32, Embed, Machine, compiled, memory

SHAPES = ((50257, 768, 4096, 4.5), (1 << 20, 384, 16384, 6.0))  # rows, dim, ids, ratio wanted
ADAM_SPARSE, ADAM_LAZY = 3, 6


class OptimizerOptions(C.Structure):
    _fields_ = [("size", C.c_uint32), ("flags", C.c_uint32), ("kind", C.c_int32), ("state", C.c_int32)] + [
        (name, C.c_double) for name in ("lr", "beta1", "beta2", "epsilon", "momentum", "weight_decay", "max_norm", "l1")] + [("seed", C.c_uint64)]


class Steps(Embed):
    def __init__(self, path, threads):
        super().__init__(path, threads)
        p, n, i = C.c_void_p, C.c_int64, C.c_int32
        self.declare("embed_lookup", p, p, p, n, p, i, n, p)
        self.declare("embed_grad_create", p, n, p)
        self.declare("embed_grad_add", p, p, p, n, p, n)
        self.declare("embed_grad_clear", p)
        self.declare("embed_optimizer_create", p, p, p, p)
        self.declare("embed_optimizer_step", p, p, p, p, p)
        self.lib.embed_grad_clear.restype = None
        for name in ("embed_grad_release", "embed_optimizer_release", "embed_table_release"):
            getattr(self.lib, name).argtypes, getattr(self.lib, name).restype = [p], None

    def optimizer(self, table, kind):
        o, options = C.c_void_p(), OptimizerOptions(size=C.sizeof(OptimizerOptions), kind=kind, lr=1e-3)
        self.check(self.lib.embed_optimizer_create(self.context, table, C.byref(options), C.byref(o)))
        return o

    def gradient(self, dim):
        g = C.c_void_p()
        self.check(self.lib.embed_grad_create(self.context, dim, C.byref(g)))
        return g

    def step(self, table, optimizer, grad, ids, out, upstream):
        """Lookup, backward, step."""
        self.check(self.lib.embed_lookup(self.context, table, ids.ctypes.data, ids.size, out.ctypes.data, F32, 0, None))
        self.lib.embed_grad_clear(grad)
        self.check(self.lib.embed_grad_add(self.context, grad, ids.ctypes.data, ids.size, upstream.ctypes.data, 0))
        self.check(self.lib.embed_optimizer_step(self.context, optimizer, table, grad, None))


def compare(embed, machine, rows, dim, n, wanted, rounds):
    generator = np.random.default_rng(1)
    stored, theirs = memory((rows, dim), np.float32), memory((rows, dim), np.float32)
    stored[:] = generator.random(dim, np.float32)
    theirs[:] = stored
    out, upstream = memory((n, dim), np.float32), memory((n, dim), np.float32)
    upstream[:] = generator.random((n, dim), np.float32) * 0.01
    lists = [generator.integers(0, rows, n, np.int32) for _ in range(12)]
    wide, turn = [torch.from_numpy(ids.astype(np.int64)) for ids in lists], [0]
    table = embed.table(stored, rows, dim, F32)
    optimizer, lazy, grad = embed.optimizer(table, ADAM_SPARSE), embed.optimizer(table, ADAM_LAZY), embed.gradient(dim)
    embedding = torch.nn.Embedding.from_pretrained(torch.from_numpy(theirs), freeze=False, sparse=True)
    adam, d_out = torch.optim.SparseAdam(embedding.parameters(), lr=1e-3), torch.from_numpy(upstream)

    def next_turn():
        turn[0] = (turn[0] + 1) % len(lists)
        return turn[0]

    def peer(i):
        adam.zero_grad()
        embedding(wide[i]).backward(d_out)
        adam.step()

    for i in range(3):
        embed.step(table, optimizer, grad, lists[i], out, upstream)
        peer(i)
    print(f"{rows}x{dim}, {n} ids ({len(np.unique(lists[0]))} distinct): largest difference after 3 steps {np.abs(stored - theirs).max():.1e}")
    kept = machine.measure({"SparseAdam": lambda: embed.step(table, optimizer, grad, lists[next_turn()], out, upstream),
                            "lazy Adam": lambda: embed.step(table, lazy, grad, lists[next_turn()], out, upstream),
                            f"torch {torch.__version__}": lambda: peer(next_turn())}, rounds)
    medians = {name: statistics.median(seconds for seconds, _ in samples) for name, samples in kept.items() if len(samples) >= 3}
    slowest = medians.get(f"torch {torch.__version__}", 0)
    for name, seconds in medians.items():
        print(f"  {name:16s} {seconds * 1e3:8.2f} ms, kept {len(kept[name])}; torch takes {slowest / seconds:.2f} x (wanted {wanted})", flush=True)
    for name in set(kept) - set(medians):
        print(f"  {name:16s} {len(kept[name])} samples kept, too few")
    embed.lib.embed_grad_release(grad)
    embed.lib.embed_optimizer_release(optimizer)
    embed.lib.embed_optimizer_release(lazy)
    embed.release(table)


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("library")
    arguments.add_argument("--rounds", type=int, default=9)
    arguments.add_argument("--threads", type=int, default=2)
    a = arguments.parse_args()
    torch.set_num_threads(a.threads)
    embed, machine = Steps(a.library, a.threads), Machine(compiled("read.c", "cc"), a.threads)
    print(f"{embed.heading()}; torch {torch.__version__}; {a.threads} threads")
    for rows, dim, n, wanted in SHAPES:
        compare(embed, machine, rows, dim, n, wanted, a.rounds)


if __name__ == "__main__":
    main()
