# SPDX-License-Identifier: BSD-3-Clause
"""answers.py REAL_MODELS_JSON MODEL: the frozen answers of one model, a line each, for models_test.c."""
import json
import sys

model = json.load(open(sys.argv[1], encoding="utf-8"))[sys.argv[2]]
table = model["table"]
tensors = model["tensors"]
if isinstance(tensors, dict):
    tensors = [dict(value, name=name) for name, value in tensors.items()]
offset, = (t["offset_in_file"] for t in tensors if t["name"] in ("token_embd.weight", "embeddings.word_embeddings.weight"))
print("table", table["rows"], table["dim"], offset, repr(table["sum"]), repr(table["sumsq"]))
for row, values in table["sample_rows"].items():
    print("row", row, *values["bits"])
for query in table["nearest_by_cosine"]:
    print("near", query["id"], *(n[0] for n in query["neighbours"]), *(n[2] for n in query["neighbours"]))
sine = table["head_sin"]
print("sine", sine["logsumexp"], *(n[0] for n in sine["top10"]), *(n[2] for n in sine["top10"]))
for at in model.get("golden", {}).get("exact", {}).get("positions", []):
    print("state", at["pos"], at["logsumexp"], *(n[0] for n in at["top10"]), *(n[2] for n in at["top10"]))
    print("next", at["pos"], at["next"], -at["nll_next"], at["rank_next"])
for at in model.get("golden", {}).get("llama_cpp", {}).get("positions", []):
    print("llama", at["pos"], *(n[0] for n in at["top10"]), *(n[2] for n in at["top10"]))
bert = model.get("bert_embedding", {"ids": []})
for k, token in enumerate(bert["ids"]):
    print("input", k, token, *bert["row_first4"][str(k)])
