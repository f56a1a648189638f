#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The 10 nearest of 100,000 rows of 384 columns by cosine, beside faiss and torch (product and topk), in turns over the same numbers.

    python3 -m venv V
    V/bin/pip install --no-deps torch==2.15.0 typing-extensions sympy networkx jinja2 fsspec filelock mpmath MarkupSafe numpy faiss-cpu==1.15.1 packaging
    V/bin/python nearest.py path/to/libembed.so [--batch N,..] [--rounds N] [--threads N]

Needs cc with OpenMP. A torch wheel that was made for CUDA wants CUDA's libraries: have them, or stand-ins, on LD_LIBRARY_PATH. A peer that is
missing says so; a sample runs as bench/README.md says. faiss and torch search rows that were made unit vectors before; ours are as they come, and
their norms are made once. agree: the share of the ids of float64's order that each finds."""
import argparse
import ctypes as C
import importlib
import statistics

from surroundings import enter

if __name__ == "__main__":
    enter()

import numpy as np

from common import BF16, F32, Embed, Machine, TableOptions, compiled, memory

ROWS, DIM, K, CHECKED = 100000, 384, 10, 16
GOALS = {1: (("libembed bf16", 2, "faiss SQbf16"),)}  # ours, ratio, theirs; and all are to be faster than torch


class Search(Embed):
    def __init__(self, path, threads):
        super().__init__(path, threads)
        p, n, i = C.c_void_p, C.c_int64, C.c_int32
        self.declare("embed_table_convert", p, p, p, p)
        self.declare("embed_nearest", p, p, p, n, n, i, p, n, p, p, p, p)

    def calls(self, rows, queries):
        made = {}
        f32 = self.table(rows, ROWS, DIM, F32)
        for name, dtype in (("f32", F32), ("bf16", BF16)):
            t, o = C.c_void_p(), TableOptions(C.sizeof(TableOptions), 0, 0, 0, 0, dtype, 0)
            self.check(self.lib.embed_table_convert(self.context, f32, C.byref(o), C.byref(t)))
            ids, scores = np.empty((len(queries), K), np.int32), np.empty((len(queries), K), np.float32)

            def call(t=t, ids=ids, scores=scores):
                self.check(self.lib.embed_nearest(self.context, t, queries.ctypes.data, len(queries), 0, K, None, 0, ids.ctypes.data, scores.ctypes.data, None, None))
            made[f"libembed {name}"] = call, lambda ids=ids: ids
        return made


class Faiss:
    def __init__(self, threads, unit):
        self.faiss = faiss = importlib.import_module("faiss")
        faiss.omp_set_num_threads(threads)
        self.heading = f"faiss {faiss.__version__}, {faiss.get_compile_options().strip()}"
        quantised = faiss.IndexScalarQuantizer(DIM, faiss.ScalarQuantizer.QT_bf16, faiss.METRIC_INNER_PRODUCT)
        self.indexes = {"faiss FlatIP": faiss.IndexFlatIP(DIM), "faiss SQbf16": quantised}
        for index in self.indexes.values():
            index.train(unit)
            index.add(unit)

    def calls(self, queries):
        made = {}
        for name, index in self.indexes.items():
            last = []

            def call(index=index, last=last):
                last[:] = index.search(queries, K)
            made[name] = call, lambda last=last: last[1]
        return made


class Torch:
    def __init__(self, threads, unit):
        self.torch = torch = importlib.import_module("torch")
        torch.set_num_threads(threads)
        torch.set_grad_enabled(False)
        self.heading = f"torch {torch.__version__}, {torch.backends.cpu.get_cpu_capability()}"
        self.rows = torch.from_numpy(unit)

    def calls(self, queries):
        x, n, made = self.torch.from_numpy(queries), len(queries), {}
        packed = self.torch.ops.mkldnn._reorder_linear_weight(self.rows, n) if n > 1 else None
        products = {"torch linear + topk": lambda: self.torch.nn.functional.linear(x, self.rows)}
        if packed is not None:
            products["torch oneDNN packed + topk"] = lambda: self.torch.ops.mkldnn._linear_pointwise(x, packed, None, "none", [], "")
        for name, product in products.items():
            last = []

            def call(product=product, last=last):
                last[:] = [self.torch.topk(product(), K)]
            made[name] = call, lambda last=last: last[0].indices.numpy()
        return made


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library")
    parser.add_argument("--batch", default="1,64,1024")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=2)
    a = parser.parse_args()
    embed, machine, random = Search(a.library, a.threads), Machine(compiled("read.c", "cc"), a.threads), np.random.default_rng(1)
    print(f"{embed.heading()}; {a.threads} threads; {ROWS}x{DIM}, k {K}", flush=True)
    rows, unit = memory((ROWS, DIM), np.float32), memory((ROWS, DIM), np.float32)
    rows[:] = random.standard_normal(rows.shape, np.float32)
    unit[:] = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    peers = []
    for kind in (Faiss, Torch):
        try:
            peers.append(kind(a.threads, unit))
            print(peers[-1].heading, flush=True)
        except Exception as reason:  # not installed, or a wheel that does not load here
            print(f"{kind.__name__.lower()}: missing ({reason})", flush=True)
    for n in map(int, a.batch.split(",")):
        queries = memory((n, DIM), np.float32)
        queries[:] = random.standard_normal(queries.shape, np.float32)
        turns = embed.calls(rows, queries)
        for peer in peers:
            try:
                turns.update(peer.calls(queries))
            except Exception as reason:  # whatever a peer's own code throws: the others go on
                print(f"{type(peer).__name__} fails: {str(reason)[:200]}", flush=True)
        exact = np.argsort(-(queries[:CHECKED].astype(np.float64) @ unit.astype(np.float64).T), axis=1, kind="stable")[:, :K]
        kept, seconds = machine.measure({name: call for name, (call, _) in turns.items()}, a.rounds), {}
        for name, (_, answer) in turns.items():
            if len(kept[name]) < 3:
                print(f"batch {n:5d} | {name:28s} | {len(kept[name])} samples kept, too few", flush=True)
                continue
            seconds[name], read = (statistics.median(values) for values in zip(*kept[name]))
            agree = np.mean([len(set(answer()[i]) & set(exact[i])) / K for i in range(len(exact))])
            print(f"batch {n:5d} | {name:28s} | {seconds[name] * 1e3:9.3f} ms | {2e-9 * n * ROWS * DIM / seconds[name]:6.1f} GFLOP/s | R {read:4.1f} GB/s | "
                  f"agree {agree:.3f} | kept {len(kept[name])}", flush=True)
        goals = list(GOALS.get(n, ())) + [("libembed f32", 1, name) for name in turns if name.startswith("torch")]
        for ours, wanted, theirs in goals:
            if ours in seconds and theirs in seconds:
                ratio = seconds[theirs] / seconds[ours]
                print(f"batch {n:5d} | {theirs} / {ours} = {ratio:.2f}, goal {wanted}: {'met' if ratio >= wanted else 'NOT MET'}", flush=True)


if __name__ == "__main__":
    main()
