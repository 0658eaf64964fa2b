"""Writes models as their exporters write them, and rows as their users have them.

    write.py ZOO DATA torch|dynamo|optimum|keras|sklearn|lightgbm|xgboost|catboost ...

ZOO/NAME becomes one model with its rows, and ZOO/NAME/entry.json says what table.py runs
on it and what the model's own framework answers to each row of the test. DATA is a folder
with california.csv, abalone.csv and clinc150/. Nothing else is fetched: transformers are
built from configurations and trained for seconds. Some minutes on two cores in all.

Kinds want environments of their own. It ran with Python 3.11 and
    torch                      PyTorch 1.13.0, onnx 1.16.2, scikit-learn 1.2.1
    dynamo                     PyTorch 2.15.0, onnx 1.23.2, onnxscript 0.7.2, scikit-learn 1.9.1
    optimum                    optimum 1.8.8, transformers 4.30.2, PyTorch 1.13.0, onnx 1.16.2, onnxruntime 1.19.2,
                               pyarrow 17.0.0, NumPy 1.26.4, scikit-learn 1.2.1
    keras                      Keras 3.15.1, TensorFlow 2.21.0, tf2onnx 1.17.0, onnx 1.23.2, scikit-learn 1.9.1
    sklearn, lightgbm,         scikit-learn 1.9.1, skl2onnx 1.20.0, onnxmltools 1.16.0, LightGBM 4.7.0, XGBoost 3.2.0,
    xgboost, catboost          CatBoost 1.2.10, onnx 1.17.0, NumPy 2.4.6, pandas 3.1.1
"""
import csv
import json
import os
import shutil
import sys
import warnings

import numpy as np

warnings.filterwarnings("ignore")
zoo, data = None, None


def entry(name, exporter, what, fit, test, out, answers, model="model.onnx", flags=()):
    """Names of files lie in ZOO/NAME; answers are classes or predictions of the test rows."""
    answers = np.asarray(answers)
    with open(os.path.join(zoo, name, "entry.json"), "w") as f:
        json.dump({"exporter": exporter, "what": what, "model": model, "fit": fit, "test": test,
                   "out": out, "flags": list(flags), "answers": answers.tolist()}, f)
    print(name, flush=True)


def folder(name):
    path = os.path.join(zoo, name)
    shutil.rmtree(path, ignore_errors=True)
    os.makedirs(path)
    return path


def table(path, columns):
    """Writes a CSV file, JSON lines or Parquet, by the name's end, of columns by name."""
    rows = list(zip(*columns.values()))
    plain = lambda v: float(str(v)) if isinstance(v, np.float32) else v.item() if isinstance(v, np.generic) else v
    rows = [[plain(v) for v in r] for r in rows]
    if path.endswith(".jsonl"):
        with open(path, "w") as f:
            f.writelines(json.dumps(dict(zip(columns, r))) + "\n" for r in rows)
    elif path.endswith(".parquet"):
        import pyarrow as pa
        import pyarrow.parquet as pq
        pq.write_table(pa.table({k: [r[i] for r in rows] for i, k in enumerate(columns)}), path)
    else:
        with open(path, "w", newline="") as f:
            w = csv.writer(f)
            w.writerow(columns)
            w.writerows(rows)


def read(path):
    with open(os.path.join(data, path)) as f:
        return list(csv.DictReader(f))


