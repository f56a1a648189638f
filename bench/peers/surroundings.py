# SPDX-License-Identifier: BSD-3-Clause
"""What a comparison runs in, set before numpy and torch are loaded: a warm heap on large pages (fresh outputs cost peers more than their work
otherwise), pools that soon sleep, OpenBLAS with the kernels of this CPU."""
import os
import sys

THREADS = int(sys.argv[sys.argv.index("--threads") + 1]) if "--threads" in sys.argv[:-1] else 2
WANTED = {
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1", "MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": "17179869184", "MALLOC_TOP_PAD_": "268435456",
    "OPENBLAS_THREAD_TIMEOUT": "20", "GOMP_SPINCOUNT": "10000", "OMP_NUM_THREADS": str(THREADS), "OPENBLAS_NUM_THREADS": str(THREADS)}


def enter():
    """Starts the program again in them, unless it is there."""
    if any(os.environ.get(name) != value for name, value in WANTED.items()):
        kept = {name: value for name, value in os.environ.items() if name not in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")}
        os.execve(sys.executable, [sys.executable, *sys.argv], {**kept, **WANTED})
