# SPDX-License-Identifier: BSD-3-Clause
"""libembed through ctypes, with numpy arrays: consumer.py LIBEMBED.SO FOLDER_OF_TEST_DATA [API_LIST].

The upper half is a binding to copy; the lower half holds it to what must be true. API_LIST is tests/abi/api.awk's list of the
headers: every declaration here is compared with it.
"""
import ctypes
import re
import sys
import tempfile
import unittest
from ctypes import POINTER, c_char_p, c_double, c_float, c_int32, c_int64, c_uint32, c_uint64, c_void_p

import numpy as np

i32s, i64s, f32s = POINTER(c_int32), POINTER(c_int64), POINTER(c_float)
OK, E_ARGUMENT, E_ID, E_OPTION, E_IO, F32, INIT_NORMAL, OOV_HASH = 0, -1, -3, -4, -7, 0, 1, 4


class Options(ctypes.Structure):
    """An options struct: sets its size; what is not named is zero, the default."""

    def __init__(self, **fields):
        super().__init__(size=ctypes.sizeof(self), **fields)


def options(name, *fields):
    return type(name, (Options,), {"_fields_": [("size", c_uint32), ("flags", c_uint32), *fields]})


ContextOptions = options("embed_context_options", ("max_scratch", c_int64), ("why_bytes", c_int64), ("pool", c_void_p), ("executor", c_void_p),
                         ("allocator", c_void_p), ("isa", c_char_p), ("cancel", i32s), ("progress", c_void_p), ("progress_arg", c_void_p),
                         ("why", c_char_p))
InitOptions = options("embed_init_options", ("kind", c_int32), ("scale", c_float), ("low", c_float), ("high", c_float), ("first", c_int64),
                      ("count", c_int64), ("padding_id", c_int64), ("seed", c_uint64))
LookupOptions = options("embed_lookup_options", ("scale", c_float), ("max_norm", c_float), ("scale_round", c_int32), ("oov", c_int32),
                        ("unk_id", c_int64), ("padding_id", c_int64))
SweepOptions = options("embed_sweep_options", ("ask", c_uint32), ("k", c_int32), ("nan", c_int32), ("activation", c_int32))
SampleParams = options("embed_sample_params", ("seed", c_uint64), ("position", c_int64), ("temperature", c_double), ("top_p", c_double),
                       ("min_p", c_double), ("typical_p", c_double), ("top_n_sigma", c_double), ("repetition", c_double),
                       ("frequency", c_double), ("presence", c_double), ("top_k", c_int32), ("last_n", c_int32), ("min_keep", c_int32),
                       ("order", c_int32))
STRUCTS = [ContextOptions, InitOptions, LookupOptions, SweepOptions, SampleParams]
ASK = {"logits": (1, f32s), "logsumexp": (2, f32s), "entropy": (4, f32s), "topk_ids": (8, i32s), "topk_logits": (16, f32s),
       "topk_count": (32, i32s), "target_logprob": (64, f32s), "target_rank": (128, i32s), "token": (256, i32s), "token_logprob": (512, f32s)}

