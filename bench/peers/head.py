#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Logits of the whole vocabulary beside the strongest peers, all over the same numbers, taking turns in one process.

    python3 -m venv V
    V/bin/pip install --no-deps torch==2.15.0 typing-extensions sympy networkx jinja2 fsspec filelock mpmath MarkupSafe numpy scipy-openblas32
    V/bin/pip install openvino==2026.4.1 onnx==1.23.2 onnxruntime==1.32.0
    CMAKE_ARGS="-DGGML_NATIVE=ON -DCMAKE_CXX_FLAGS='-fno-tree-dse -fno-dse'" V/bin/pip install --no-binary llama-cpp-python llama-cpp-python==0.3.36
    V/bin/python head.py path/to/libembed.so [--shape A|B] [--form f32|bf16|int8|q8_0|q4_K] [--batch N,..] [--rounded-from N]
                        [--rounds N] [--threads N] [--ggml FOLDER]

Those flags: gcc 12 drops stores that ggml's AMX kernels need, and they end the process. Needs cc with OpenMP. A torch wheel that was made
for CUDA wants CUDA's libraries: have them, or stand-ins, on LD_LIBRARY_PATH. --ggml names the folder of libggml-base.so and libggml-cpu.so
where they are not llama-cpp-python's. ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16 keeps oneDNN (torch's and OpenVINO's) from AMX.

