"""Write text/: a classifier of short sentences in the layout of an exporter's folder, and tables of sentences.

    pip install numpy==2.4.6 onnx==1.23.2 scikit-learn==1.9.1
    python text.py

Tokens are words. A token has an embedding and a hidden state, which depends on its neighbours. The mean of the hidden
states over the mask goes through a tanh layer to the last layer. Templates make the sentences: four intents for training,
others in out.csv.
"""

import csv
import itertools
import json
import pathlib
import random

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from sklearn.decomposition import TruncatedSVD
from sklearn.neural_network import MLPClassifier

here = pathlib.Path(__file__).parent / "text"
rng = random.Random(1)

TEMPLATES = {
    "weather": ["{ask} the weather {when}", "will it {fall} {when}", "is it {warm} {where} {when}", "how {warm} is it {where}"],
    "alarm": ["wake me {when}", "set an alarm for {hour} {when}", "{ask} my alarm {when}", "cancel the alarm at {hour}"],
    "music": ["play {some} {song}", "play the {song} by {who}", "{ask} playing", "stop the {song} please"],
    "money": ["send {sum} dollars to {who}", "{ask} on my account", "pay {who} {sum} dollars {when}", "how much did i spend {when}"],
}
OTHERS = ["translate this letter to french", "how many bones has a shark", "book a table for {sum} {where}", "why do cats purr at {who}", "my {song} is broken and {who} laughs", "who wrote the long novel about whales {where}"]
WORDS = {
    "ask": ["what is", "tell me", "show me", "do you know"], "when": ["today", "tomorrow", "on monday", "tonight", "next week"], "fall": ["rain", "snow", "hail"],
    "warm": ["warm", "cold", "windy", "sunny"], "where": ["in paris", "in town", "outside", "here"], "hour": ["six", "seven", "noon", "eight thirty"],
    "some": ["some", "a", "my favourite", "another"], "song": ["song", "album", "tune", "record"], "who": ["anna", "my brother", "the band", "tom"],
    "sum": ["ten", "twenty", "five", "ninety"],
}


def sentence(template):
    return template.format(**{k: rng.choice(v) for k, v in WORDS.items()})


def table(name, rows):
    with open(here / name, "w", newline="") as f:
        csv.writer(f, lineterminator="\n").writerows([("text", "intent"), *rows])


names = sorted(TEMPLATES)
fit, test = ([(sentence(rng.choice(TEMPLATES[n])), n) for _ in range(k) for n in names] for k in (150, 50))
table("fit.csv", fit)
table("test.csv", test)
table("out.csv", [(sentence(rng.choice(OTHERS)), "other") for _ in range(150)])

known = sorted({w for text, _ in fit for w in text.split()})
vocab = {t: i for i, t in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", *known])}
special = [{"id": i, "content": t, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True} for t, i in itertools.islice(vocab.items(), 4)]
tokenizer = {
    "version": "1.0", "truncation": None, "padding": None, "added_tokens": special,
    "normalizer": {"type": "Lowercase"}, "pre_tokenizer": {"type": "Whitespace"},
    "post_processor": {"type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2]}, "decoder": None,
    "model": {"type": "WordLevel", "vocab": vocab, "unk_token": "[UNK]"},
}
(here / "tokenizer.json").write_text(json.dumps(tokenizer) + "\n")
(here / "tokenizer_config.json").write_text(json.dumps({"model_max_length": 32, "pad_token": "[PAD]"}) + "\n")
(here / "config.json").write_text(json.dumps({"model_type": "bag", "architectures": ["BagForSequenceClassification"], "id2label": dict(enumerate(names)), "max_position_embeddings": 32}) + "\n")


def counts(rows):
    x = np.zeros((len(rows), len(vocab)))
    for i, (text, _) in enumerate(rows):
        for w in ["[CLS]", *text.split(), "[SEP]"]:
            x[i, vocab[w]] += 1
    return x / x.sum(1, keepdims=True)


x, y = counts(fit), [names.index(n) for _, n in fit]
svd = TruncatedSVD(12, random_state=1).fit(x)
embedding = svd.components_.T * 10
mix = np.linalg.qr(np.random.default_rng(1).normal(size=(12, 12)))[0]
net = MLPClassifier((16,), activation="tanh", max_iter=2000, random_state=1).fit(x @ embedding @ mix, y)
print("right on test:", (net.predict(counts(test) @ embedding @ mix) == [names.index(n) for _, n in test]).mean())

weights = {"embedding": embedding, "mix": mix, "w0": net.coefs_[0], "b0": net.intercepts_[0], "w1": net.coefs_[1], "b1": net.intercepts_[1]}
nodes = [
    ("Gather", ["embedding", "input_ids"], "embedded"),
    ("MatMul", ["embedded", "mix"], "states"),
    ("Cast", ["attention_mask"], "mask", {"to": TensorProto.FLOAT}),
    ("Unsqueeze", ["mask", "last"], "column"),
    ("Mul", ["states", "column"], "counted"),
    ("ReduceSum", ["counted", "first"], "sum", {"keepdims": 0}),
    ("ReduceSum", ["column", "first"], "length", {"keepdims": 0}),
    ("Div", ["sum", "length"], "mean"),
    ("Gemm", ["mean", "w0", "b0"], "hidden"),
    ("Tanh", ["hidden"], "phi"),
    ("Gemm", ["phi", "w1", "b1"], "logits"),
]
graph = helper.make_graph(
    [helper.make_node(n[0], n[1], [n[2]], n[2], **(n[3] if len(n) > 3 else {})) for n in nodes], "bag",
    [helper.make_tensor_value_info(n, TensorProto.INT64, ["batch", "sequence"]) for n in ("input_ids", "attention_mask")],
    [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", 4])],
    [numpy_helper.from_array(v.astype(np.float32), k) for k, v in weights.items()]
    + [numpy_helper.from_array(np.array([2], np.int64), "last"), numpy_helper.from_array(np.array([1], np.int64), "first")],
)
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
onnx.checker.check_model(model)
onnx.save(model, here / "model.onnx")
