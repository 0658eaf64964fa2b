"""Write gradients of spatial operators, computed by PyTorch's autograd in double precision.

Made with Python 3.11, PyTorch 1.13.0, NumPy 1.24.2:

    python3 spatial.py > spatial.json

Element i of input k is sin(0.7·i + k). If a case has "ties", the element is rounded to a
multiple of 1/2. Element i of the upstream gradient is cos(i). "opset" is the first
operator set that has the operator in the form of the case.
"""
import itertools
import json

import torch
import torch.nn.functional as F

cases = []


def value(k, shape, ties=False):
    n = 1
    for d in shape:
        n *= d
    v = torch.sin(0.7 * torch.arange(n, dtype=torch.float64) + k)
    if ties:
        v = torch.round(2 * v) / 2
    return v.reshape(shape).requires_grad_()


def case(name, op, shapes, function, attributes=None, ties=False, opset=7, constants=None):
    x = [value(k, s, ties) for k, s in enumerate(shapes)]
    y = function(*x)
    up = torch.cos(torch.arange(y.numel(), dtype=torch.float64)).reshape(y.shape)
    gradients = torch.autograd.grad(y, x, up)
    cases.append({
        "name": name, "op": op, "opset": opset, "shapes": shapes, "ties": ties,
        "attributes": attributes or {}, "constants": constants or [], "output": list(y.shape),
        "gradients": [[float("%.7g" % v) for v in g.flatten().tolist()] for g in gradients],
    })


convolve = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
transpose = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}
size = {1: [7], 2: [6, 5], 3: [4, 3, 5]}
kernels = {1: [3], 2: [3, 2], 3: [2, 1, 3]}