# name: result, arguments. ctx, table, head, file and the handles' places are void pointers here.
FUNCTIONS = {
    "embed_version": (c_uint32,),
    "embed_status_name": (c_char_p, c_int32),
    "embed_context_create": (c_int32, POINTER(ContextOptions), POINTER(c_void_p)),
    "embed_context_release": (None, c_void_p),
    "embed_context_isa": (c_char_p, c_void_p),
    "embed_error_text": (c_char_p, c_void_p),
    "embed_error_at": (c_int64, c_void_p),
    "embed_replaced_ids": (c_int64, c_void_p),
    "embed_table_create": (c_int32, c_void_p, c_int64, c_int64, c_void_p, POINTER(c_void_p)),
    "embed_table_view": (c_int32, c_void_p, c_void_p, c_int64, c_int64, c_void_p, c_void_p, c_void_p, POINTER(c_void_p)),
    "embed_table_init": (c_int32, c_void_p, c_void_p, POINTER(InitOptions)),
    "embed_table_release": (None, c_void_p),
    "embed_table_rows": (c_int64, c_void_p),
    "embed_table_vocab": (c_int64, c_void_p),
    "embed_table_dim": (c_int64, c_void_p),
    "embed_table_data": (c_void_p, c_void_p),
    "embed_lookup": (c_int32, c_void_p, c_void_p, i32s, c_int64, c_void_p, c_int32, c_int64, POINTER(LookupOptions)),
    "embed_bag": (c_int32, c_void_p, c_void_p, i32s, c_int64, i64s, c_int64, f32s, c_void_p, c_int32, c_int64, c_void_p),
    "embed_mix": (c_int32, c_void_p, c_void_p, f32s, c_int64, c_int64, f32s, c_int64, c_void_p),
    "embed_head_create": (c_int32, c_void_p, c_void_p, f32s, c_void_p, POINTER(c_void_p)),
    "embed_head_release": (None, c_void_p),
    "embed_head_is_tied": (c_int32, c_void_p, c_void_p),
    "embed_head_vocab": (c_int64, c_void_p),
    "embed_logits": (c_int32, c_void_p, c_void_p, c_void_p, c_int32, c_int64, c_int64, f32s, c_int64, c_void_p),
    "embed_topk": (c_int32, c_void_p, c_void_p, c_void_p, c_int32, c_int64, c_int64, c_int32, i32s, f32s, f32s, i32s, c_void_p),
    "embed_sweep": (c_int32, c_void_p, c_void_p, c_void_p, c_int32, c_int64, i64s, c_int64, i32s, POINTER(c_void_p), POINTER(SampleParams), c_int64,
                    POINTER(SweepOptions), c_void_p),
    "embed_sample": (c_int32, c_void_p, c_void_p, c_void_p, c_int32, c_int64, c_int64, POINTER(c_void_p), POINTER(SampleParams), c_int64, i32s,
                     f32s, POINTER(SweepOptions)),
    "embed_result_create": (c_int32, c_void_p, POINTER(c_void_p)),
    "embed_result_f32": (f32s, c_void_p, c_uint32, i64s, i64s),
    "embed_result_i32": (i32s, c_void_p, c_uint32, i64s, i64s),
    "embed_result_release": (None, c_void_p),
    "embed_rules_create": (c_int32, c_void_p, c_int64, POINTER(c_void_p)),
    "embed_rules_ban": (c_int32, c_void_p, c_void_p, i32s, c_int64),
    "embed_rules_push": (c_int32, c_void_p, c_void_p, i32s, c_int64),
    "embed_rules_pop": (c_int32, c_void_p, c_void_p, c_int64),
    "embed_rules_release": (None, c_void_p),
    "embed_norms": (c_int32, c_void_p, c_void_p, f32s),
    "embed_file_open": (c_int32, c_void_p, c_char_p, c_void_p, POINTER(c_void_p)),
    "embed_file_release": (None, c_void_p),
    "embed_file_table": (c_int32, c_void_p, c_void_p, c_int64, POINTER(c_void_p)),
    "embed_file_token": (c_char_p, c_void_p, c_int64, i64s),
    "embed_file_token_id": (c_int32, c_void_p, c_void_p, c_char_p, c_int64, i64s),
}


def load(path):
    library = ctypes.CDLL(path)
    for name, (result, *arguments) in FUNCTIONS.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


class EmbedError(Exception):
    def __init__(self, status, at, text):
        super().__init__(f"{lib.embed_status_name(status).decode()}: {text}")
        self.status, self.at, self.text = status, at, text


def pointer(array, kind):
    """The address of a dense array's numbers; none for none."""
    return array.ctypes.data_as(kind) if array is not None and array.size else None


def dense(values, dtype):
    return np.ascontiguousarray(values, dtype)


class Handle:
    release = None

    def __init__(self, address):
        self.at = address

    def close(self):
        address, self.at = self.at, None
        if address:
            getattr(lib, self.release)(address)

    __del__ = close
    _as_parameter_ = property(lambda self: self.at)


