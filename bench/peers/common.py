# SPDX-License-Identifier: BSD-3-Clause
"""What the comparisons share: memory on large pages, samples that other programs did not disturb, libembed by ctypes."""
import ctypes as C
import mmap
import os
import subprocess
import sys
import tempfile
import threading
import time

import numpy as np

PROBE = 64 << 20
F32, F16, BF16, I8_ROW, I4_GROUP, U8_ROW, Q8_0, Q4_K = 0, 1, 2, 16, 17, 18, 72, 76


class TableOptions(C.Structure):
    _fields_ = [("size", C.c_uint32), ("flags", C.c_uint32), ("row_bytes", C.c_int64), ("vocab", C.c_int64), ("data_bytes", C.c_int64),
                ("dtype", C.c_int32), ("group", C.c_int32)]


class ContextOptions(C.Structure):
    _fields_ = [("size", C.c_uint32), ("flags", C.c_uint32), ("max_scratch", C.c_int64), ("why_bytes", C.c_int64)] + [
        (name, C.c_void_p) for name in ("pool", "executor", "allocator", "isa", "cancel", "progress", "progress_arg", "why")]


def compiled(source, compiler, *arguments):
    """A file beside this one, as a shared library."""
    here = os.path.dirname(os.path.abspath(__file__))
    made = os.path.join(tempfile.mkdtemp(), "peer.so")
    subprocess.run([compiler, "-O3", "-march=native", "-fopenmp", "-shared", "-fPIC", "-o", made, os.path.join(here, source), *arguments], check=True)
    library = C.CDLL(made)
    library.peer_read.argtypes = [C.c_void_p, C.c_int64, C.c_int]
    library.peer_read.restype = C.c_uint64
    return library


def memory(shape, dtype):
    """On 2 MiB pages where the kernel gives them (to private memory only: Python's default is shared), touched."""
    count = int(np.prod(shape))
    block = mmap.mmap(-1, count * np.dtype(dtype).itemsize + (4 << 20), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    block.madvise(mmap.MADV_HUGEPAGE)
    start = -np.frombuffer(block, np.uint8).ctypes.data % (2 << 20)
    made = np.frombuffer(block, dtype, count, start).reshape(shape)
    made[:] = 0
    return made


def every(name, me=None):
    """The file of that name of every thread of this process, or of every other than me."""
    for task in os.listdir("/proc/self/task"):
        try:
            if int(task) != me:
                with open(f"/proc/self/task/{task}/{name}") as file:
                    yield file.read()
        except OSError:  # the thread has ended
            pass


class Machine:
    def __init__(self, library, threads):
        self.library, self.threads, self.far, self.at = library, threads, memory(1 << 28, np.float32), 0

    def realtime(self, on):
        for task in os.listdir("/proc/self/task"):
            try:
                os.sched_setscheduler(int(task), os.SCHED_FIFO if on else os.SCHED_OTHER, os.sched_param(10 if on else 0))
            except OSError:
                pass

    def probe(self):
        """GB/s."""
        self.at = (self.at + PROBE) % (self.far.nbytes - PROBE)
        begin = time.perf_counter()
        self.library.peer_read(self.far.ctypes.data + self.at, PROBE, self.threads)
        return PROBE / (time.perf_counter() - begin) / 1e9

    @staticmethod
    def waited():
        """Seconds that threads of this process were ready and had no core; 0 where the kernel does not say."""
        return sum(int(text.split()[1]) for text in every("schedstat")) / 1e9

    @staticmethod
    def rest(seconds):
        """As long as asked, and until no thread of a pool spins any more."""
        time.sleep(seconds)
        for _ in range(200):
            if not any(text.rpartition(")")[2].split()[0] == "R" for text in every("stat", threading.get_native_id())):
                return
            time.sleep(0.0005)

    def sample(self, call):
        """(seconds, GB/s read), or None when the probes around the call disagree by 15 % or it lacked a core. A pool
        that still spins after the probe must not meet the call, nor the call's the second probe."""
        self.realtime(True)
        before = self.probe()
        self.rest(0.0002)
        waited, begin = self.waited(), time.perf_counter()
        call()
        seconds, waited = time.perf_counter() - begin, self.waited() - waited
        self.rest(0.0002)
        after = self.probe()
        self.realtime(False)
        self.rest(min(seconds, 0.5) + 0.01)
        steady = abs(before - after) < 0.15 * (before + after) / 2
        return (seconds, (before + after) / 2) if steady and waited < 0.03 * seconds else None

    def measure(self, calls, rounds):
        """calls: name -> function; all take turns. Gives name -> samples kept."""
        kept = {name: [] for name in calls}
        for call in calls.values():
            call()
            call()
            self.rest(0.01)
        for _ in range(4 * rounds):
            if all(len(k) >= rounds for k in kept.values()):
                break
            for name, call in calls.items():
                got = self.sample(call)
                if got:
                    kept[name].append(got)
        return kept


class Embed:
    def __init__(self, path, threads):
        self.lib, self.pool, self.context = C.CDLL(path), C.c_void_p(), C.c_void_p()
        self.lib.embed_context_isa.restype = self.lib.embed_error_text.restype = C.c_char_p
        p, n = C.c_void_p, C.c_int64
        self.declare("embed_table_borrow", p, p, n, n, p, p, p, p)
        assert self.lib.embed_pool_create(threads, C.byref(self.pool)) == 0
        o = ContextOptions(size=C.sizeof(ContextOptions), pool=self.pool)
        assert self.lib.embed_context_create(C.byref(o), C.byref(self.context)) == 0

    def declare(self, name, *arguments):
        getattr(self.lib, name).argtypes = arguments

    def heading(self):
        return f"libembed {self.lib.embed_version():#x}, level {self.lib.embed_context_isa(self.context).decode()}"

    def check(self, status):
        if status != 0:
            sys.exit(f"libembed answered {status}: {self.lib.embed_error_text(self.context).decode()}")

    def table(self, data, rows, dim, dtype):
        t, o = C.c_void_p(), TableOptions(C.sizeof(TableOptions), 0, 0, 0, 0, dtype, 0)
        self.check(self.lib.embed_table_borrow(self.context, data.ctypes.data, rows, dim, C.byref(o), None, None, C.byref(t)))
        return t

    def release(self, table):
        self.lib.embed_table_release(table)