def parts(n, seed=0):
    order = np.random.default_rng(seed).permutation(n)
    return order[:n // 2], order[n // 2:3 * n // 4], order[3 * n // 4:]


def strange(x, seed=1):
    """Rows whose columns do not belong together, and lie further out."""
    rng = np.random.default_rng(seed)
    x = np.stack([rng.permutation(c) for c in x.T], 1)
    return x + rng.normal(size=x.shape).astype(x.dtype) * 2 * x.std(0)


def california():
    rows = read("california.csv")[:4000]
    names = list(rows[0])[:-1]
    x = np.array([[r[k] for k in names] for r in rows], np.float32)
    return names, x, np.array([r["MedHouseVal"] for r in rows], np.float32)


def abalone(n=2000):
    with open(os.path.join(data, "abalone.csv")) as f:
        rows = list(csv.reader(f))[:n]
    names = ["length", "diameter", "height", "whole", "shucked", "viscera", "shell"]
    return (np.array([r[0] for r in rows]), names, np.array([r[1:8] for r in rows], np.float32),
            np.array([r[8] for r in rows], np.float32))


def bunch(name):
    import sklearn.datasets as d
    b = getattr(d, "load_" + name)()
    names = [str(n).replace(" ", "_").replace("/", "_per_") for n in b.feature_names]
    return names, b.data.astype(np.float32), b.target, getattr(b, "target_names", None)


def write_tables(path, names, x, y, calib, test, target="target"):
    table(path + "/fit.csv", dict(zip(names, x[calib].T)) | {target: y[calib]})
    table(path + "/test.csv", dict(zip(names, x[test].T)) | {target: y[test]})
    table(path + "/out.csv", dict(zip(names, strange(x[test]).T)))


CSV = dict(fit="fit.csv", test="test.csv", out="out.csv")
NPZ = dict(fit="fit.npz", test="test.npz", out="out.npz")


# ---- PyTorch

def learn(net, loss, batches, lr=3e-3):
    import torch
    o = torch.optim.Adam(net.parameters(), lr)
    net.train()
    for x, y in batches:
        o.zero_grad()
        loss(net(*x), y).backward()
        o.step()
    return net.eval()


def batches(x, y, epochs, size=64, seed=0):
    import torch
    rng = np.random.default_rng(seed)
    for _ in range(epochs):
        for i in np.array_split(rng.permutation(len(y)), max(1, len(y) // size)):
            yield [torch.from_numpy(a[i]) for a in x], torch.from_numpy(y[i])


def torch_models(exporter="torch"):
    import torch
    from torch import nn
    import torch.nn.functional as F
    torch.manual_seed(0)
    torch.set_num_threads(1)
    old = exporter == "torch"
    label = "torch" if old else "torch (dynamo)"

    def export(net, path, args, inputs, outputs, opset=17):
        axes = {k: {0: "n"} for k in inputs + outputs}
        if old:
            torch.onnx.export(net, args, path + "/model.onnx", input_names=inputs,
                              output_names=outputs, dynamic_axes=axes, opset_version=opset)
        else:
            n = torch.export.Dim("n")
            torch.onnx.export(net, args, path + "/model.onnx", input_names=inputs, dynamo=True,
                              output_names=outputs, dynamic_shapes=[{0: n} for _ in args])

    def run(net, *x):
        with torch.no_grad():
            return net(*[torch.from_numpy(a) for a in x]).float().numpy()

    _, x, y, _ = bunch("digits")
    x = (x / 16).reshape(-1, 1, 8, 8)
    train, calib, test = parts(len(y))
    dark = (1 - x[test][:, :, ::-1]).copy()

    class Block(nn.Module):
        def __init__(self, a, b, stride):
            super().__init__()
            self.a, self.b = nn.Conv2d(a, b, 3, stride, 1, bias=False), nn.Conv2d(b, b, 3, 1, 1, bias=False)
            self.na, self.nb = nn.BatchNorm2d(b), nn.BatchNorm2d(b)
            self.skip = nn.Conv2d(a, b, 1, stride)

        def forward(self, x):
            return F.relu(self.skip(x) + self.nb(self.b(F.relu(self.na(self.a(x))))))

    net = nn.Sequential(Block(1, 16, 1), Block(16, 32, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10))
    learn(net, F.cross_entropy, batches([x[train]], y[train], 12))
    path = folder(exporter + "_resnet")
    export(net, path, (torch.zeros(2, 1, 8, 8),), ["image"], ["logits"])
    np.savez(path + "/fit.npz", x=x[calib], y=y[calib])
    np.savez(path + "/test.npz", x=x[test], y=y[test])
    np.savez(path + "/out.npz", x=dark)
    entry(exporter + "_resnet", label, "residual network, images", **NPZ, answers=run(net, x[test]).argmax(1))

    class Both(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Sequential(nn.Conv2d(1, 16, 3, 2, 1), nn.ReLU(), nn.Conv2d(16, 32, 3, 2, 1), nn.ReLU())
            self.side = nn.Linear(2, 16)
            self.last = nn.Linear(48, 10)

        def forward(self, image, side):
            return self.last(torch.cat([self.conv(image).mean((2, 3)), F.relu(self.side(side))], 1))

    side = np.stack([x.mean((1, 2, 3)), x[:, 0, :, :4].mean((1, 2))], 1)
    net = learn(Both(), F.cross_entropy, batches([x[train], side[train]], y[train], 12))
    path = folder(exporter + "_image_columns")
    export(net, path, (torch.zeros(2, 1, 8, 8), torch.zeros(2, 2)), ["image", "side"], ["logits"])
    np.savez(path + "/fit.npz", image=x[calib], side=side[calib], y=y[calib])
    np.savez(path + "/test.npz", image=x[test], side=side[test], y=y[test])
    np.savez(path + "/out.npz", image=dark, side=1 - side[test])
    entry(exporter + "_image_columns", label, "image and columns, two inputs", **NPZ,
          answers=run(net, x[test], side[test]).argmax(1))

    names, x, y = california()
    train, calib, test = parts(len(y))

    class Normal(nn.Module):
        def __init__(self, x):
            super().__init__()
            self.mean, self.std = nn.Parameter(torch.tensor(x.mean(0)), False), nn.Parameter(torch.tensor(x.std(0)), False)

        def forward(self, x):
            return (x - self.mean) / self.std

    net = nn.Sequential(Normal(x[train]), nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))
    learn(net, lambda a, b: F.mse_loss(a[:, 0], b), batches([x[train]], y[train], 20))
    path = folder(exporter + "_regressor")
    export(net, path, (torch.zeros(2, 8),), ["x"], ["y"], opset=9)
    write_tables(path, names, x, y, calib, test, "MedHouseVal")
    entry(exporter + "_regressor", label, "MLP regressor, opset %s" % (9 if old else 18), **CSV,
          answers=run(net, x[test])[:, 0], flags=["--target", "MedHouseVal"])

    sex, names, x, y = abalone()
    kind = np.searchsorted(["F", "I", "M"], sex)
    train, calib, test = parts(len(y))

    class Three(nn.Module):
        def __init__(self):
            super().__init__()
            self.sex = nn.Embedding(3, 4)
            self.hidden, self.last = nn.Linear(11, 32), nn.Linear(32, 1)

        def forward(self, sex, sizes, weights):
            return self.last(F.relu(self.hidden(torch.cat([self.sex(sex), sizes, weights], 1))))

    net = learn(Three(), lambda a, b: F.mse_loss(a[:, 0], b),
                batches([kind[train], x[train, :3], x[train, 3:]], y[train], 30), 1e-2)
    path = folder(exporter + "_embedding")
    export(net, path, (torch.zeros(2, dtype=torch.int64), torch.zeros(2, 3), torch.zeros(2, 4)),
           ["sex", "sizes", "weights"], ["rings"])
    write_tables(path, ["sex"] + names, np.concatenate([kind[:, None], x], 1), y, calib, test, "rings")
    o = strange(x[test])
    table(path + "/out.csv", {"sex": kind[test]} | dict(zip(names, o.T)))
    entry(exporter + "_embedding", label, "regressor, three inputs (int64 n, n×3, n×4) of one table", **CSV,
          answers=run(net, kind[test], x[test, :3], x[test, 3:])[:, 0], flags=["--target", "rings"])

    names, x, y, _ = bunch("breast_cancer")
    train, calib, test = parts(len(y))
    net = nn.Sequential(Normal(x[train]), nn.Linear(30, 32), nn.ReLU(), nn.Linear(32, 2))
    learn(net, F.cross_entropy, batches([x[train]], y[train], 30))
    path = folder(exporter + "_float16")
    if old:
        import onnx
        export(net, path, (torch.zeros(2, 30),), ["x"], ["logits"])
        half(path + "/model.onnx")
        answers = run(net, x[test]).argmax(1)
    else:
        net = net.half()
        export(net, path, (torch.zeros(2, 30, dtype=torch.float16),), ["x"], ["logits"])
        answers = run(net, x[test].astype(np.float16)).argmax(1)
    write_tables(path, names, x, y, calib, test, "benign")
    entry(exporter + "_float16", label, "MLP, float16", **CSV, answers=answers, flags=["--target", "benign"])

    walks, y = [], np.arange(1200) % 3
    rng = np.random.default_rng(0)
    for c in y:
        t = np.arange(24)[:, None] * (.2 + .2 * c)
        walks.append(np.concatenate([np.sin(t), np.cos(t)], 1) + .3 * rng.normal(size=(24, 2)))
    x = np.array(walks, np.float32)
    train, calib, test = parts(len(y))

    class Recurrent(nn.Module):
        def __init__(self):
            super().__init__()
            self.gru, self.last = nn.GRU(2, 24, batch_first=True), nn.Linear(24, 3)

        def forward(self, x):
            return self.last(self.gru(x)[0][:, -1])

    net = learn(Recurrent(), F.cross_entropy, batches([x[train]], y[train], 8), 1e-2)
    path = folder(exporter + "_gru")
    if old:
        torch.onnx.export(net, (torch.zeros(2, 24, 2),), path + "/model.onnx", input_names=["series"],
                          output_names=["logits"], dynamic_axes={"series": {0: "n", 1: "t"}, "logits": {0: "n"}})
    else:
        export(net, path, (torch.zeros(2, 24, 2),), ["series"], ["logits"])
    np.savez(path + "/fit.npz", x=x[calib], y=y[calib])
    np.savez(path + "/test.npz", x=x[test], y=y[test])
    np.savez(path + "/out.npz", x=rng.permuted(x[test], axis=1))
    entry(exporter + "_gru", label, "GRU over series, dynamic length", **NPZ, answers=run(net, x[test]).argmax(1))


def half(path):
    """What onnxconverter_common.float16 does to a chain of Gemm: weights and inputs in half precision."""
    import onnx
    from onnx import TensorProto, numpy_helper
    m = onnx.load(path)
    for t in m.graph.initializer:
        if t.data_type == TensorProto.FLOAT:
            t.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(t).astype(np.float16), t.name))
    for v in list(m.graph.input) + list(m.graph.output) + list(m.graph.value_info):
        v.type.tensor_type.elem_type = TensorProto.FLOAT16
    onnx.save(m, path)


def dynamo_models():
    torch_models("dynamo")


# ---- transformers, exported by optimum

def optimum_models():
    import torch
    import transformers as t
    from optimum.exporters.onnx import main_export
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
    torch.manual_seed(0)
    torch.set_num_threads(1)
    t.logging.set_verbosity_error()
    rows = {k: read("clinc150/%s.csv" % k) for k in ("train", "val", "test", "oos_test")}
    intents = sorted({r["intent"] for r in rows["train"]})[::5][:20]
    rows = {k: [(r["text"], r["intent"]) for r in v if r["intent"] in intents or k == "oos_test"] for k, v in rows.items()}
    small = dict(hidden_size=64, num_hidden_layers=2, num_attention_heads=2, intermediate_size=128,
                 max_position_embeddings=66)
    names = dict(id2label=dict(enumerate(intents)), label2id={v: i for i, v in enumerate(intents)})

    def tokenizer(kind):
        texts = [a for a, _ in rows["train"]]
        if kind == "wordpiece":
            k = Tokenizer(models.WordPiece(unk_token="[UNK]"))
            k.normalizer, k.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
            k.train_from_iterator(texts, trainers.WordPieceTrainer(
                vocab_size=1500, special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"], show_progress=False))
            k.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
            return t.BertTokenizerFast(tokenizer_object=k, model_max_length=64)
        s = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
        if kind == "bpe":
            k = Tokenizer(models.BPE())
            k.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
            k.train_from_iterator(texts, trainers.BpeTrainer(
                vocab_size=1500, special_tokens=s, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
            k.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
            return t.RobertaTokenizerFast(tokenizer_object=k, model_max_length=64)
        k = Tokenizer(models.Unigram())
        k.normalizer, k.pre_tokenizer = normalizers.NFKC(), pre_tokenizers.Metaspace()
        k.train_from_iterator(texts, trainers.UnigramTrainer(
            vocab_size=1500, special_tokens=s, unk_token="<unk>", show_progress=False))
        k.post_processor = processors.TemplateProcessing(
            single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 2)])
        return t.XLMRobertaTokenizerFast(tokenizer_object=k, model_max_length=64)

    def train(net, k, first, second, y, epochs=6, lr=2e-3):
        o = torch.optim.AdamW(net.parameters(), lr)
        rng = np.random.default_rng(0)
        net.train()
        for _ in range(epochs):
            for i in np.array_split(rng.permutation(len(first)), len(first) // 32):
                e = k([first[j] for j in i], second and [second[j] for j in i], padding=True, truncation=True, return_tensors="pt")
                o.zero_grad()
                net(**e, labels=torch.tensor(y[i])).loss.backward()
                o.step()
        return net.eval()

    def run(net, k, first, second=None):
        with torch.no_grad():
            return np.concatenate([net(**k([a], second and [second[i]], truncation=True, return_tensors="pt"))[0].numpy()
                                   for i, a in enumerate(first)])

    def save(name, net, k, task):
        path = folder(name)
        net.save_pretrained(path + "/torch")
        k.save_pretrained(path + "/torch")
        main_export(path + "/torch", path + "/model", task=task)
        shutil.rmtree(path + "/torch")
        return path

    def texts(path, ending, columns):
        for k, part in (("fit", "val"), ("test", "test"), ("out", "oos_test")):
            table("%s/%s.%s" % (path, k, ending), columns(rows[part][:400], part))
        return {k: "%s.%s" % (k, ending) for k in ("fit", "test", "out")}

    def plain(r, part):
        c = {"text": [a for a, _ in r]}
        return c if part == "oos_test" else c | {"intent": [b for _, b in r]}

    # The fit rows of 20 intents are the validation set's, 20 an intent.
    classifiers = [
        ("bert", "wordpiece", t.BertConfig, t.BertForSequenceClassification, "csv", small),
        ("distilbert", "wordpiece", t.DistilBertConfig, t.DistilBertForSequenceClassification, "jsonl",
         dict(dim=64, n_layers=2, n_heads=2, hidden_dim=128, max_position_embeddings=66)),
        ("roberta", "bpe", t.RobertaConfig, t.RobertaForSequenceClassification, "parquet", small | dict(pad_token_id=1, type_vocab_size=1)),
        ("xlm_roberta", "unigram", t.XLMRobertaConfig, t.XLMRobertaForSequenceClassification, "csv",
         small | dict(pad_token_id=1, type_vocab_size=1)),
    ]
    first, y = [a for a, _ in rows["train"]], np.array([intents.index(b) for _, b in rows["train"]])
    test = [a for a, _ in rows["test"]][:400]
    for name, kind, config, cls, ending, size in classifiers:
        k = tokenizer(kind)
        if name == "distilbert":
            k.model_input_names = ["input_ids", "attention_mask"]
        net = train(cls(config(vocab_size=len(k), **size, **names)), k, first, None, y)
        path = save("optimum_" + name, net, k, "text-classification")
        answers = run(net, k, test).argmax(1)
        files = texts(path, ending, plain)
        entry("optimum_" + name, "optimum", "%s classifier, texts in %s" % (cls.__name__[:-len("ForSequenceClassification")],
              {"csv": "CSV", "jsonl": "JSON lines", "parquet": "Parquet"}[ending]), model="model", **files,
              answers=answers, flags=["--target", "intent"])
        if name != "bert":
            continue
        path = folder("optimum_arrays")
        shutil.copy(os.path.join(zoo, "optimum_bert/model/model.onnx"), path)
        for f, part in (("fit", "val"), ("test", "test"), ("out", "oos_test")):
            e = dict(k([a for a, _ in rows[part]][:400], padding="max_length", max_length=48, truncation=True, return_tensors="np"))
            if part != "oos_test":
                e["labels"] = np.array([intents.index(b) for _, b in rows[part]][:400])
            np.savez("%s/%s.npz" % (path, f), **e)
        entry("optimum_arrays", "optimum", "Bert classifier, numpy.savez(input_ids=…, …)", **NPZ, answers=answers)
        from onnxruntime.quantization import quantize_dynamic
        path = folder("optimum_int8")
        shutil.copytree(os.path.join(zoo, "optimum_bert/model"), path + "/model")
        os.remove(path + "/model/model.onnx")
        quantize_dynamic(os.path.join(zoo, "optimum_bert/model/model.onnx"), path + "/model/model_quantized.onnx")
        import onnxruntime as ort
        s = ort.InferenceSession(path + "/model/model_quantized.onnx")
        answers = np.array([s.run(None, dict(k([a], return_tensors="np")))[0][0].argmax() for a in test])
        entry("optimum_int8", "optimum", "Bert classifier, dynamic int8", model="model", **texts(path, "csv", plain),
              answers=answers, flags=["--target", "intent"])

    # Pairs: do two requests have the same intent?
    def pairs(r, seed):
        rng = np.random.default_rng(seed)
        a = rng.permutation(len(r))
        b = np.array([rng.choice([j for j in range(len(r)) if (r[j][1] == r[i][1]) == (n % 2 == 0)] or len(r)) for n, i in enumerate(a)])
        return [r[i][0] for i in a], [r[i][0] for i in b], (np.arange(len(r)) + 1) % 2
    k = tokenizer("wordpiece")
    net = t.BertForSequenceClassification(t.BertConfig(vocab_size=len(k), **small, num_labels=2))
    a, b, y2 = pairs(rows["train"], 0)
    train(net, k, a, b, y2, 4)
    path = save("optimum_pairs", net, k, "text-classification")
    kept = {}

    def both(r, part):
        a, b, y = kept[part] = pairs(r, 1)
        return {"first": a, "second": b} | ({} if part == "oos_test" else {"same": y})
    texts(path, "csv", both)
    entry("optimum_pairs", "optimum", "Bert classifier of pairs", model="model", **CSV,
          answers=run(net, k, kept["test"][0], kept["test"][1]).argmax(1), flags=["--target", "same", "--text", "first,second"])

    net = t.BertForSequenceClassification(t.BertConfig(vocab_size=len(k), **small, num_labels=1))
    words = {p: [len(a.split()) / 4 for a, _ in r] for p, r in rows.items()}
    train(net, k, first, None, np.array(words["train"], np.float32), 3)
    path = save("optimum_regressor", net, k, "text-classification")
    files = texts(path, "csv", lambda r, part: {"text": [a for a, _ in r]} | ({} if part == "oos_test" else {"length": words[part][:400]}))
    entry("optimum_regressor", "optimum", "Bert regressor (num_labels 1)", model="model", **files,
          answers=run(net, k, test)[:, 0], flags=["--target", "length"])

    full = t.BertForSequenceClassification(t.BertConfig(vocab_size=len(k), **small, **names))
    train(full, k, first, None, y, 4)
    path = save("optimum_embedding", full.bert.eval(), k, "feature-extraction")
    for f, part in (("fit", "val"), ("test", "test"), ("out", "oos_test")):
        with open("%s/%s.txt" % (path, f), "w") as o:
            o.writelines(a + "\n" for a, _ in rows[part][:400])
    entry("optimum_embedding", "optimum", "Bert without a head, plain lines", model="model", fit="fit.txt", test="test.txt",
          out="out.txt", answers=[])

    # Images, from folders and with a preprocessor_config.json.
    from PIL import Image
    _, x, y, _ = bunch("digits")
    image = lambda a: Image.fromarray((a.reshape(8, 8) * 15.9).astype(np.uint8)).resize((20, 20)).convert("RGB")
    learnt, calib, tested = parts(len(y))
    p = t.ViTImageProcessor(size={"height": 16, "width": 16}, image_mean=[.5] * 3, image_std=[.5] * 3)
    digits = dict(id2label={i: "digit %d" % i for i in range(10)}, label2id={"digit %d" % i: i for i in range(10)})
    for name, what, net, processor in (
        ("vit", "ViT", t.ViTForImageClassification(t.ViTConfig(
            hidden_size=48, num_hidden_layers=2, num_attention_heads=2, intermediate_size=96, image_size=16, patch_size=4, **digits)), p),
        ("convnext", "ConvNeXt", t.ConvNextForImageClassification(t.ConvNextConfig(
            patch_size=2, hidden_sizes=[16, 32, 32, 48], depths=[1, 1, 1, 1], **digits)), p),
    ):
        e = processor([image(a) for a in x], return_tensors="pt")["pixel_values"]
        o = torch.optim.AdamW(net.parameters(), 2e-3)
        rng = np.random.default_rng(0)
        net.train()
        for _ in range(12):
            for i in np.array_split(rng.permutation(learnt), 25):
                o.zero_grad()
                net(pixel_values=e[i], labels=torch.tensor(y[i])).loss.backward()
                o.step()
        path = save("optimum_" + name, net.eval(), processor, "image-classification")
        for f, i in (("fit", calib), ("test", tested), ("out", tested)):
            for j in i:
                d = "%s/%s/%s" % (path, f, "" if f == "out" else "digit %d" % y[j])
                os.makedirs(d, exist_ok=True)
                image(x[j] if f != "out" else 16 - x[j][::-1]).save("%s/%04d.png" % (d, j))
        with torch.no_grad():
            answers = net(pixel_values=e[tested])[0].argmax(1).numpy()
        # Images of a folder are read in the order of their paths.
        order = np.argsort(["digit %d/%04d.png" % (y[j], j) for j in tested])
        entry("optimum_" + name, "optimum", what + " classifier, folders of images", model="model", fit="fit", test="test",
              out="out", answers=answers[order], flags=["--folder-labels"])


# ---- Keras, converted by tf2onnx

def keras_models():
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    import keras
    from keras import layers as k
    keras.utils.set_random_seed(0)

    def export(net, path):
        net.export(path + "/model.onnx", format="onnx", verbose=False)

    _, x, y, _ = bunch("digits")
    x = (x / 16).reshape(-1, 8, 8, 1)
    train, calib, test = parts(len(y))
    i = keras.Input((8, 8, 1), name="image")
    h = k.Conv2D(16, 3, padding="same", activation="relu")(i)
    h = k.BatchNormalization()(k.Conv2D(32, 3, 2, padding="same", activation="relu")(h))
    net = keras.Model(i, k.Dense(10, activation="softmax")(k.GlobalAveragePooling2D()(k.Conv2D(48, 3, activation="relu")(h))))
    net.compile("adam", "sparse_categorical_crossentropy")
    net.fit(x[train], y[train], epochs=25, verbose=0)
    path = folder("keras_conv")
    export(net, path)
    np.savez(path + "/fit.npz", x=x[calib], y=y[calib])
    np.savez(path + "/test.npz", x=x[test], y=y[test])
    np.savez(path + "/out.npz", x=1 - x[test][:, ::-1])
    entry("keras_conv", "tf2onnx", "convolutions, NHWC, softmax at the end", **NPZ, answers=net.predict(x[test], verbose=0).argmax(1))

    names, x, y, _ = bunch("wine")
    train, calib, test = parts(len(y))
    a, b = keras.Input((6,), name="left"), keras.Input((7,), name="right")
    # tf2onnx turns what Normalization has learnt into inputs of the model, so BatchNormalization.
    h = k.Concatenate()([k.Dense(16, activation="relu")(k.BatchNormalization()(i)) for i in (a, b)])
    net = keras.Model([a, b], k.Dense(3)(k.Dense(16, activation="relu")(h)))
    net.compile("adam", keras.losses.SparseCategoricalCrossentropy(True))
    net.fit([x[train, :6], x[train, 6:]], y[train], epochs=150, verbose=0)
    path = folder("keras_two_inputs")
    export(net, path)
    for f, i in (("fit", calib), ("test", test)):
        np.savez("%s/%s.npz" % (path, f), left=x[i, :6], right=x[i, 6:], y=y[i])
    o = strange(x[test])
    np.savez(path + "/out.npz", left=o[:, :6], right=o[:, 6:])
    entry("keras_two_inputs", "tf2onnx", "functional, two inputs", **NPZ,
          answers=net.predict([x[test, :6], x[test, 6:]], verbose=0).argmax(1))

    names, x, y = california()
    train, calib, test = parts(len(y))
    inputs = [keras.Input((1,), name=n) for n in names]
    h = k.Dense(64, activation="relu")(k.BatchNormalization()(k.Concatenate()(inputs)))
    net = keras.Model(inputs, k.Dense(1)(k.Dense(64, activation="relu")(h)))
    net.compile("adam", "mse")
    net.fit([x[train, j:j + 1] for j in range(8)], y[train], epochs=15, verbose=0)
    path = folder("keras_columns")
    export(net, path)
    write_tables(path, names, x, y, calib, test, "MedHouseVal")
    entry("keras_columns", "tf2onnx", "regressor, one input a column", **CSV,
          answers=net.predict([x[test, j:j + 1] for j in range(8)], verbose=0)[:, 0], flags=["--target", "MedHouseVal"])


# ---- scikit-learn and its like

def to_onnx(model, x, path, **kw):
    from skl2onnx import to_onnx
    with open(path + "/model.onnx", "wb") as f:
        f.write(to_onnx(model, x, **kw).SerializeToString())


def tabular(prefix, exporter, models, convert):
    """Fits every model on a third of its data and writes it with the rows of the others."""
    for name, what, model, (names, x, y, labels) in models:
        train, calib, test = parts(len(y))
        model.fit(x[train], y[train])
        path = folder(prefix + "_" + name)
        convert(model, x[:1], path)
        target = "target"
        answers = np.asarray(model.predict(x[test])).ravel()
        write_tables(path, names, x, y, calib, test, target)
        entry(prefix + "_" + name, exporter, what, **CSV, answers=answers, flags=["--target", target])


def california4():
    return california() + (None,)


def named(name):
    """Targets as the names of their classes, as a column of a table has them."""
    names, x, y, labels = bunch(name)
    return names, x, np.array([str(labels[i]) for i in y]), labels


def sklearn_models():
    import sklearn.ensemble as e
    import sklearn.linear_model as lin
    from sklearn.compose import ColumnTransformer
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.impute import SimpleImputer
    from sklearn.naive_bayes import GaussianNB
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.neural_network import MLPClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler
    from sklearn.svm import SVC, SVR
    from sklearn.tree import DecisionTreeClassifier
    wine, cancer, digits, diabetes = bunch("wine"), bunch("breast_cancer"), bunch("digits"), bunch("diabetes")
    tabular("sklearn", "skl2onnx", [
        ("logistic", "scaler and logistic regression, ZipMap, classes by name",
         make_pipeline(StandardScaler(), lin.LogisticRegression(max_iter=500)), named("wine")),
        ("logistic_binary", "logistic regression of two classes, ZipMap", lin.LogisticRegression(max_iter=5000), cancer),
        ("forest", "random forest classifier, ZipMap", e.RandomForestClassifier(30, max_depth=10, random_state=0), digits),
        ("boosting", "gradient boosting classifier, ZipMap", e.GradientBoostingClassifier(n_estimators=30, random_state=0), wine),
        ("hist_boosting", "histogram boosting classifier, ZipMap", e.HistGradientBoostingClassifier(max_iter=30, random_state=0), cancer),
        ("tree", "decision tree, ZipMap", DecisionTreeClassifier(max_depth=5, random_state=0), wine),
        ("svc", "SVM classifier with probabilities, ZipMap", make_pipeline(StandardScaler(), SVC(probability=True, random_state=0)), cancer),
        ("svc_multi", "SVM classifier, three classes", make_pipeline(StandardScaler(), SVC(probability=True, random_state=0)), wine),
        ("mlp", "MLPClassifier, ZipMap", make_pipeline(StandardScaler(), MLPClassifier((64,), max_iter=200, random_state=0)), digits),
        ("bayes", "Gaussian naive Bayes, ZipMap", GaussianNB(), wine),
        ("neighbours", "nearest neighbours classifier, ZipMap", make_pipeline(StandardScaler(), KNeighborsClassifier()), wine),
        ("linear", "linear regression", lin.LinearRegression(), diabetes),
        ("forest_regressor", "random forest regressor", e.RandomForestRegressor(30, max_depth=10, random_state=0), california4()),
        ("svr", "SVM regressor", make_pipeline(StandardScaler(), SVR(C=100)), diabetes),
    ], to_onnx)

    import pandas as pd
    sex, names, x, y = abalone()
    frame = pd.DataFrame(dict(zip(names, x.T)) | {"sex": sex})[["sex"] + names]
    frame.loc[::20, "height"] = np.nan
    train, calib, test = parts(len(y))

    def columns(*steps):
        return ColumnTransformer([("kind", OneHotEncoder(handle_unknown="ignore"), ["sex"]),
                                  ("sizes", make_pipeline(SimpleImputer(), *steps), names)])
    for name, what, steps, target in (
        ("columns_ridge", "pipeline, one tensor a column with strings, ridge", (columns(StandardScaler()), lin.Ridge()), y),
        ("columns_forest", "pipeline, one tensor a column with strings, forest", (columns(), e.RandomForestRegressor(30, max_depth=8, random_state=0)), y),
        ("columns_classifier", "pipeline, one tensor a column with strings, logistic, ZipMap", (columns(StandardScaler()), lin.LogisticRegression(max_iter=500)),
         np.where(y > 9, "old", "young")),
    ):
        model = make_pipeline(*steps).fit(frame.iloc[train], target[train])
        path = folder("sklearn_" + name)
        to_onnx(model, frame.iloc[:1].astype({n: np.float32 for n in names}), path)
        write = lambda i: {c: [("" if v != v else v) for v in frame[c].to_numpy()[i]] for c in frame}
        table(path + "/fit.csv", write(calib) | {"rings": target[calib]})
        table(path + "/test.csv", write(test) | {"rings": target[test]})
        table(path + "/out.csv", {"sex": sex[test]} | dict(zip(names, strange(x[test]).T)))
        entry("sklearn_" + name, "skl2onnx", what, **CSV, answers=model.predict(frame.iloc[test]), flags=["--target", "rings"])

    rows = {k: read("clinc150/%s.csv" % k) for k in ("train", "val", "test", "oos_test")}
    intents = sorted({r["intent"] for r in rows["train"]})[::5][:20]
    rows = {k: [(r["text"], r["intent"]) for r in v if r["intent"] in intents or k == "oos_test"][:2000] for k, v in rows.items()}
    model = make_pipeline(TfidfVectorizer(token_pattern="[a-zA-Z]+"), lin.LogisticRegression(max_iter=500))
    model.fit(*map(list, zip(*rows["train"])))
    path = folder("sklearn_tfidf")
    from skl2onnx.common.data_types import StringTensorType
    from skl2onnx import convert_sklearn
    with open(path + "/model.onnx", "wb") as f:
        f.write(convert_sklearn(model, initial_types=[("text", StringTensorType([None, 1]))],
                                options={TfidfVectorizer: {"locale": "C"}}).SerializeToString())
    for f, part in (("fit", "val"), ("test", "test"), ("out", "oos_test")):
        a, b = map(list, zip(*rows[part][:400]))
        table("%s/%s.csv" % (path, f), {"text": a} | ({} if part == "oos_test" else {"intent": b}))
    entry("sklearn_tfidf", "skl2onnx", "words counted and logistic regression, texts as strings, ZipMap", **CSV,
          answers=model.predict([a for a, _ in rows["test"][:400]]), flags=["--target", "intent"])


def lightgbm_models():
    import lightgbm
    from onnxmltools import convert_lightgbm
    from onnxmltools.convert.common.data_types import FloatTensorType

    def convert(model, x, path, **kw):
        with open(path + "/model.onnx", "wb") as f:
            f.write(convert_lightgbm(model, initial_types=[("input", FloatTensorType([None, x.shape[1]]))], target_opset=15,
                                     **kw).SerializeToString())
    c = dict(n_estimators=30, num_leaves=15, verbose=-1, n_jobs=1)
    tabular("lightgbm", "LightGBM", [
        ("binary", "classifier of two classes, ZipMap", lightgbm.LGBMClassifier(**c), bunch("breast_cancer")),
        ("multi", "classifier, ZipMap", lightgbm.LGBMClassifier(**c), bunch("digits")),
        ("regressor", "regressor", lightgbm.LGBMRegressor(**c), california4()),
    ], convert)
    tabular("lightgbm", "LightGBM", [("tensors", "classifier, without ZipMap", lightgbm.LGBMClassifier(**c), bunch("wine"))],
            lambda *a: convert(*a, zipmap=False))


def xgboost_models():
    import xgboost
    from onnxmltools import convert_xgboost
    from onnxmltools.convert.common.data_types import FloatTensorType

    def convert(model, x, path):
        with open(path + "/model.onnx", "wb") as f:
            f.write(convert_xgboost(model, initial_types=[("input", FloatTensorType([None, x.shape[1]]))],
                                    target_opset=15).SerializeToString())
    c = dict(n_estimators=30, max_depth=5, n_jobs=1)
    tabular("xgboost", "XGBoost", [
        ("binary", "classifier of two classes", xgboost.XGBClassifier(**c), bunch("breast_cancer")),
        ("multi", "classifier", xgboost.XGBClassifier(**c), bunch("digits")),
        ("regressor", "regressor", xgboost.XGBRegressor(**c), california4()),
    ], convert)


def catboost_models():
    import catboost
    c = dict(iterations=50, depth=5, thread_count=1, verbose=0, allow_writing_files=False)
    tabular("catboost", "CatBoost", [
        ("binary", "classifier of two classes, its own exporter", catboost.CatBoostClassifier(**c), bunch("breast_cancer")),
        ("multi", "classifier, its own exporter", catboost.CatBoostClassifier(**c), bunch("wine")),
        ("regressor", "regressor, its own exporter", catboost.CatBoostRegressor(**c), california4()),
    ], lambda model, x, path: model.save_model(path + "/model.onnx", format="onnx"))


if __name__ == "__main__":
    zoo, data = sys.argv[1:3]
    for kind in sys.argv[3:]:
        globals()[kind + "_models"]()