A peer that is missing says so. A sample runs as bench/README.md says. Ours is a prepared head: exact, but from batch 8 (or as said) on bf16 rounds the
hidden rows to BF16, and int8, q8_0 and q4_K round them to Q8_0; torch's and ggml's of these forms round at every batch. Errors: the largest,
against float64 over the weights that the form stores, as a share of sum |w||x|. All of a form have the same stored numbers (OpenVINO and
onnxruntime too); torch rounds its bf16 answers to bf16."""
import argparse
import ctypes as C
import importlib
import importlib.metadata
import importlib.util
import os
import statistics
import warnings

from surroundings import enter

if __name__ == "__main__":
    enter()

import numpy as np

from common import BF16, F32, I8_ROW, Q4_K, Q8_0, Embed, Machine, TableOptions, compiled, memory

SHAPES = {"A": (50257, 768), "B": (32768, 4096)}
FORMS = {"f32": F32, "bf16": BF16, "int8": I8_ROW, "q8_0": Q8_0, "q4_K": Q4_K}
ROUNDED = {"bf16": BF16, "int8": Q8_0, "q8_0": Q8_0, "q4_K": Q8_0}  # the hidden rows, from some batch on
ONEDNN = ("f32", "bf16", "int8")  # the forms that it has
PREPARE, CHECKED = 16, 256
STRONGEST = ("oneDNN", "linear_dynamic", "ggml")


def goals(shape, form, batch):
    """(ratio, words): the fastest of the peers that have one of the words in their names takes at least ratio times as long as ours."""
    if batch == 1:
        return {("A", "f32"): [(1.03, ("OpenVINO",)), (1.2, ("ggml",))], ("B", "f32"): [(1.03, ("OpenVINO",))], ("A", "bf16"): [(1.35, ("ggml",))],
                ("A", "q8_0"): [(1.8, ("ggml",))], ("A", "q4_K"): [(2.5, ("ggml",))], ("B", "q4_K"): [(1.4, ("ggml",))]}.get((shape, form), [])
    return [{4: (1.25, STRONGEST), 8: (1.5, STRONGEST), 16: (1.13, STRONGEST)}.get(batch, (1.0, ("oneDNN",)))] if batch <= 16 or form in ONEDNN else []


class HeadOptions(C.Structure):
    _fields_ = [("size", C.c_uint32), ("flags", C.c_uint32), ("logit_scale", C.c_float), ("logit_softcap", C.c_float)]


class SweepOptions(C.Structure):
    _fields_ = [("size", C.c_uint32), ("flags", C.c_uint32), ("ask", C.c_uint32), ("k", C.c_int32), ("nan", C.c_int32), ("activation", C.c_int32)]


class Head(Embed):
    def __init__(self, path, threads):
        super().__init__(path, threads)
        p, n, i = C.c_void_p, C.c_int64, C.c_int32
        self.lib.embed_table_data.restype, self.lib.embed_table_row_bytes.restype = p, n
        self.declare("embed_table_convert", p, p, p, p)
        self.declare("embed_table_get_rows", p, p, p, n, p, i, n)
        self.declare("embed_head_create", p, p, p, p, p)
        self.declare("embed_logits", p, p, p, i, n, n, p, n, p)

    def converted(self, table, dtype):
        t, o = C.c_void_p(), TableOptions(C.sizeof(TableOptions), 0, 0, 0, 0, dtype, 0)
        self.check(self.lib.embed_table_convert(self.context, table, C.byref(o), C.byref(t)))
        return t

    def stored(self, table, rows):
        """Its bytes, a row each, where they lie."""
        width = self.lib.embed_table_row_bytes(table)
        return np.frombuffer((C.c_char * (rows * width)).from_address(self.lib.embed_table_data(table)), np.uint8).reshape(rows, width)

    def rows(self, table, ids, dim):
        out = np.empty((ids.size, dim), np.float32)
        self.check(self.lib.embed_table_get_rows(self.context, table, ids.ctypes.data, ids.size, out.ctypes.data, F32, 0))
        return out

    def head(self, table):
        h, o = C.c_void_p(), HeadOptions(C.sizeof(HeadOptions), PREPARE, 0, 0)
        self.check(self.lib.embed_head_create(self.context, table, None, C.byref(o), C.byref(h)))
        return h

    def logits(self, head, hidden, out, activation):
        o = SweepOptions(size=C.sizeof(SweepOptions), activation=activation)
        x, y, options = hidden.ctypes.data, out.ctypes.data, C.byref(o)
        return lambda: self.check(self.lib.embed_logits(self.context, head, x, F32, len(hidden), 0, y, 0, options))


class Weights:
    """One form of the same numbers."""

    def __init__(self, embed, form, f32):
        self.embed, self.form, (self.rows, self.dim) = embed, form, f32.shape
        borrowed = embed.table(f32, self.rows, self.dim, F32)
        self.table = borrowed
        if form != "f32":
            self.table = embed.converted(borrowed, FORMS[form])
            embed.release(borrowed)
        self.stored = f32 if form == "f32" else embed.stored(self.table, self.rows)
        self.bytes = self.stored.nbytes
        self.checked = np.unique(np.linspace(0, self.rows - 1, CHECKED).astype(np.int64))
        self.decoded = embed.rows(self.table, self.checked, self.dim).astype(np.float64)

    def error(self, hidden, got):
        """The largest among up to 16 hidden rows and 256 rows of the vocabulary."""
        some = np.unique(np.linspace(0, len(hidden) - 1, 16).astype(int))
        x = hidden[some].astype(np.float64)
        got = np.asarray(got).reshape(len(hidden), self.rows)[np.ix_(some, self.checked)].astype(np.float64)
        return float(np.max(np.abs(got - x @ self.decoded.T) / (np.abs(x) @ np.abs(self.decoded).T)))


# Peers. peer(threads) fails where its module is missing; heading says the version; calls(weights, hidden) gives name -> (call, answer): call
# computes, answer() gives what it computed, [n, rows]. A name says which library it is (goals).


class Torch:
    def __init__(self, threads):
        warnings.filterwarnings("ignore", module="torch|__main__")  # of quantised tensors: deprecated, and what is measured here
        self.torch = torch = importlib.import_module("torch")
        torch.set_num_threads(threads)
        torch.set_grad_enabled(False)
        self.heading = f"torch {torch.__version__}, {torch.backends.cpu.get_cpu_capability()}"

    def turn(self, function):
        last = []

        def call():
            last[:] = [function()]
        return call, lambda: last[0].float().numpy()

    def calls(self, weights, hidden):
        if weights.form not in ("f32", "bf16", "int8"):
            return {}
        return self.quantised(weights, hidden) if weights.form == "int8" else self.floats(weights, hidden)

    def floats(self, weights, hidden):
        torch = self.torch
        w, x = torch.from_numpy(weights.stored), torch.from_numpy(hidden)
        if weights.form == "bf16":
            w, x = w.view(torch.bfloat16), x.bfloat16()
        packed = torch.ops.mkldnn._reorder_linear_weight(w, len(hidden))
        return {"torch F.linear": self.turn(lambda: torch.nn.functional.linear(x, w)),
                "torch oneDNN prepacked": self.turn(lambda: torch.ops.mkldnn._linear_pointwise(x, packed, None, "none", [], ""))}

    def quantised(self, weights, hidden):
        torch, dim, x, made = self.torch, weights.dim, self.torch.from_numpy(hidden), {}
        scales = weights.stored[:, dim:].copy().view(np.float32)[:, 0].astype(np.float64)
        numbers = weights.stored[:, :dim].view(np.int8) * scales.astype(np.float32)[:, None]
        w = torch.quantize_per_channel(torch.from_numpy(numbers), torch.from_numpy(scales), torch.zeros(weights.rows, dtype=torch.long), 0, torch.qint8)
        for engine, name in (("fbgemm", "torch FBGEMM linear_dynamic"), ("onednn", "torch oneDNN linear_dynamic")):
            if engine not in torch.backends.quantized.supported_engines:
                continue
            torch.backends.quantized.engine = engine
            packed = torch.ops.quantized.linear_prepack(w, None)

            def call(engine=engine, packed=packed):
                torch.backends.quantized.engine = engine
                return torch.ops.quantized.linear_dynamic(x, packed, False)
            made[name] = self.turn(call)
        return made


class OpenVINO:
    def __init__(self, threads):
        self.ov, self.threads = importlib.import_module("openvino"), threads
        self.operations = importlib.import_module("openvino.opset13")
        self.core = self.ov.Core()
        self.heading = f"openvino {self.ov.__version__}, {' '.join(self.core.get_property('CPU', 'OPTIMIZATION_CAPABILITIES'))}"
        self.weights = self.model = None

    def calls(self, weights, hidden):
        if weights.form not in ("f32", "bf16"):
            return {}
        if self.weights is not weights:
            ov, op = self.ov, self.operations
            x = op.parameter([-1, weights.dim], np.float32, name="x")
            if weights.form == "f32":
                w = op.constant(weights.stored)
            else:
                w = op.convert(op.constant(ov.Tensor(weights.stored.view(np.uint16), [weights.rows, weights.dim], ov.Type.bf16)), "f32")
            model = ov.Model([op.matmul(x, w, False, True)], [x])
            self.model, self.weights = self.core.compile_model(model, "CPU", {
                "INFERENCE_PRECISION_HINT": weights.form, "INFERENCE_NUM_THREADS": self.threads, "NUM_STREAMS": 1, "PERFORMANCE_HINT": "LATENCY"}), weights
        request = self.model.create_infer_request()
        request.set_input_tensor(self.ov.Tensor(hidden, shared_memory=True))
        return {f"OpenVINO {weights.form}": (request.infer, lambda: request.get_output_tensor().data)}


class OnnxRuntime:
    def __init__(self, threads):
        self.ort, self.onnx, self.threads = importlib.import_module("onnxruntime"), importlib.import_module("onnx"), threads
        self.heading = f"onnxruntime {self.ort.__version__}"
        self.weights = self.session = None

    def calls(self, weights, hidden):
        if weights.form != "f32":
            return {}
        if self.weights is not weights:
            make, kind = self.onnx.helper, self.onnx.TensorProto.FLOAT
            transposed = self.onnx.numpy_helper.from_array(np.ascontiguousarray(weights.stored.T), "w")
            graph = make.make_graph([make.make_node("MatMul", ["x", "w"], ["y"])], "head", [make.make_tensor_value_info("x", kind, ["n", weights.dim])],
                                    [make.make_tensor_value_info("y", kind, ["n", weights.rows])], [transposed])
            model = make.make_model(graph, opset_imports=[make.make_opsetid("", 21)], ir_version=10)
            o = self.ort.SessionOptions()
            o.intra_op_num_threads, o.inter_op_num_threads = self.threads, 1
            o.add_session_config_entry("session.intra_op.allow_spinning", "0")
            self.session, self.weights = self.ort.InferenceSession(model.SerializeToString(), o, providers=["CPUExecutionProvider"]), weights
        out, binding = memory((len(hidden), weights.rows), np.float32), self.session.io_binding()
        binding.bind_cpu_input("x", hidden)
        binding.bind_output("y", "cpu", 0, np.float32, out.shape, out.ctypes.data)
        return {"onnxruntime MatMul": (lambda: self.session.run_with_iobinding(binding), lambda: out)}


class OpenBLAS:
    ROW_MAJOR, AS_IS, TRANSPOSED = 101, 111, 112

    def __init__(self, threads):
        self.lib = lib = C.CDLL(os.path.join(folder_of("scipy_openblas32"), "lib", "libscipy_openblas.so"))
        lib.scipy_openblas_get_config.restype = lib.scipy_openblas_get_corename.restype = C.c_char_p
        lib.scipy_openblas_set_num_threads(threads)
        i, f, p = C.c_int, C.c_float, C.c_void_p
        lib.scipy_cblas_sgemv.argtypes = [i, i, i, i, f, p, i, p, i, f, p, i]
        lib.scipy_cblas_sgemm.argtypes = [i, i, i, i, i, i, f, p, i, p, i, f, p, i]
        self.heading = f"{lib.scipy_openblas_get_config().decode()}, core {lib.scipy_openblas_get_corename().decode()}"

    def calls(self, weights, hidden):
        if weights.form != "f32":
            return {}
        rows, dim, n = weights.rows, weights.dim, len(hidden)
        out, w, x = memory((n, rows), np.float32), weights.stored.ctypes.data, hidden.ctypes.data
        y = out.ctypes.data
        if n == 1:
            sgemv = self.lib.scipy_cblas_sgemv
            return {"OpenBLAS sgemv": (lambda: sgemv(self.ROW_MAJOR, self.AS_IS, rows, dim, 1, w, dim, x, 1, 0, y, 1), lambda: out)}
        order, sides, sgemm = self.ROW_MAJOR, (self.AS_IS, self.TRANSPOSED), self.lib.scipy_cblas_sgemm
        return {"OpenBLAS sgemm": (lambda: sgemm(order, *sides, n, rows, dim, 1, x, dim, w, dim, 0, y, rows), lambda: out)}


class Ggml:
    """By its shared libraries: plain memory, and every other kind that its CPU backend offers (CPU_REPACK, AMX)."""
    TYPES = {"f32": 0, "bf16": 30, "q8_0": 8, "q4_K": 12}
    folder = ""

    class Parameters(C.Structure):
        _fields_ = [("mem_size", C.c_size_t), ("mem_buffer", C.c_void_p), ("no_alloc", C.c_bool)]

    def __init__(self, threads):
        folder = self.folder or os.path.join(folder_of("llama_cpp"), "lib")
        self.base = base = C.CDLL(os.path.join(folder, "libggml-base.so"), C.RTLD_GLOBAL)
        self.cpu = cpu = C.CDLL(os.path.join(folder, "libggml-cpu.so"), C.RTLD_GLOBAL)
        p, n, i, size, text = C.c_void_p, C.c_int64, C.c_int, C.c_size_t, C.c_char_p
        for lib, name, result, *arguments in (
                (base, "version", text), (base, "commit", text), (base, "log_set", None, p, p), (base, "init", p, self.Parameters), (base, "free", None, p),
                (base, "new_tensor_2d", p, p, i, n, n), (base, "mul_mat", p, p, p, p), (base, "new_graph", p, p),
                (base, "build_forward_expand", None, p, p), (base, "backend_alloc_ctx_tensors_from_buft", p, p, p),
                (base, "backend_buffer_free", None, p), (base, "backend_tensor_set", None, p, p, size, size),
                (base, "backend_tensor_get", None, p, p, size, size), (base, "backend_graph_compute", i, p, p),
                (base, "backend_dev_supports_op", C.c_bool, p, p), (base, "backend_reg_dev_get", p, p, size),
                (base, "backend_reg_get_proc_address", p, p, text), (base, "backend_cpu_buffer_type", p), (base, "backend_buft_name", text, p),
                (cpu, "backend_cpu_init", p), (cpu, "backend_cpu_reg", p), (cpu, "backend_cpu_set_n_threads", None, p, i)):
            function = getattr(lib, f"ggml_{name}")
            function.restype, function.argtypes = result, arguments
        self.quiet = C.CFUNCTYPE(None, i, C.c_char_p, p)(lambda level, text, data: None)
        base.ggml_log_set(self.quiet, None)
        self.backend = cpu.ggml_backend_cpu_init()
        cpu.ggml_backend_cpu_set_n_threads(self.backend, threads)
        registry = cpu.ggml_backend_cpu_reg()
        self.device = base.ggml_backend_reg_dev_get(registry, 0)
        self.plain = base.ggml_backend_cpu_buffer_type()
        extra = base.ggml_backend_reg_get_proc_address(registry, b"ggml_backend_dev_get_extra_bufts")
        listed = C.CFUNCTYPE(C.POINTER(p), p)(extra)(self.device) if extra else None
        self.kinds, at = {"": self.plain}, 0
        while listed and listed[at]:
            self.kinds[" " + base.ggml_backend_buft_name(listed[at]).decode()] = listed[at]
            at += 1
        self.heading = f"ggml {base.ggml_version().decode()} ({base.ggml_commit().decode()}), memory: CPU{''.join(self.kinds)}"
        self.weights, self.held, self.graphs = None, {}, []

    def placed(self, kind, make):
        """(what make(context) gives, context, memory of that kind for its tensors or None)"""
        context = self.base.ggml_init(self.Parameters(1 << 20, None, True))
        tensors = make(context)
        buffer = self.base.ggml_backend_alloc_ctx_tensors_from_buft(context, kind)
        return tensors, context, buffer

    def release(self, placed):
        _, context, buffer = placed
        if buffer:
            self.base.ggml_backend_buffer_free(buffer)
        self.base.ggml_free(context)

    def graph(self, w, weights, n):
        def make(context):
            x = self.base.ggml_new_tensor_2d(context, 0, weights.dim, n)
            y, graph = self.base.ggml_mul_mat(context, w, x), self.base.ggml_new_graph(context)
            self.base.ggml_build_forward_expand(graph, y)
            return x, y, graph
        return self.placed(self.plain, make)

    def hold(self, weights):
        for old in self.held.values():
            self.release(old)
        self.held, self.weights = {}, weights
        for name, kind in self.kinds.items():
            if name and weights.form in ("f32", "bf16"):
                continue
            placed = self.placed(kind, lambda context: self.base.ggml_new_tensor_2d(context, self.TYPES[weights.form], weights.dim, weights.rows))
            if not placed[2]:
                self.release(placed)
                continue
            test = self.graph(placed[0], weights, 1)
            fits = self.base.ggml_backend_dev_supports_op(self.device, test[0][1])
            self.release(test)
            if fits:
                self.base.ggml_backend_tensor_set(placed[0], weights.stored.ctypes.data, 0, weights.bytes)
                self.held[name] = placed
            else:
                print(f"ggml{name}: no kernel for {weights.form} {weights.rows}x{weights.dim}")
                self.release(placed)

    def calls(self, weights, hidden):
        for old in self.graphs:
            self.release(old)
        self.graphs, made = [], {}
        if weights.form not in self.TYPES:
            return made
        if self.weights is not weights:
            self.hold(weights)
        for name, placed in self.held.items():
            self.graphs.append(self.graph(placed[0], weights, len(hidden)))
            x, y, graph = self.graphs[-1][0]
            self.base.ggml_backend_tensor_set(x, hidden.ctypes.data, 0, hidden.nbytes)

            def call(graph=graph):
                assert self.base.ggml_backend_graph_compute(self.backend, graph) == 0

            def answer(y=y):
                out = np.empty((len(hidden), weights.rows), np.float32)
                self.base.ggml_backend_tensor_get(y, out.ctypes.data, 0, out.nbytes)
                return out
            made[f"ggml {weights.form}{name}"] = call, answer
        return made


def processor():
    """Its name, what decides which kernels peers choose, and whether oneDNN was kept from it."""
    with open("/proc/cpuinfo") as file:
        lines = dict(line.split(":", 1) for line in file.read().split("\n\n")[0].splitlines() if ":" in line)
    values = {name.strip(): value.strip() for name, value in lines.items()}
    flags = [flag for flag in values.get("flags", "").split() if flag in ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_bf16", "amx_int8")]
    cap = os.environ.get("ONEDNN_MAX_CPU_ISA")
    return f"{values.get('model name', 'CPU')}: {' '.join(flags)}{f', ONEDNN_MAX_CPU_ISA={cap}' if cap else ''}"


def folder_of(module):
    spec = importlib.util.find_spec(module)
    if not spec:
        raise ImportError(f"No module named '{module}'")
    return spec.submodule_search_locations[0]


def found(threads):
    for name, kind in (("torch", Torch), ("OpenVINO", OpenVINO), ("onnxruntime", OnnxRuntime), ("scipy-openblas32", OpenBLAS), ("ggml", Ggml)):
        try:
            peer = kind(threads)
            print(peer.heading, flush=True)
            yield peer
        except Exception as reason:  # not installed, or a wheel that does not load here
            print(f"{name}: missing ({reason})", flush=True)


def compare(machine, embed, peers, shape, weights, head, batch, rounds, rounded):
    """One batch: measures, prints a line per contestant, gives the row of the table."""
    hidden = memory((batch, weights.dim), np.float32)
    hidden[:] = np.random.default_rng(batch).standard_normal(hidden.shape, np.float32)
    out = memory((batch, weights.rows), np.float32)
    activation = ROUNDED.get(weights.form, F32) if rounded else F32
    turns = {"libembed": (embed.logits(head, hidden, out, activation), lambda: out)}
    for peer in peers:
        try:
            turns.update(peer.calls(weights, hidden))
        except Exception as reason:  # whatever a peer's own code throws: the others go on
            print(f"{type(peer).__name__} fails: {str(reason)[:200]}", flush=True)
    kept = machine.measure({name: call for name, (call, _) in turns.items()}, rounds)
    title, figures = f"{weights.form} {weights.rows}x{weights.dim} batch {batch}", {}
    for name, (_, answer) in turns.items():
        if len(kept[name]) < 3:
            print(f"{title:30s} | {name:30s} | {len(kept[name])} samples kept, too few", flush=True)
            continue
        seconds, read = (statistics.median(values) for values in zip(*kept[name]))
        figures[name] = seconds, weights.error(hidden, answer())
        print(f"{title:30s} | {name:30s} | {seconds * 1e3:9.3f} ms | {weights.bytes / seconds / 1e9:6.1f} GB/s, probes {read:5.1f} | "
              f"{2e-9 * batch * weights.rows * weights.dim / seconds:7.1f} GFLOP/s | error {figures[name][1]:.0e} | kept {len(kept[name])}", flush=True)
    return row(title, figures, goals(shape, weights.form, batch), activation)


def row(title, figures, wanted, activation):
    if activation:
        title += {BF16: ", to BF16", Q8_0: ", to Q8_0"}[activation]
    if "libembed" not in figures:
        return [title, "no figure", "-", "-", "-", "-"]
    ours, error = figures.pop("libembed")
    if not figures:
        return [title, f"{ours * 1e3:.3f} ms", "none", "-", f"{error:.0e}, -", "-"]
    best = min(figures, key=lambda name: figures[name][0])
    said = []
    for ratio, words in wanted:
        named = [name for name in figures if any(word in name for word in words)]
        if not named:
            said.append(f"{ratio} x {'/'.join(words)}: not measured")
            continue
        name = min(named, key=lambda n: figures[n][0])
        reached = figures[name][0] / ours
        said.append(f"{ratio} x {name}: {reached:.2f} {'met' if reached >= ratio else 'NOT MET'}")
    theirs, worst = figures[best]
    return [title, f"{ours * 1e3:.3f} ms", f"{best} {theirs * 1e3:.3f} ms", f"{theirs / ours:.2f}", f"{error:.0e}, {worst:.0e}", "; ".join(said) or "-"]


def show(table):
    heading = ["operation", "ours", "best peer", "ratio", "largest error, ours and its", "goal: ratio reached"]
    widths = [max(len(line[i]) for line in [heading, *table]) for i in range(len(heading))]
    for line in [heading, ["-" * width for width in widths], *table]:
        print("| " + " | ".join(text.ljust(width) for text, width in zip(line, widths)) + " |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library")
    parser.add_argument("--shape", default="A", choices=SHAPES)
    parser.add_argument("--form", choices=FORMS)
    parser.add_argument("--batch", default="1,4,8,16,64,512")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--rounded-from", type=int, default=8)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--ggml", default="")
    a = parser.parse_args()
    Ggml.folder = a.ggml
    embed, machine = Head(a.library, a.threads), Machine(compiled("read.c", "cc"), a.threads)
    print(f"{embed.heading()}; {a.threads} threads; load {os.getloadavg()[0]:.1f}\n{processor()}", flush=True)
    peers = list(found(a.threads))
    numbers = memory(SHAPES[a.shape], np.float32)
    numbers[:] = np.random.default_rng(1).standard_normal(numbers.shape, np.float32)
    numbers *= 0.02
    table = []
    for form in [a.form] if a.form else FORMS:
        weights = Weights(embed, form, numbers)
        head = embed.head(weights.table)
        for batch in map(int, a.batch.split(",")):
            table.append(compare(machine, embed, peers, a.shape, weights, head, batch, a.rounds, batch >= a.rounded_from))
        embed.lib.embed_head_release(head)
        embed.release(weights.table)
    print()
    show(table)


if __name__ == "__main__":
    main()
