"""Writes the pictures and references of this folder and of jpeg/.

Made with Python 3.11, NumPy 1.26.4, Pillow 13.0.0 (libjpeg-turbo 3.2.0,
libwebp 1.6.0) and transformers 4.49.0:  python3 make.py
"""
import json
import os

import numpy as np
from PIL import Image
from transformers import (CLIPImageProcessor, ConvNextImageProcessor, DetrImageProcessor,
                          MobileViTImageProcessor, ViTImageProcessor)


def photo(h, w, seed=0):
    """A picture with features of photographs: shading, texture, sharp and
    coloured edges, noise."""
    r = np.random.default_rng(seed)
    y, x = np.mgrid[0:h, 0:w] / max(h, w)
    out = np.zeros((h, w, 3))
    for c in range(3):
        for k in range(1, 7):
            a = r.normal(size=4)
            out[..., c] += np.sin(2 ** k * (a[0] * x + a[1] * y) + 6 * a[2]) * a[3] / k
    for _ in range(12):
        cy, cx, s = r.random(3)
        out[(y - cy) ** 2 + (x - cx) ** 2 < (s / 6) ** 2] = r.normal(size=3)
    out += 0.04 * r.normal(size=out.shape)
    return Image.fromarray((255 / (1 + np.exp(-1.5 * out))).astype(np.uint8))


def main():
    img = photo(29, 37)
    files = {}

    def save(name, im, folder=".", **options):
        path = os.path.join(folder, name)
        im.save(path, **options)
        again = Image.open(path)
        files[os.path.basename(path)] = np.asarray(again.convert("L" if again.mode in ("L", "LA", "1") else "RGB"))

    alpha = img.copy()
    alpha.putalpha(Image.linear_gradient("L").resize(img.size))
    save("rgb.png", img)
    save("rgba.png", alpha)
    save("grey.png", img.convert("L"))
    save("palette.png", img.quantize(64))
    save("bilevel.png", img.convert("1"))
    save("palette.gif", img.quantize(32))
    save("rgb.bmp", img)
    save("lzw.tiff", img, compression="tiff_lzw")
    save("rgba.tif", alpha)
    save("lossless.webp", img, lossless=True)
    save("lossy.webp", img, quality=80)
    save("lossy_alpha.webp", alpha, quality=70)
    deep = (np.asarray(img.convert("L")).astype(np.uint16) * 257 // 2 + 77)
    Image.fromarray(deep).save("deep.png")
    files["deep.png"] = (deep >> 8).astype(np.uint8)
    img.convert("CMYK").save("cmyk.jpg", quality=95)
    files["cmyk.jpg"] = np.asarray(Image.open("cmyk.jpg").convert("RGB"))

    jpegs = "jpeg"
    for name, sub in {"444": 0, "422": 1, "420": 2}.items():
        save(f"{name}.jpg", img, jpegs, quality=85, subsampling=sub)
        save(f"{name}_progressive.jpg", img, jpegs, quality=70, subsampling=sub, progressive=True)
    save("grey.jpg", img.convert("L"), jpegs, quality=85)
    save("grey_progressive.jpg", img.convert("L"), jpegs, quality=85, progressive=True)
    save("restart.jpg", img, jpegs, quality=85, restart_marker_blocks=2)
    save("coarse.jpg", img, jpegs, quality=2)
    for h, w in [(1, 1), (2, 3), (3, 2), (5, 4), (4, 5), (8, 8), (9, 17), (17, 9)]:
        for name, sub in {"422": 1, "420": 2}.items():
            save(f"{name}_{h}x{w}.jpg", photo(h, w, 3), jpegs, quality=90, subsampling=sub, optimize=True)
    np.savez_compressed("decoded.npz", **files)

    big = photo(48, 67, seed=1)
    big.save("photo.png", optimize=True)
    resized = {}
    for f in range(6):
        for h, w in [(12, 16), (48, 25), (19, 67), (55, 70)]:
            grey = h == 55
            source = big.convert("L") if grey else big
            resized[f"{f}_{h}x{w}"] = np.asarray(source.resize((w, h), f))
    np.savez_compressed("resized.npz", **resized)

    mean, std = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
    processors = {
        "square": ViTImageProcessor(size={"height": 24, "width": 20}),
        "shortest": CLIPImageProcessor(size={"shortest_edge": 32}, crop_size=24),
        "odd": CLIPImageProcessor(size={"shortest_edge": 33}, crop_size={"height": 24, "width": 28}, resample=1),
        "surround": CLIPImageProcessor(size={"shortest_edge": 20}, crop_size={"height": 25, "width": 31}, image_mean=mean, image_std=std),
        "share": ConvNextImageProcessor(size={"shortest_edge": 28}, crop_pct=0.875, image_mean=mean, image_std=std),
        "flip": MobileViTImageProcessor(size={"shortest_edge": 24}, crop_size={"height": 20, "width": 20}),
        "bounded": DetrImageProcessor(size={"shortest_edge": 40, "longest_edge": 50}, do_pad=False),
        "scalar": ViTImageProcessor(size={"height": 16, "width": 16}, image_mean=0.5, image_std=0.25, resample=3),
    }
    processed = {}
    for name, p in processors.items():
        with open(f"{name}.preprocess.json", "w") as f:
            json.dump({k: v for k, v in json.loads(p.to_json_string()).items() if v is not None}, f, indent=1, sort_keys=True)
            f.write("\n")
        processed[name] = np.asarray(p(big, return_tensors="np")["pixel_values"][0], dtype=np.float32)
    np.savez_compressed("processed.npz", **processed)


if __name__ == "__main__":
    main()
