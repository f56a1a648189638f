# SPDX-License-Identifier: BSD-3-Clause
"""round_trip.py EMBED SOURCE.bin FOLDER: what `embed convert` writes of a word2vec file, read by the packages that people read such files
with. A line per package and format; exit status 1 when numbers or tokens differ."""
import importlib.metadata
import os
import subprocess
import sys
import warnings

import numpy

embed, source, folder = sys.argv[1:]
failures = 0


def version(package):
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def convert(out, *options, of=source):
    path = os.path.join(folder, out)
    subprocess.run([embed, "convert", of, path, *options], check=True, stdout=subprocess.DEVNULL)
    return path


def read_source():
    """word2vec's own format, read by this file alone."""
    with open(source, "rb") as f:
        rows, dim = map(int, f.readline().split())
        tokens, vectors = [], numpy.empty((rows, dim), "<f4")
        for r in range(rows):
            token = bytearray()
            while (byte := f.read(1)) != b" ":
                token += byte if byte != b"\n" else b""
            tokens.append(token.decode())
            vectors[r] = numpy.frombuffer(f.read(4 * dim), "<f4")
    return tokens, vectors


tokens, vectors = read_source()
half = vectors.astype("<f2")


def check(package, what, got, want=vectors, got_tokens=None):
    global failures
    got = numpy.asarray(got)
    same = got.dtype.itemsize == want.dtype.itemsize and got.shape == want.shape and got.tobytes() == numpy.ascontiguousarray(want).tobytes()
    if got_tokens is not None:
        same = same and list(got_tokens) == tokens
    failures += not same
    print(f"{'ok' if same else 'DIFFERS':8}{package} {version(package)}: {what}, {got.shape[0]} x {got.shape[1]}")


def with_numpy():
    check("numpy", "npy f32", numpy.load(convert("a.npy")))
    check("numpy", "npy f16", numpy.load(convert("h.npy", "--dtype", "f16")), half)
    check("numpy", "npz f32", numpy.load(convert("a.npz"))["vectors"])
    check("numpy", "npz f64, renamed", numpy.load(convert("d.npz", "--dtype", "f64", "--rename", "vectors=é"))["é"], vectors.astype("<f8"))


def with_safetensors():
    from safetensors.numpy import load_file
    check("safetensors", "f32", load_file(convert("a.safetensors"))["vectors"])
    check("safetensors", "f16", load_file(convert("h.safetensors", "--dtype", "f16"))["vectors"], half)


def with_gguf():
    from gguf import GGMLQuantizationType, GGUFReader
    from gguf.quants import dequantize
    for dtype in ("f32", "f16"):
        reader = GGUFReader(convert(f"{dtype}.gguf", "--dtype", dtype, "--rename", "vectors=token_embd.weight"))
        names = reader.fields["tokenizer.ggml.tokens"]
        words = [bytes(names.parts[i]).decode() for i in names.data]
        tensor, = reader.tensors
        assert tensor.name == "token_embd.weight" and list(tensor.shape) == [vectors.shape[1], vectors.shape[0]]
        check("gguf", dtype, tensor.data, vectors if dtype == "f32" else half, words)
    # Blocks of 32 and 256 columns: 100 become 2000 * 100 in rows of 32, 256 by way of an npy file.
    wide = numpy.resize(vectors, (700, 256))
    numpy.save(os.path.join(folder, "wide.npy"), wide)
    for dtype in ("q8_0", "q4_0", "q4_1", "q5_0", "q5_1", "q2_K", "q3_K", "q4_K", "q5_K", "q6_K", "iq4_nl", "iq4_xs", "mxfp4", "nvfp4", "bf16"):
        path = convert("blocks.gguf", "--dtype", dtype, of=os.path.join(folder, "wide.npy"))
        tensor, = GGUFReader(path).tensors
        assert tensor.tensor_type == GGMLQuantizationType[dtype.upper()]
        ours = numpy.load(convert("decoded.npy", "--dtype", "f32", of=path))
        theirs = dequantize(tensor.data, tensor.tensor_type)
        close = numpy.abs(theirs - ours).max() <= 1e-6 * numpy.abs(ours).max()
        check("gguf", f"{dtype}, its own decoder", ours if close else theirs[:1], ours)


