#!/usr/bin/env python3
"""Train the classifiers of this folder, or the paper's on real data, and export
them at opset 13 with a dynamic batch size.

    python3 train.py --arch resnet --out digits_resnet.onnx
    python3 train.py --arch vgg    --out digits_vgg.onnx

train on images that render.py renders. With --data (an npz of `images` uint8
n×H×W or n×H×W×3 and `labels`) the same script trains the paper's networks:

    python3 train.py --arch preact18 --data mnist_train.npz --test mnist_test.npz \\
        --classes 4,1,7,5,3 --epochs 10 --out mnist_preact18.onnx

Outputs follow the order of --classes. Images are scaled to [-1,1]; with --data
they are padded to 32×32 with black. Preprocessing for the exported network is
therefore do_pad to 32×32 (where smaller), rescale by 1/255, mean and std .5.
"""

import argparse
import os

import numpy as np
import onnx
import torch
from onnx import numpy_helper
from torch import nn
from torch.nn import functional as F


class PreActBlock(nn.Module):
    """Computes BN → ReLU → 3×3 → BN → ReLU → 3×3 and adds the (projected) input."""

    def __init__(self, c_in, c_out, stride):
        super().__init__()
        self.bn1 = nn.BatchNorm2d(c_in)
        self.conv1 = nn.Conv2d(c_in, c_out, 3, stride, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(c_out)
        self.conv2 = nn.Conv2d(c_out, c_out, 3, 1, 1, bias=False)
        self.project = None
        if stride != 1 or c_in != c_out:
            self.project = nn.Conv2d(c_in, c_out, 1, stride, bias=False)

    def forward(self, x):
        h = F.relu(self.bn1(x))
        skip = x if self.project is None else self.project(h)
        h = self.conv1(h)
        return self.conv2(F.relu(self.bn2(h))) + skip


class PreActResNet(nn.Module):
    """PreActResNet (He et al. 2016) for small images. The paper takes φ from a 4×4
    average pool of the last block. With `final_norm`, BN and ReLU come first and the
    pool covers all positions."""

    def __init__(self, channels, classes, widths, blocks, final_norm):
        super().__init__()
        self.stem = nn.Conv2d(channels, widths[0], 3, 1, 1, bias=False)
        layers, c_in = [], widths[0]
        for stage, c_out in enumerate(widths):
            for block in range(blocks):
                layers.append(PreActBlock(c_in, c_out, 2 if stage > 0 and block == 0 else 1))
                c_in = c_out
        self.blocks = nn.Sequential(*layers)
        if final_norm:
            self.pool = nn.Sequential(nn.BatchNorm2d(c_in), nn.ReLU(), nn.AdaptiveAvgPool2d(1))
        else:
            self.pool = nn.AvgPool2d(4)
        self.fc = nn.Linear(c_in, classes)

    def features(self, x):
        return self.pool(self.blocks(self.stem(x))).flatten(1)

    def forward(self, x):
        return self.fc(self.features(x))


class VGG(nn.Module):
    """VGG (Simonyan and Zisserman 2015). `plan` lists the widths of convolutions, and
    "M" for 2×2 max pooling. `hidden` adds a dense layer with dropout before and after it."""

    def __init__(self, channels, classes, plan, norm, spatial=1, hidden=0):
        super().__init__()
        layers, c_in = [], channels
        for c_out in plan:
            if c_out == "M":
                layers.append(nn.MaxPool2d(2))
                continue
            layers.append(nn.Conv2d(c_in, c_out, 3, 1, 1))
            if norm:
                layers.append(nn.BatchNorm2d(c_out))
            layers.append(nn.ReLU())
            c_in = c_out
        self.convolutions = nn.Sequential(*layers)
        self.dense, width = nn.Identity(), c_in * spatial * spatial
        if hidden:
            self.dense = nn.Sequential(
                nn.Dropout(0.25), nn.Linear(width, hidden), nn.ReLU(), nn.Dropout(0.5)
            )
            width = hidden
        self.fc = nn.Linear(width, classes)

    def features(self, x):
        return self.dense(self.convolutions(x).flatten(1))

    def forward(self, x):
        return self.fc(self.features(x))


class Block(nn.Module):
    """A transformer layer with LayerNorm before the attention and before the dense part."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.dense = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x):
        n, t, width = x.shape
        q, k, v = self.qkv(self.norm1(x)).reshape(n, t, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        weights = (q @ k.transpose(2, 3) * (width // self.heads) ** -0.5).softmax(3)
        x = x + self.out((weights @ v).transpose(1, 2).reshape(n, t, width))
        return x + self.dense(self.norm2(x))


class ViT(nn.Module):
    """A vision transformer (Dosovitskiy et al. 2021) with 4×4 patches of a 32×32 image.
    φ is the mean over the patches, as in SimpleViT."""

    def __init__(self, channels, classes, width, depth):
        super().__init__()
        self.patches = nn.Conv2d(channels, width, 4, 4)
        self.places = nn.Parameter(torch.randn(1, 64, width) * 0.02)
        self.blocks = nn.Sequential(*(Block(width, 4) for _ in range(depth)))
        self.norm = nn.LayerNorm(width)
        self.fc = nn.Linear(width, classes)

    def features(self, x):
        return self.norm(self.blocks(self.patches(x).flatten(2).transpose(1, 2) + self.places)).mean(1)

    def forward(self, x):
        return self.fc(self.features(x))


VGG_PLANS = {
    "vgg11": [64, "M", 128, "M", 256, 256, "M", 512, 512, "M", 512, 512, "M"],
    "vgg13": [64, 64, "M", 128, 128, "M", 256, 256, "M", 512, 512, "M", 512, 512, "M"],
    "vgg16": [64, 64, "M", 128, 128, "M"] + 3 * [256] + ["M"] + 3 * [512] + ["M"] + 3 * [512] + ["M"],
}


def build(arch, channels, classes, width):
    """Return the network arch, with its numbers of channels multiplied by width."""
    if arch == "resnet":
        return PreActResNet(channels, classes, [16, 32, 64], blocks=1, final_norm=True)
    if arch == "vgg":
        plan = [16, 16, "M", 32, 32, "M", 64, 64, "M"]
        return VGG(channels, classes, plan, norm=False, spatial=3, hidden=128)
    if arch == "vit":
        return ViT(channels, classes, round(width * 96), depth=4)
    if arch == "preact18":
        widths = [round(width * c) for c in (64, 128, 256, 512)]
        return PreActResNet(channels, classes, widths, blocks=2, final_norm=False)
    plan = [c if c == "M" else round(width * c) for c in VGG_PLANS[arch]]
    return VGG(channels, classes, plan, norm=True)


def scale(images):
    """Convert uint8 n×H×W or n×H×W×C to float32 n×C×H×W in [-1,1]."""
    if images.ndim == 3:
        images = images[..., None]
    return torch.from_numpy(images).permute(0, 3, 1, 2).contiguous().float() / 127.5 - 1


def load(path, classes, limit=0, side=32):
    """Return the rows of an npz whose label is in classes. Labels become positions in classes."""
    z = np.load(path)
    images, labels = z["images"], z["labels"].astype(np.int64)
    if classes:
        position = np.full(labels.max() + 1, -1)
        position[[c for c in classes if c <= labels.max()]] = [
            i for i, c in enumerate(classes) if c <= labels.max()
        ]
        labels = position[labels]
    images, labels = images[labels >= 0], labels[labels >= 0]
    if limit:
        images, labels = images[:limit], labels[:limit]
    gap = side - images.shape[1]
    if gap > 0:
        edge = (gap // 2, gap - gap // 2)
        images = np.pad(images, ((0, 0), edge, edge) + ((0, 0),) * (images.ndim - 3))
    return scale(images), torch.from_numpy(labels)


def augment(x, flip):
    """Pad images by 4, crop them at random and flip some. All images of a mini-batch
    have the same crop."""
    padded = F.pad(x, (4, 4, 4, 4), value=-1)
    top, left = torch.randint(0, 9, (2,)).tolist()
    x = padded[:, :, top : top + x.shape[2], left : left + x.shape[3]]
    if flip:
        turned = torch.rand(len(x)) < 0.5
        x = torch.where(turned[:, None, None, None], x.flip(3), x)
    return x


def train(net, x, y, a, crops):
    optimizer = torch.optim.Adam(net.parameters(), lr=a.lr, weight_decay=a.weight_decay)
    steps = -(-len(x) // a.batch)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, a.lr, total_steps=a.epochs * steps)
    for epoch in range(a.epochs):
        net.train()
        total = 0.0
        for rows in torch.randperm(len(x)).split(a.batch):
            batch = augment(x[rows], flip=x.shape[1] == 3) if crops else x[rows]
            loss = F.cross_entropy(net(batch), y[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            total += loss.item() * len(rows)
        print(f"epoch {epoch + 1}/{a.epochs}: loss {total / len(x):.4f}", flush=True)


@torch.no_grad()
def accuracy(net, x, y):
    net.eval()
    hits = [(net(a).argmax(1) == b).sum() for a, b in zip(x.split(500), y.split(500))]
    return float(sum(hits)) / len(x)


def export(net, example, path, keep):
    """Write an ONNX file. With keep, the graph contains BatchNormalization and Dropout
    nodes. Dropout is off, but a later edit of its training_mode input can turn it on.
    Without keep, torch folds or drops these nodes if possible."""
    net.eval()
    dropouts = [m for m in net.modules() if isinstance(m, nn.Dropout)]
    for m in dropouts:
        # torch exports Dropout nodes only in training mode.
        m.train(keep)
    torch.onnx.export(
        net,
        example,
        path,
        opset_version=13,
        input_names=["input"],
        output_names=["logits"],
        do_constant_folding=not keep,
        dynamic_axes={"input": {0: "batch"}, "logits": {0: "batch"}},
        training=torch.onnx.TrainingMode.PRESERVE if keep else torch.onnx.TrainingMode.EVAL,
    )
    net.eval()
    model = onnx.load(path)
    if keep and dropouts:
        off = "dropout.training_mode"
        for node in model.graph.node:
            if node.op_type == "Dropout":
                node.input[2] = off
                del node.output[1:]
        model.graph.initializer.append(numpy_helper.from_array(np.array(False), off))
        used = {name for node in model.graph.node for name in node.input}
        for node in [n for n in model.graph.node if n.op_type == "Constant"]:
            if node.output[0] not in used:
                model.graph.node.remove(node)
    onnx.checker.check_model(model)
    onnx.save(model, path)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument("--arch", required=True, choices=["resnet", "vgg", "vit", "preact18", *VGG_PLANS])
    p.add_argument("--out", required=True, help="ONNX file to write")
    p.add_argument("--data", help="npz to train on; default: digits rendered by render.py")
    p.add_argument("--test", help="npz to measure accuracy on")
    p.add_argument("--classes", default="", help="labels to keep, in the order of the outputs")
    p.add_argument("--width", type=float, default=1, help="factor on preact18's, vgg*'s and vit's channels")
    p.add_argument("--rows", type=int, default=0, help="training rows (default: 16000 rendered, or all of --data)")
    p.add_argument("--epochs", type=int, default=6)
    p.add_argument("--batch", type=int, default=64)
    p.add_argument("--lr", type=float, default=3e-3)
    p.add_argument("--weight-decay", type=float, default=1e-4)
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--fold", action="store_true", help="let torch fold BatchNorm and drop Dropout on export")
    a = p.parse_args()

    torch.set_num_threads(a.threads)
    torch.manual_seed(a.seed)
    if a.data:
        classes = [int(c) for c in a.classes.split(",") if c]
        x, y = load(a.data, classes, a.rows)
        tests = {a.test: load(a.test, classes)} if a.test else {}
    else:
        import render

        def rendered(name, rows):
            images, labels = render.make(render.DIGITS, rows, render.SEEDS[name])
            return scale(images), torch.from_numpy(labels.astype(np.int64))

        x, y = rendered("train", a.rows or 16000)
        tests = {"rendered validation": rendered("validate", 2000)}
        tests["rendered test (digits_test.npz)"] = rendered("test", render.ROWS["test"])
    net = build(a.arch, x.shape[1], int(y.max()) + 1, a.width)
    print(f"{a.arch}: {sum(w.numel() for w in net.parameters())} weights, {len(x)} rows")
    train(net, x, y, a, crops=bool(a.data))
    for name, (tx, ty) in tests.items():
        print(f"accuracy on {name}: {accuracy(net, tx, ty):.4f} ({len(tx)} rows)")
    export(net, x[:2], a.out, keep=not a.fold)
    print(f"{a.out}: {os.path.getsize(a.out)} bytes, torch {torch.__version__}")


if __name__ == "__main__":
    main()
