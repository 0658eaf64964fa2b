"""Export torchvision networks with random weights, and their outputs in PyTorch.

    python export.py OUT [NAME ...]

For each architecture it writes OUT/NAME.onnx and OUT/NAME.npz with x (2×3×S×S),
features (the input of the last linear layer, from a forward hook; averaged over
space if that layer is a 1×1 convolution) and logits, and the name
of the layer. Then, with ATTACH_TORCHVISION=OUT,

    go test ./featurize -run TestTorchvision -v

compares them with the layers that package featurize finds.

Written with Python 3.11, PyTorch 1.13.0, torchvision 0.14.1, NumPy 1.24.2.
"""

import os
import sys
import warnings

import numpy as np
import torch
import torchvision

NAMES = [
    "resnet18", "resnet50", "vgg16_bn", "mobilenet_v2", "mobilenet_v3_small", "densenet121", "efficientnet_b0",
    "squeezenet1_1", "shufflenet_v2_x1_0", "googlenet", "inception_v3", "convnext_tiny", "vit_b_16",
    "regnet_y_400mf", "mnasnet1_0", "swin_t",
]
OPSET = 13


def build(name):
    extra = {"aux_logits": False, "init_weights": False} if name in ("googlenet", "inception_v3") else {}
    return torchvision.models.get_model(name, weights=None, **extra)


def settle(net, x):
    """Gives batch norms the statistics of a batch, a little disturbed, so that activations keep their size."""
    norms = [m for m in net.modules() if isinstance(m, torch.nn.BatchNorm2d)]
    for m in norms:
        m.momentum = 1.0
    net.eval()
    for m in norms:
        m.train()
    with torch.no_grad():
        net(x)
    for m in norms:
        m.eval()
        m.running_mean += 0.05 * torch.randn_like(m.running_mean)
        m.running_var *= 1 + 0.2 * torch.rand_like(m.running_var)
        m.running_var += 1e-3
        m.weight.data = 1 + 0.1 * torch.randn_like(m.weight)
        m.bias.data = 0.1 * torch.randn_like(m.bias)


def last_layer(net, name):
    if name.startswith("squeezenet"):
        layers = [m for m in net.modules() if isinstance(m, torch.nn.Conv2d)]
    else:
        layers = [m for m in net.modules() if isinstance(m, torch.nn.Linear)]
    return layers[-1]


def no_zero_layers(net):
    """Replace weights that torchvision initialises to zero (the head of ViT): they would hide any mistake."""
    for m in net.modules():
        if isinstance(m, torch.nn.Linear) and not m.weight.abs().sum():
            torch.nn.init.normal_(m.weight, std=m.in_features**-0.5)
            torch.nn.init.normal_(m.bias, std=0.1)


def prepare(name):
    """The network and its input, the same on every call."""
    torch.manual_seed(NAMES.index(name))
    net = build(name)
    size = 299 if name == "inception_v3" else 224
    no_zero_layers(net)
    settle(net, torch.randn(4, 3, size, size))
    return net, torch.randn(2, 3, size, size)


def export(name, out):
    net, x = prepare(name)
    caught = []
    layer = last_layer(net, name)
    hook = layer.register_forward_hook(lambda m, i, o: caught.append(i[0].detach()))
    with torch.no_grad():
        logits = net(x)
    hook.remove()
    phi = caught[-1]
    if phi.ndim == 4:
        phi = phi.mean(dim=(2, 3))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            net, x, os.path.join(out, name + ".onnx"), opset_version=OPSET, input_names=["input"], output_names=["output"],
            dynamic_axes={"input": {0: "batch"}, "output": {0: "batch"}},
            # Do not fold batch norms and constants into weights: rounding would change the outputs by 1e-7.
            training=torch.onnx.TrainingMode.PRESERVE, do_constant_folding=False,
        )
    np.savez(os.path.join(out, name + ".npz"), x=x.numpy(), features=phi.numpy(), logits=logits.numpy())
    print(f"{name:20} features {tuple(phi.shape)} rms {phi.pow(2).mean().sqrt():.3g}  logits rms {logits.pow(2).mean().sqrt():.3g}", flush=True)


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    out = sys.argv[1]
    os.makedirs(out, exist_ok=True)
    failed = []
    for name in sys.argv[2:] or NAMES:
        try:
            export(name, out)
        except Exception as e:  # go on with the other architectures
            failed.append(name)
            print(f"{name:20} FAILED: {type(e).__name__}: {str(e).splitlines()[0]}", flush=True)
    if failed:
        sys.exit("not exported: " + ", ".join(failed))


if __name__ == "__main__":
    main()
