#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Opening files of vectors with gensim, beside the lines load-* of bench_op: the same shapes, from the page cache.

    python3 -m venv V && V/bin/pip install gensim==4.4.0
    V/bin/python bench/peers/load.py [embed-tool]

With the path of the `embed` tool its `info` opens the same files (a process of its own, its start included). Without gensim
it says so and ends with 0.
"""
import array
import os
import platform
import random
import resource
import subprocess
import sys
import tempfile
import time

DIM, TEXT_ROWS, BINARY_ROWS, TIMES = 100, 40000, 100000, 3


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


def main():
    print(f"Python {platform.python_version()}, {platform.machine()}")
    try:
        import gensim
        import numpy
        from gensim.models import KeyedVectors
        print(f"gensim {gensim.__version__}, numpy {numpy.__version__}")
    except ImportError as error:
        print(f"gensim: missing ({error})")
        KeyedVectors = None
    tool = sys.argv[1] if len(sys.argv) > 1 else None
    with tempfile.TemporaryDirectory() as folder:
        for rows, text in ((TEXT_ROWS, True), (BINARY_ROWS, False)):
            name = "text" if text else "binary"
            path = os.path.join(folder, "vectors." + ("vec" if text else "bin"))
            write(path, rows, text)
            if KeyedVectors:
                show(f"gensim   {rows}x{DIM}  word2vec {name}", path, best(lambda: KeyedVectors.load_word2vec_format(path, binary=not text)))
            if tool:
                show(f"embed    {rows}x{DIM}  word2vec {name}", path, best(lambda: subprocess.run([tool, "info", path], stdout=subprocess.DEVNULL, check=True)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