def with_gensim():
    from gensim.models import KeyedVectors
    for out, binary in (("g.bin", True), ("g.vec", False)):
        kv = KeyedVectors.load_word2vec_format(convert(out), binary=binary)
        check("gensim", "word2vec binary" if binary else "word2vec text", kv.vectors, got_tokens=kv.index_to_key)


def with_finalfusion():
    import finalfusion
    e = finalfusion.load_finalfusion(convert("a.fifu"))
    check("finalfusion", "finalfusion", numpy.asarray(e.storage), got_tokens=e.vocab.words)
    row = e[tokens[654]]
    check("finalfusion", "one word's vector", row[None, :], vectors[654:655])


def with_model2vec():
    from model2vec import StaticModel
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    home = os.path.join(folder, "model2vec")
    os.makedirs(home, exist_ok=True)
    vocabulary = {token: i for i, token in enumerate(tokens)}
    Tokenizer(WordLevel(vocabulary, unk_token=tokens[0])).save(os.path.join(home, "tokenizer.json"))
    with open(os.path.join(home, "config.json"), "w", encoding="utf-8") as f:
        f.write('{"normalize": false}')
    for dtype, want in (("f32", vectors), ("f16", half)):
        convert("model2vec/model.safetensors", "--rename", "vectors=embeddings", "--dtype", dtype)
        model = StaticModel.from_pretrained(home)
        check("model2vec", f"a folder, {dtype}", model.embedding, want, model.tokens)


def same_field(a, b):
    return a.types == b.types and len(a.parts) == len(b.parts) and all(x.dtype == y.dtype and x.tobytes() == y.tobytes() for x, y in zip(a.parts, b.parts))


def with_gguf_of_its_own():
    """A file that gguf's writer made: every pair comes back as it was, whatever its kind."""
    from gguf import GGUFReader, GGUFWriter
    global failures
    path = os.path.join(folder, "theirs.gguf")
    w = GGUFWriter(path, "llama")
    w.add_block_count(3)
    w.add_embedding_length(vectors.shape[1])
    w.add_layer_norm_rms_eps(1e-5)
    w.add_rope_freq_base(10000.0)
    w.add_tokenizer_model("llama")
    w.add_token_list(tokens)
    w.add_token_scores([-float(i) for i in range(len(tokens))])
    w.add_token_types([1] * len(tokens))
    w.add_token_merges(["a b", "ab c"])
    w.add_bos_token_id(1)
    w.add_add_bos_token(False)
    w.add_tags(["one", "two"])
    w.add_uint64("llama.wide", 1 << 40)
    w.add_array("llama.of_layers", [1, 2, 3])
    w.add_tensor("token_embd.weight", vectors)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()
    theirs, ours = GGUFReader(path), GGUFReader(convert("ours.gguf", of=path))
    fields = [name for name in theirs.fields if not name.startswith("GGUF.")]
    same = sum(name in ours.fields and same_field(theirs.fields[name], ours.fields[name]) for name in fields)
    failures += same != len(fields)
    print(f"{'ok' if same == len(fields) else 'DIFFERS':8}gguf {version('gguf')}: {same} of {len(fields)} pairs of a file of its own writer's")
    check("gguf", "the table of that file", ours.tensors[0].data)


for reader, needs in ((with_numpy, "numpy"), (with_safetensors, "safetensors"), (with_gguf, "gguf"), (with_gguf_of_its_own, "gguf"), (with_gensim, "gensim"),
                      (with_finalfusion, "finalfusion"), (with_model2vec, "model2vec")):
    if not version(needs):
        print(f"skipped {needs}: it is not installed")
        continue
    warnings.simplefilter("ignore")
    reader()
sys.exit(failures != 0)