class Context(Handle):
    """One per thread."""

    release = "embed_context_release"

    def __init__(self, isa=None):
        address, why = c_void_p(), ctypes.create_string_buffer(512)
        o = ContextOptions(isa=isa, why_bytes=512)
        o.why = ctypes.cast(why, c_char_p)
        status = lib.embed_context_create(o, address)
        super().__init__(address.value)
        if status != OK:
            raise EmbedError(status, -1, why.value.decode())

    def check(self, status):
        if status != OK:
            raise EmbedError(status, lib.embed_error_at(self), lib.embed_error_text(self).decode())

    def make(self, kind, call, *arguments):
        address = c_void_p()
        self.check(getattr(lib, call)(self, *arguments, address))
        return kind(address.value)


class Table(Handle):
    release = "embed_table_release"

    @classmethod
    def normal(cls, ctx, rows, dim, seed):
        table = ctx.make(cls, "embed_table_create", rows, dim, None)
        ctx.check(lib.embed_table_init(ctx, table, InitOptions(kind=INIT_NORMAL, scale=1, seed=seed)))
        return table

    @classmethod
    def view(cls, ctx, array):
        """A read-only table over an array of floats, which is kept alive."""
        array = dense(array, np.float32)
        table = ctx.make(cls, "embed_table_view", pointer(array, c_void_p), *array.shape, None, None, None)
        table.array = array
        return table

    dim = property(lambda self: lib.embed_table_dim(self))
    vocab = property(lambda self: lib.embed_table_vocab(self))

    def lookup(self, ctx, ids, out=None, **fields):
        ids = dense(ids, np.int32)
        if out is None:
            out = np.full((*ids.shape, self.dim), np.nan, np.float32)
        if out.dtype != np.float32 or not out.flags.c_contiguous or out.size != ids.size * self.dim:
            raise EmbedError(E_ARGUMENT, -1, f"out has {out.size} elements, {ids.size * self.dim} are needed")
        ctx.check(lib.embed_lookup(ctx, self, pointer(ids, i32s), ids.size, pointer(out, c_void_p), F32, 0, LookupOptions(**fields)))
        return out

    def bag(self, ctx, ids, offsets, weights=None):
        ids, offsets = dense(ids, np.int32), dense(offsets, np.int64)
        weights = None if weights is None else dense(weights, np.float32)
        out = np.empty((len(offsets) - 1, self.dim), np.float32)
        ctx.check(lib.embed_bag(ctx, self, pointer(ids, i32s), ids.size, pointer(offsets, i64s), len(offsets) - 1, pointer(weights, f32s),
                                pointer(out, c_void_p), F32, 0, None))
        return out

    def mix(self, ctx, weights):
        weights = dense(weights, np.float32).reshape(-1, self.vocab)
        out = np.full((len(weights), self.dim), np.nan, np.float32)
        ctx.check(lib.embed_mix(ctx, self, pointer(weights, f32s), len(weights), 0, pointer(out, f32s), 0, None))
        return out

    def norms(self, ctx):
        out = np.empty(self.vocab, np.float32)
        ctx.check(lib.embed_norms(ctx, self, pointer(out, f32s)))
        return out


