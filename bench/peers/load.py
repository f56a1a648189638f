#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Opening files with gensim, fasttext and numpy, beside the lines load-* and open-* of bench_op, from the page cache.

    python3 -m venv V && V/bin/pip install gensim==4.4.0 fasttext-wheel==0.9.2
    V/bin/python bench/peers/load.py [embed-tool]

With the path of the `embed` tool it opens the same files and prints a row (a process of its own, its start included). A peer that is not
installed is said to be missing.
"""
import array
import importlib
import importlib.metadata
import os
import platform
import random
import resource
import struct
import subprocess
import sys
import tempfile
import time

DIM, TEXT_ROWS, BINARY_ROWS, BUCKETS, TIMES = 100, 40000, 100000, 50000, 3


def write(path, rows, text):
    numbers = random.Random(4)
    with open(path, "wb") as f:
        f.write(b"%d %d\n" % (rows, DIM))
        for r in range(rows):
            row = [2 * numbers.random() - 1 for _ in range(DIM)]
            if text:
                f.write(b"word%d" % r + b"".join(b" %.6f" % x for x in row) + b"\n")
            else:
                little = array.array("f", row)
                if sys.byteorder == "big":
                    little.byteswap()
                f.write(b"word%d " % r + little.tobytes() + b"\n")


def write_fasttext(path, words):
    """A model of skip-grams with negative sampling, as fasttext 0.9 saves it (version 12)."""
    row = array.array("f", [random.Random(5).random() for _ in range(DIM)])
    if sys.byteorder == "big":
        row.byteswap()
    with open(path, "wb") as f:
        f.write(struct.pack("<2i12id", 793712314, 12, DIM, 5, 5, 1, 5, 1, 2, 2, BUCKETS, 3, 6, 100, 1e-4))
        f.write(struct.pack("<3i2q", words, words, 0, words, -1))
        for w in range(words):
            f.write(b"word%d\0" % w + struct.pack("<qb", words - w, 0))
        for rows in (words + BUCKETS, words):
            f.write(struct.pack("<bqq", 0, rows, DIM) + rows * row.tobytes())


def cpu():
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in usages)


def best(call):
    """(wall, CPU) seconds of the run that took the least CPU time: other programs count little in that."""
    times = []
    for _ in range(TIMES):
        wall, used = time.perf_counter(), cpu()
        call()
        times.append((time.perf_counter() - wall, cpu() - used))
    return min(times, key=lambda t: t[1])


def show(what, path, seconds):
    size = os.path.getsize(path) / 1e6
    wall, used = seconds
    print(f"{what:40} {wall * 1e3:9.1f} ms {size / wall:8.1f} MB/s   CPU {used * 1e3:9.1f} ms {size / max(used, 1e-3):8.1f} MB/s   best of {TIMES}")


def peer(package, module):
    try:
        found = importlib.import_module(module)
        print(f"{package} {importlib.metadata.version(package)}")
        return found
    except ImportError as error:
        print(f"{package}: missing ({error})")
        return None


def main():
    print(f"Python {platform.python_version()}, {platform.machine()}")
    numpy, vectors, fasttext = peer("numpy", "numpy"), peer("gensim", "gensim.models"), peer("fasttext-wheel", "fasttext")
    tool = sys.argv[1] if len(sys.argv) > 1 else None

    def line(peers, what, path):
        for name, module, call in peers:
            if module:
                show(f"{name:8} {what}", path, best(call))
        if tool:
            show(f"embed    {what}", path, best(lambda: subprocess.run([tool, "lookup", path, "--ids", "7"], stdout=subprocess.DEVNULL, check=True)))

    with tempfile.TemporaryDirectory() as folder:
        for rows, text in ((TEXT_ROWS, True), (BINARY_ROWS, False)):
            path = os.path.join(folder, "vectors." + ("vec" if text else "bin"))
            write(path, rows, text)
            line([("gensim", vectors, lambda: vectors.KeyedVectors.load_word2vec_format(path, binary=not text))],
                 f"{rows}x{DIM}  word2vec {'text' if text else 'binary'}", path)
        path = os.path.join(folder, "model.bin")
        write_fasttext(path, TEXT_ROWS)
        line([("gensim", vectors, lambda: vectors.fasttext.load_facebook_vectors(path)), ("fasttext", fasttext, lambda: fasttext.load_model(path).get_word_vector("word7"))],
             f"{TEXT_ROWS}x{DIM}  fastText .bin", path)
        if numpy:
            path = os.path.join(folder, "rows.npz")
            numpy.savez(path, rows=numpy.ones((BINARY_ROWS, DIM), numpy.float32))
            line([("numpy", numpy, lambda: numpy.load(path)["rows"][7])], f"{BINARY_ROWS}x{DIM}  npz", path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
