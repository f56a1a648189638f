# SPDX-License-Identifier: BSD-3-Clause
"""A training step of an embedding table: lookup, backward, step, in turns beside torch.optim.SparseAdam and, where FBGEMM is installed, its
row-wise Adagrad: the kernel alone on rows that are merged already, and the whole of SplitTableBatchedEmbeddingBagsCodegen.

    python3 optim.py path/to/libembed.so [--rounds N] [--threads N] [--only adam | adagrad]

Needs torch, and gcc and g++ with OpenMP; for FBGEMM see gather.py. Samples are taken as there. Fresh random ids for every sample, the
same in both; before the figures some steps of both from the same state are compared. FBGEMM's CPU step takes an id that stands twice as
two steps, ours merges them: the whole step is compared on ids that stand once each, the figures are of random ones."""
import argparse
import ctypes as C
import importlib.util
import os
import statistics
import sys

try:
    import numpy as np
    import torch
except (ImportError, OSError) as missing:
    sys.exit(f"torch is missing: {missing}")

from common import F32, Embed, Machine, compiled, memory

SHAPES = ((50257, 768, 4096, 4.5), (1 << 20, 384, 16384, 6.0))  # rows, dim, ids, ratio wanted
ADAGRAD_ROW, ADAM_SPARSE, ADAM_LAZY = 2, 3, 6
KERNEL, WHOLE = (1.0, 1.3), 3.5  # of FBGEMM's, by shape
LR, EPSILON = 1e-3, 1e-8


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
        for name, result in (("embed_grad_rows", n), ("embed_grad_ids", C.POINTER(C.c_int64)), ("embed_grad_values", p)):
            getattr(self.lib, name).argtypes, getattr(self.lib, name).restype = [p], result
        for name in ("embed_grad_release", "embed_optimizer_release", "embed_table_release"):
            getattr(self.lib, name).argtypes, getattr(self.lib, name).restype = [p], None

    def optimizer(self, table, kind):
        o, options = C.c_void_p(), OptimizerOptions(size=C.sizeof(OptimizerOptions), kind=kind, lr=LR)
        self.check(self.lib.embed_optimizer_create(self.context, table, C.byref(options), C.byref(o)))
        return o

    def gradient(self, dim):
        g = C.c_void_p()
        self.check(self.lib.embed_grad_create(self.context, dim, C.byref(g)))
        return g

    def backward(self, grad, ids, upstream):
        self.lib.embed_grad_clear(grad)
        self.check(self.lib.embed_grad_add(self.context, grad, ids.ctypes.data, ids.size, upstream.ctypes.data, 0))

    def update(self, table, optimizer, grad):
        self.check(self.lib.embed_optimizer_step(self.context, optimizer, table, grad, None))

    def step(self, table, optimizer, grad, ids, out, upstream):
        """Lookup, backward, step."""
        self.check(self.lib.embed_lookup(self.context, table, ids.ctypes.data, ids.size, out.ctypes.data, F32, 0, None))
        self.backward(grad, ids, upstream)
        self.update(table, optimizer, grad)


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


def fbgemm():
    """The kernel, and the class of the whole step; None where there is no FBGEMM."""
    found = importlib.util.find_spec("fbgemm_gpu")
    if not found:
        return None
    folder = found.submodule_search_locations[0]
    peer = compiled("fbgemm.cpp", "g++", "-std=c++17", os.path.join(folder, "fbgemm.so"), f"-Wl,-rpath,{folder}", "-Wl,--allow-shlib-undefined")
    p, n, i, f = C.c_void_p, C.c_int64, C.c_int, C.c_float
    peer.peer_adagrad.argtypes = [p, p, n, n, p, p, n, f, f, i]
    import fbgemm_gpu.split_table_batched_embeddings_ops_training as training  # after fbgemm.cpp, which names this CPU's instructions
    return peer, training


def whole_step(training, rows, dim):
    from fbgemm_gpu.split_embedding_configs import EmbOptimType
    from fbgemm_gpu.split_table_batched_embeddings_ops_common import EmbeddingLocation
    return training.SplitTableBatchedEmbeddingBagsCodegen(
        [(rows, dim, EmbeddingLocation.HOST, training.ComputeDevice.CPU)], optimizer=EmbOptimType.EXACT_ROWWISE_ADAGRAD, learning_rate=LR, eps=EPSILON)


class Merged:
    """Gradients of lists of ids, as ours and as the kernel takes them: the same memory."""

    def __init__(self, embed, lists, dim, upstream):
        self.of, self.ids, self.values = [], [], []
        for ids in lists:
            g = embed.gradient(dim)
            embed.backward(g, ids, upstream)
            count = embed.lib.embed_grad_rows(g)
            self.of.append(g)
            self.ids.append(np.ctypeslib.as_array(embed.lib.embed_grad_ids(g), (count,)).astype(np.int32))
            self.values.append(embed.lib.embed_grad_values(g))