class Head(Handle):
    """Tied to the table that it is given."""

    release = "embed_head_release"

    @classmethod
    def of(cls, ctx, table):
        head = ctx.make(cls, "embed_head_create", table, None, None)
        head.table = table
        return head

    def _rows(self, hidden):
        return dense(hidden, np.float32).reshape(-1, self.table.dim)

    def logits(self, ctx, hidden):
        hidden = self._rows(hidden)
        out = np.empty((len(hidden), lib.embed_head_vocab(self)), np.float32)
        ctx.check(lib.embed_logits(ctx, self, pointer(hidden, c_void_p), F32, len(hidden), 0, pointer(out, f32s), 0, None))
        return out

    def topk(self, ctx, hidden, k):
        hidden = self._rows(hidden)
        ids, logits = np.empty((len(hidden), k), np.int32), np.empty((len(hidden), k), np.float32)
        sums = np.empty(len(hidden), np.float32)
        ctx.check(lib.embed_topk(ctx, self, pointer(hidden, c_void_p), F32, len(hidden), 0, k, pointer(ids, i32s), pointer(logits, f32s),
                                 pointer(sums, f32s), None, None))
        return ids, logits, sums


    @staticmethod
    def _rules(rules):
        return (c_void_p * len(rules))(*(r.at if r else None for r in rules)) if rules else None

    def sweep(self, ctx, hidden, asks, targets=None, rules=None, params=None, **fields):
        """Answers by name, from one sweep: sweep(ctx, hidden, ["token", "entropy"])."""
        hidden = self._rows(hidden)
        targets = None if targets is None else dense(targets, np.int32).reshape(len(hidden))
        result = ctx.make(Result, "embed_result_create")
        options = SweepOptions(ask=sum(ASK[name][0] for name in asks), **fields)
        ctx.check(lib.embed_sweep(ctx, self, pointer(hidden, c_void_p), F32, 0, None, len(hidden), pointer(targets, i32s), self._rules(rules), params,
                                  1 if params else 0, options, result))
        return {name: result.array(name) for name in asks}

    def sample(self, ctx, hidden, params, rules=None):
        hidden = self._rows(hidden)
        ids, logprobs = np.empty(len(hidden), np.int32), np.empty(len(hidden), np.float32)
        ctx.check(lib.embed_sample(ctx, self, pointer(hidden, c_void_p), F32, len(hidden), 0, self._rules(rules), params, 1, pointer(ids, i32s),
                                   pointer(logprobs, f32s), None))
        return ids, logprobs


class Result(Handle):
    release = "embed_result_release"

    def array(self, name):
        """A copy of an answer, [n] or [n, columns]; None where it was not asked for."""
        rows, columns = c_int64(), c_int64()
        ask, kind = ASK[name]
        numbers = (lib.embed_result_f32 if kind is f32s else lib.embed_result_i32)(self, ask, rows, columns)
        if not numbers:
            return None
        shape = (rows.value,) if columns.value == 1 and not name.startswith("topk_") else (rows.value, columns.value)
        return np.ctypeslib.as_array(numbers, shape).copy()


class Rules(Handle):
    """Bans and history of one sequence."""

    release = "embed_rules_release"

    @classmethod
    def of(cls, ctx, vocab, banned=()):
        rules, banned = ctx.make(cls, "embed_rules_create", vocab), dense(banned, np.int32)
        ctx.check(lib.embed_rules_ban(ctx, rules, pointer(banned, i32s), banned.size))
        return rules


class File(Handle):
    release = "embed_file_release"

    @classmethod
    def open(cls, ctx, path):
        return ctx.make(cls, "embed_file_open", path.encode(), None)

    def table(self, ctx):
        return ctx.make(Table, "embed_file_table", self, -1)

    def token(self, i):
        return lib.embed_file_token(self, i, None)

    def token_id(self, ctx, token):
        i = c_int64(-1)
        ctx.check(lib.embed_file_token_id(ctx, self, token, len(token), i))
        return i.value


