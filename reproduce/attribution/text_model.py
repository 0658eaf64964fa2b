"""Trains the text classifier of Banking77 for `reproduce attribution`.

    text_model.py DATA/banking77 MODELS/banking_bert

The first folder has the published train.csv and test.csv. The second one gets a BERT with two
layers of 128, its tokenizer, and val.csv: 2,000 rows of train.csv that it was not trained on.

Run with Python 3.11, torch 1.13, transformers 4.39.3, tokenizers 0.15.2, NumPy 1.26.4.
"""
import csv
import sys
from pathlib import Path

import numpy as np
import torch
from tokenizers import BertWordPieceTokenizer
from transformers import BertConfig, BertForSequenceClassification, BertTokenizerFast

data, out = Path(sys.argv[1]), Path(sys.argv[2])
out.mkdir(parents=True, exist_ok=True)
torch.manual_seed(1)
torch.set_num_threads(1)


def read(file):
    with open(data / file, newline="") as f:
        return list(csv.reader(f))[1:]


train, test = read("train.csv"), read("test.csv")
order = np.random.default_rng(1).permutation(len(train))
val, train = [train[i] for i in order[:2000]], [train[i] for i in order[2000:]]
with open(out / "val.csv", "w", newline="") as f:
    csv.writer(f).writerows([["text", "category"], *val])

pieces = BertWordPieceTokenizer(lowercase=True)
pieces.train_from_iterator([text for text, _ in train], vocab_size=3000)
pieces.save_model(str(out))
tokenizer = BertTokenizerFast(str(out / "vocab.txt"), model_max_length=64)
names = sorted({label for _, label in train})
config = BertConfig(
    vocab_size=pieces.get_vocab_size(), hidden_size=128, num_hidden_layers=2, num_attention_heads=4, intermediate_size=512,
    max_position_embeddings=64, hidden_dropout_prob=0.2, id2label=dict(enumerate(names)), label2id={n: i for i, n in enumerate(names)})
model = BertForSequenceClassification(config)


def encode(rows):
    return tokenizer([text for text, _ in rows], padding=True, truncation=True, return_tensors="pt"), torch.tensor([names.index(label) for _, label in rows])


epochs, batch = 25, 64
steps = epochs * -(-len(train) // batch)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-3, steps)
for epoch in range(epochs):
    model.train()
    # Batches of texts of similar length need little padding.
    ordered = sorted(torch.randperm(len(train)).tolist(), key=lambda i: len(train[i][0]) + np.random.default_rng(i + epoch).integers(20))
    for start in torch.randperm(-(-len(train) // batch)).tolist():
        x, y = encode([train[i] for i in ordered[start * batch:][:batch]])
        loss = model(**x, labels=y).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    print(f"epoch {epoch + 1}: loss of the last batch {loss.item():.3f}", flush=True)
model.eval()
for name, rows in ("val", val), ("test", test):
    with torch.no_grad():
        right = sum((model(**x).logits.argmax(1) == y).sum().item() for x, y in (encode(rows[i:i + 256]) for i in range(0, len(rows), 256)))
    print(f"accuracy on {name}: {right / len(rows):.3f}", flush=True)

config.save_pretrained(out)
tokenizer.save_pretrained(out)
x, _ = encode(val[:2])
order = ["input_ids", "attention_mask", "token_type_ids"]
model.config.return_dict = False
torch.onnx.export(
    model, tuple(x[n] for n in order), str(out / "model.onnx"), opset_version=14, input_names=order, output_names=["logits"],
    dynamic_axes={n: {0: "batch", 1: "sequence"} for n in order} | {"logits": {0: "batch"}})