def adagrad(embed, machine, peer, training, rows, dim, n, of_kernel, rounds):
    generator = np.random.default_rng(1)
    stored, theirs, h = memory((rows, dim), np.float32), memory((rows, dim), np.float32), memory((rows,), np.float32)
    stored[:] = generator.random(dim, np.float32)
    theirs[:] = stored
    out, upstream = memory((n, dim), np.float32), memory((n, dim), np.float32)
    upstream[:] = generator.random((n, dim), np.float32) * 0.01
    lists, once = [generator.integers(0, rows, n, np.int32) for _ in range(6)], generator.permutation(rows)[:n].astype(np.int32)
    table, merged, turn = embed.table(stored, rows, dim, F32), Merged(embed, lists, dim, upstream), [0]
    optimizer, grad = embed.optimizer(table, ADAGRAD_ROW), embed.gradient(dim)
    whole, d_out = whole_step(training, rows, dim), torch.from_numpy(upstream)
    weights = whole.split_embedding_weights()[0]
    weights.copy_(torch.from_numpy(stored))
    offsets = torch.arange(n + 1)

    def next_turn():
        turn[0] = (turn[0] + 1) % len(lists)
        return turn[0]

    def kernel(i):
        assert peer.peer_adagrad(theirs.ctypes.data, h.ctypes.data, rows, dim, merged.ids[i].ctypes.data, merged.values[i], merged.ids[i].size, LR, EPSILON,
                                 machine.threads)

    wide = [torch.from_numpy(ids.astype(np.int64)) for ids in lists]

    def theirs_whole(ids):
        whole(ids, offsets).backward(d_out)

    for _ in range(2):
        embed.step(table, optimizer, grad, once, out, upstream)
        theirs_whole(torch.from_numpy(once.astype(np.int64)))
    difference = np.abs(stored - weights.numpy()).max()
    theirs[:] = stored  # and the same rows have moved in both from here on
    fresh = embed.optimizer(table, ADAGRAD_ROW)
    for i in range(2):
        embed.update(table, fresh, merged.of[i])
        kernel(i)
    print(f"{rows}x{dim}, {n} ids ({merged.ids[0].size} distinct), row-wise Adagrad: largest difference after 2 steps: "
          f"kernel {np.abs(stored - theirs).max():.1e}, whole {difference:.1e}")
    calls = {"step": lambda: embed.update(table, optimizer, merged.of[next_turn()]),
             "FBGEMM's kernel": lambda: kernel(next_turn()),
             "backward and step": lambda: (embed.backward(grad, lists[next_turn()], upstream), embed.update(table, optimizer, grad)),
             "whole step": lambda: embed.step(table, optimizer, grad, lists[next_turn()], out, upstream),
             "FBGEMM's": lambda: theirs_whole(wide[next_turn()])}
    kept = machine.measure(calls, rounds)
    medians = {name: statistics.median(seconds for seconds, _ in samples) for name, samples in kept.items() if len(samples) >= 3}
    for name, samples in kept.items():
        if name not in medians:
            print(f"  {name:17s} {len(samples)} samples kept, too few")
            continue
        text = f"  {name:17s} {medians[name] * 1e3:8.2f} ms, kept {len(samples)}"
        other, wanted = ("FBGEMM's", WHOLE) if name == "whole step" else ("FBGEMM's kernel", of_kernel)
        if not name.startswith("FBGEMM") and other in medians:
            text += f"; {other} takes {medians[other] / medians[name]:.2f} x" + ("" if name == "backward and step" else f" (wanted {wanted})")
        print(text, flush=True)
    for g in (*merged.of, grad):
        embed.lib.embed_grad_release(g)
    for o in (optimizer, fresh):
        embed.lib.embed_optimizer_release(o)
    embed.release(table)


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("library")
    arguments.add_argument("--rounds", type=int, default=9)
    arguments.add_argument("--threads", type=int, default=2)
    arguments.add_argument("--only", choices=("adam", "adagrad"))
    a = arguments.parse_args()
    torch.set_num_threads(a.threads)
    peer = fbgemm() if a.only != "adam" else None
    embed, machine = Steps(a.library, a.threads), Machine(peer[0] if peer else compiled("read.c", "cc"), a.threads)
    print(f"{embed.heading()}; torch {torch.__version__}; {a.threads} threads")
    if a.only != "adam" and not peer:
        print("FBGEMM is missing: see gather.py")
    for (rows, dim, n, wanted), of_kernel in zip(SHAPES, KERNEL):
        if a.only != "adagrad":
            compare(embed, machine, rows, dim, n, wanted, a.rounds)
        if peer:
            adagrad(embed, machine, *peer, rows, dim, n, of_kernel, a.rounds)


if __name__ == "__main__":
    main()