class Consumer(unittest.TestCase):
    def setUp(self):
        self.ctx = Context()
        self.table = Table.normal(self.ctx, 257, 24, seed=5)

    def refused(self, status, call, *arguments, **fields):
        with self.assertRaises(EmbedError) as caught:
            call(*arguments, **fields)
        self.assertEqual(caught.exception.status, status, caught.exception)
        return caught.exception

    def test_three_views_agree(self):
        ids = np.arange(64) * 37 % 257
        one_hot = np.eye(257, dtype=np.float32)[ids]
        want = self.table.lookup(Context(b"scalar"), ids)
        np.testing.assert_array_equal(self.table.lookup(self.ctx, ids), want)
        np.testing.assert_array_equal(self.table.mix(self.ctx, one_hot), want)
        self.assertGreater(np.abs(want).min(), 0)

    def test_the_tied_head_mirrors_the_table(self):
        head = Head.of(self.ctx, self.table)
        self.assertEqual(lib.embed_head_is_tied(head, self.table), 1)
        all_rows = self.table.lookup(self.ctx, np.arange(257))
        np.testing.assert_array_equal(head.logits(self.ctx, np.eye(24)), all_rows.T)
        hidden = np.random.default_rng(1).standard_normal((40, 24))
        ids, logits, sums = head.topk(self.ctx, hidden, 5)
        exact = hidden.astype(np.float32).astype(np.float64) @ all_rows.T.astype(np.float64)
        np.testing.assert_array_equal(ids, np.argsort(-exact, axis=1)[:, :5])
        np.testing.assert_allclose(logits, -np.sort(-exact, axis=1)[:, :5], rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(sums, np.log(np.exp(exact).sum(axis=1)), rtol=1e-5)

    def test_one_sweep_answers_several_questions(self):
        head = Head.of(self.ctx, self.table)
        hidden = np.random.default_rng(2).standard_normal((40, 24))
        exact = hidden.astype(np.float32).astype(np.float64) @ self.table.lookup(self.ctx, np.arange(257)).T.astype(np.float64)
        logprobs = exact - np.log(np.exp(exact).sum(axis=1))[:, None]
        order = np.argsort(-exact, axis=1)
        targets = order[np.arange(40), np.arange(40) * 6]
        said = head.sweep(self.ctx, hidden, ["topk_ids", "target_logprob", "target_rank", "entropy", "token", "token_logprob"], targets, k=4)
        np.testing.assert_array_equal(said["topk_ids"], order[:, :4])
        np.testing.assert_array_equal(said["target_rank"], 1 + np.arange(40) * 6)
        np.testing.assert_allclose(said["target_logprob"], logprobs[np.arange(40), targets], rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(said["entropy"], -(np.exp(logprobs) * logprobs).sum(axis=1), rtol=1e-4, atol=1e-5)
        np.testing.assert_array_equal(said["token"], order[:, 0])
        np.testing.assert_allclose(said["token_logprob"], logprobs.max(axis=1), rtol=1e-5, atol=1e-5)
        error = self.refused(E_ID, head.sweep, self.ctx, hidden, ["target_rank"], np.full(40, 257))
        self.assertEqual(error.at, 0)

    def test_rules_and_seeds_decide_what_is_drawn(self):
        head = Head.of(self.ctx, self.table)
        hidden = np.tile(np.random.default_rng(3).standard_normal(24), (300, 1))
        ids, logits, sums = head.topk(self.ctx, hidden[:1], 2)
        rules = Rules.of(self.ctx, 257, ids[0, :1])
        said = head.sweep(self.ctx, hidden[:2], ["token", "topk_ids"], rules=[rules, None], k=2)
        np.testing.assert_array_equal(said["token"], ids[0, ::-1])
        drawn = [head.sample(self.ctx, hidden[0], SampleParams(seed=9, position=i, temperature=2))[0][0] for i in range(300)]
        self.assertEqual(drawn, [head.sample(Context(), hidden[0], SampleParams(seed=9, position=i, temperature=2))[0][0] for i in range(300)])
        self.assertGreater(len(set(drawn)), 5)
        other = [head.sample(self.ctx, hidden[0], SampleParams(seed=9, position=i, temperature=2), [rules])[0][0] for i in range(300)]
        self.assertNotIn(ids[0, 0], other)
        self.refused(E_ID, Rules.of, self.ctx, 257, [257])
        self.refused(E_ARGUMENT, lambda: self.ctx.check(lib.embed_rules_pop(self.ctx, rules, 1)))

    def test_numpy_memory_is_a_table(self):
        array = np.arange(12, dtype=np.float32).reshape(4, 3)
        table = Table.view(self.ctx, array)
        np.testing.assert_array_equal(table.bag(self.ctx, [0, 1, 3], [0, 2, 2, 3], [1, 2, 3]),
                                      [array[0] + 2 * array[1], [0, 0, 0], 3 * array[3]])
        np.testing.assert_allclose(table.norms(self.ctx), np.linalg.norm(array, axis=1), rtol=1e-6)

    def test_a_wrong_id_says_where_and_writes_nothing(self):
        out = np.full((4, 24), -7, np.float32)
        error = self.refused(E_ID, self.table.lookup, self.ctx, [0, 1, 2, 50257], out)
        self.assertEqual(error.at, 3)
        self.assertIn("id 50257 at position 3", error.text)
        self.assertTrue((out == -7).all())
        self.table.lookup(self.ctx, [0, 1, 2, 50257], oov=OOV_HASH)
        self.assertEqual(lib.embed_replaced_ids(self.ctx), 1)

    def test_bad_input_is_an_exception(self):
        self.refused(E_OPTION, Context, b"no such level")
        self.refused(E_OPTION, self.table.lookup, self.ctx, [0], flags=1 << 30)
        self.refused(E_ARGUMENT, self.table.lookup, self.ctx, [0], np.empty(3, np.float32))
        self.refused(E_ARGUMENT, Table.view, self.ctx, np.empty((3, 0)))
        self.table.close()
        self.refused(E_ARGUMENT, self.table.lookup, self.ctx, [0], np.empty(0, np.float32))
        self.assertEqual(lib.embed_table_rows(None), E_ARGUMENT)

    def test_empty_arrays_are_no_errors(self):
        self.assertEqual(self.table.lookup(self.ctx, []).shape, (0, 24))
        self.assertEqual(Head.of(self.ctx, self.table).logits(self.ctx, np.empty((0, 24))).shape, (0, 257))

    def test_a_file_opens(self):
        file = File.open(self.ctx, sys.argv[2] + "/glove-2000x100.bin")
        table = file.table(self.ctx)
        king = table.lookup(self.ctx, file.token_id(self.ctx, b"king"))
        ids, logits, _ = Head.of(self.ctx, table).topk(self.ctx, king, 3)
        for i, logit in zip(ids[0], logits[0]):
            print(f"{file.token(i).decode()} {logit:.4f}")
        self.assertEqual([file.token(i) for i in ids[0]], [b"king", b"prince", b"queen"])
        self.refused(E_IO, File.open, self.ctx, "/no/such/file")
        with tempfile.NamedTemporaryFile(suffix=".npy") as broken:
            broken.write(b"\x93NUMPY\x01\x00 cut short")
            broken.flush()
            error = self.refused(-6, File.open, self.ctx, broken.name)
            self.assertGreaterEqual(error.at, 0)

    def test_declarations_are_those_of_the_headers(self):
        if len(sys.argv) < 4:
            self.skipTest("no list of the headers")
        kinds = {"int32_t": c_int32, "uint32_t": c_uint32, "int64_t": c_int64, "uint64_t": c_uint64, "float": c_float, "double": c_double, "void": None,
                 "char*": c_char_p, "int32_t*": i32s, "int64_t*": i64s, "float*": f32s}
        structs = {s.__name__: s for s in STRUCTS}
        functions, fields = {}, {}
        with open(sys.argv[3], encoding="utf-8") as listed:
            lines = [line.rstrip("\n").split("\t") for line in listed]
        kinds.update({line[1]: kinds[line[2]] for line in lines if line[0] == "alias"})

        def same(c, mine):
            c = re.sub("^const ", "", c)
            want = kinds.get(c, c_void_p)
            if c.endswith(("**", "*const*")):
                want = POINTER(c_void_p)
            elif c[:-1] in structs:
                want = POINTER(structs[c[:-1]])
            return mine is want or (mine is c_void_p and c.endswith("*"))

        for line in lines:
            if line[0] == "function":
                parameters = [p.rsplit(" ", 1)[0] for p in line[3].split("; ")] if len(line) > 3 and line[3] else []
                functions[line[1]] = [line[2], *parameters]
            elif line[0] == "field":
                fields.setdefault(line[1], []).append((line[2], line[3]))
        for name, mine in FUNCTIONS.items():
            self.assertEqual(len(mine), len(functions[name]), name)
            for c, m in zip(functions[name], mine):
                self.assertTrue(same(c, m), f"{name}: {c} is not {m}")
        for struct in STRUCTS:
            self.assertEqual([f[0] for f in struct._fields_], [f[0] for f in fields[struct.__name__]])
            for (name, c), (_, m) in zip(fields[struct.__name__], struct._fields_):
                self.assertTrue(same(c, m) or m is c_void_p, f"{struct.__name__}.{name}: {c} is not {m}")


if __name__ == "__main__":
    lib = load(sys.argv[1])
    unittest.main(argv=sys.argv[:1])