for n, stride, dilation, group in itertools.product((1, 2, 3), (1, 2, 3), (1, 2), (1, 2)):
    if n != 2 and (dilation, group) == (2, 2) or n == 3 and stride == 3:
        continue
    pad = [(k - 1) * dilation // 2 for k in kernels[n]]
    shapes = [[2 if n < 3 else 1, 2] + size[n], [2 * group, 2 // group] + kernels[n], [2 * group]]
    attributes = {"strides": [stride] * n, "dilations": [dilation] * n, "pads": pad * 2, "group": group}
    case(f"conv {n}-D stride {stride} dilation {dilation} group {group}", "Conv", shapes,
         lambda x, w, b: convolve[n](x, w, b, stride, pad, dilation, group), attributes)
case("conv depthwise", "Conv", [[2, 3, 5, 5], [3, 1, 3, 3], [3]],
     lambda x, w, b: F.conv2d(x, w, b, 1, 1, 1, 3), {"pads": [1] * 4, "group": 3})
case("conv asymmetric", "Conv", [[1, 2, 6, 5], [2, 2, 3, 3], [2]],
     lambda x, w, b: F.conv2d(F.pad(x, (1, 0, 0, 2)), w, b, 2), {"strides": [2, 2], "pads": [0, 1, 2, 0]})
for s in (1, 2):
    upper = {1: (0, 1, 1, 1), 2: (0, 1, 0, 1)}[s]
    lower = {1: (1, 0, 1, 1), 2: (1, 0, 1, 0)}[s]
    for mode, pads in (("SAME_UPPER", upper), ("SAME_LOWER", lower)):
        case(f"conv {mode} stride {s}", "Conv", [[1, 2, 6, 5 + s % 2], [2, 2, 3, 2], [2]],
             lambda x, w, b: F.conv2d(F.pad(x, pads), w, b, s), {"strides": [s, s], "auto_pad": mode})

for n, stride, group in itertools.product((1, 2, 3), (1, 2), (1, 2)):
    shapes = [[1, 2] + [v - 2 for v in size[n]], [2, 2] + kernels[n], [2 * group]]
    attributes = {"strides": [stride] * n, "group": group, "output_padding": [stride - 1] * n}
    case(f"convtranspose {n}-D stride {stride} group {group}", "ConvTranspose", shapes,
         lambda x, w, b: transpose[n](x, w, b, stride, 0, stride - 1, group), attributes)
case("convtranspose dilation", "ConvTranspose", [[1, 2, 3, 4], [2, 2, 2, 3], [2]],
     lambda x, w, b: F.conv_transpose2d(x, w, b, 2, 1, 1, 1, 2),
     {"strides": [2, 2], "dilations": [2, 2], "pads": [1] * 4, "output_padding": [1, 1]})
case("convtranspose output_shape", "ConvTranspose", [[1, 2, 3, 4], [2, 2, 3, 3]],
     lambda x, w: F.conv_transpose2d(x, w, None, 2, 1, (0, 1)), {"strides": [2, 2], "output_shape": [5, 8]})

maximum = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}
average = {1: F.avg_pool1d, 2: F.avg_pool2d, 3: F.avg_pool3d}
for n, stride, ceil, ties in itertools.product((1, 2, 3), (1, 2), (False, True), (False, True)):
    attributes = {"kernel_shape": [3] * n, "strides": [stride] * n, "pads": [1] * 2 * n}
    if ceil:
        attributes["ceil_mode"] = 1
    case(f"maxpool {n}-D stride {stride} ceil {ceil} ties {ties}", "MaxPool", [[1, 2] + size[n]],
         lambda x: maximum[n](x, 3, stride, 1, 1, ceil), attributes, ties, 10 if ceil else 7)
case("maxpool disjoint ties", "MaxPool", [[2, 2, 6, 5]], lambda x: F.max_pool2d(x, 2),
     {"kernel_shape": [2, 2], "strides": [2, 2]}, ties=True)
case("maxpool dilation", "MaxPool", [[2, 2, 6, 5]], lambda x: F.max_pool2d(x, (2, 3), 1, (1, 1), 2),
     {"kernel_shape": [2, 3], "dilations": [2, 2], "pads": [1] * 4}, opset=10)
for n, stride, ceil, include in itertools.product((1, 2, 3), (1, 2), (False, True), (False, True)):
    attributes = {"kernel_shape": [3] * n, "strides": [stride] * n, "pads": [1] * 2 * n,
                  "count_include_pad": int(include)}
    if ceil:
        attributes["ceil_mode"] = 1
    case(f"averagepool {n}-D stride {stride} ceil {ceil} include {include}", "AveragePool", [[1, 2] + size[n]],
         lambda x: average[n](x, 3, stride, 1, ceil, include), attributes, opset=10 if ceil else 7)
case("averagepool disjoint", "AveragePool", [[2, 2, 6, 4]], lambda x: F.avg_pool2d(x, 2),
     {"kernel_shape": [2, 2], "strides": [2, 2]})
case("global average", "GlobalAveragePool", [[2, 2, 3, 4]], lambda x: F.adaptive_avg_pool2d(x, 1))
case("global max", "GlobalMaxPool", [[2, 2, 3, 4]], lambda x: F.adaptive_max_pool2d(x, 1))
case("global max of a volume", "GlobalMaxPool", [[1, 2, 3, 2, 2]], lambda x: F.adaptive_max_pool3d(x, 1))

nearest = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
for shape, to in (([1, 2, 3, 4], [6, 12]), ([1, 2, 5, 6], [7, 3]), ([1, 2, 5], [8]), ([1, 1, 2, 3, 2], [4, 5, 4])):
    sizes = {"constants": [None, None, shape[:2] + to]}
    name = f"{len(to)}-D to {to}"
    case("nearest " + name, "Resize", [shape], lambda x: F.interpolate(x, to), nearest, opset=13, **sizes)
    mode = {1: "linear", 2: "bilinear", 3: "trilinear"}[len(to)]
    for align in (False, True):
        transformation = "align_corners" if align else "pytorch_half_pixel"
        case(f"linear {transformation} " + name, "Resize", [shape],
             lambda x: F.interpolate(x, to, mode=mode, align_corners=align),
             {"mode": "linear", "coordinate_transformation_mode": transformation}, opset=13, **sizes)
case("cubic", "Resize", [[1, 2, 4, 3]], lambda x: F.interpolate(x, (7, 5), mode="bicubic", align_corners=False),
     {"mode": "cubic", "cubic_coeff_a": -0.75, "coordinate_transformation_mode": "pytorch_half_pixel"},
     opset=13, constants=[None, None, [1, 2, 7, 5]])
case("pixel shuffle", "DepthToSpace", [[1, 8, 2, 3]], lambda x: F.pixel_shuffle(x, 2), {"blocksize": 2, "mode": "CRD"}, opset=11)

print("[\n" + ",\n".join(json.dumps(c, separators=(",", ":")) for c in cases) + "\n]")
