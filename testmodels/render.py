#!/usr/bin/env python3
"""Render digits and letters in several typefaces as small grey images.

    python3 render.py --out .

writes digits_fit.npz, digits_cal.npz, digits_test.npz, letters.npz and the PNG files under
images/. The same seed, typefaces and FreeType give the same bytes. train.py imports this
module and renders its own training images, with another seed.

Images are n×24×24 uint8, white on black, with 16 grey levels (multiples of 17)
so that files with noise are still small. Letters that look like a digit are left
out; see LOOKALIKES.
"""

import argparse
import functools
import io
import os
import subprocess
import sys
import zipfile

import numpy as np
from PIL import Image, ImageDraw, ImageFont

SIZE = 24
SUPERSAMPLE = 4
LEVELS = 16

# Seeds of the sets. The networks were trained on images of seed 1 and validated on seed 2.
SEEDS = {"train": 1, "validate": 2, "fit": 3, "test": 4, "letters": 5, "png": 6, "cal": 7}
ROWS = {"fit": 3000, "cal": 1000, "test": 2000, "letters": 1500}

DIGITS = "0123456789"
# Letters that look like a digit. 0: O o Q D; 1: I J i j l t; 2: Z z; 4: A; 5: S s; 6: G b; 8: B; 9: g q; 7: T.
LOOKALIKES = "OoQDIJijltZzASsGbBgqT"
LETTERS = "".join(
    c
    for c in "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
    if c not in LOOKALIKES
)

# Each typeface has a family, a style, and the Debian package that contains it.
TYPEFACES = [
    ("DejaVu Sans", "Book", "fonts-dejavu-core"),
    ("DejaVu Sans", "Bold", "fonts-dejavu-core"),
    ("DejaVu Serif", "Book", "fonts-dejavu-core"),
    ("DejaVu Sans Mono", "Book", "fonts-dejavu-core"),
    ("Liberation Sans", "Regular", "fonts-liberation"),
    ("Liberation Serif", "Italic", "fonts-liberation"),
    ("Liberation Mono", "Bold", "fonts-liberation"),
    ("FreeSerif", "Regular", "fonts-freefont-ttf"),
    ("FreeSans", "Oblique", "fonts-freefont-ttf"),
    ("Carlito", "Regular", "fonts-crosextra-carlito"),
    ("Lato", "Regular", "fonts-lato"),
    ("Open Sans", "Regular", "fonts-open-sans"),
    ("Roboto", "Medium", "fonts-roboto-unhinted"),
    ("Hack", "Regular", "fonts-hack"),
    ("Comic Neue", "Regular", "fonts-comic-neue"),
    ("Linux Libertine O", "Regular", "fonts-linuxlibertine"),
    ("Fantasque Sans Mono", "Regular", "fonts-fantasque-sans"),
]


@functools.lru_cache(maxsize=None)
def typefaces():
    """Return the fonts of TYPEFACES at one size. If a font is missing, fontconfig
    replaces it. A line on stderr reports this, because the images then differ."""
    fonts = []
    for family, style, package in TYPEFACES:
        found, path = subprocess.run(
            ["fc-match", "-f", "%{family[0]}\t%{file}", f"{family}:style={style}"],
            check=True,
            capture_output=True,
            text=True,
        ).stdout.split("\t")
        if found != family:
            print(f"render: no {family!r} (package {package}), using {found!r}", file=sys.stderr)
        fonts.append(ImageFont.truetype(path, 64))
    return fonts


def render(char, rng):
    """Return a SIZE×SIZE uint8 image of char. rng decides typeface, pose and noise."""
    side = SIZE * SUPERSAMPLE
    fonts = typefaces()
    font = fonts[rng.integers(len(fonts))]
    box = font.getbbox(char)
    glyph = Image.new("L", (side, side), 0)
    ImageDraw.Draw(glyph).text(
        ((side - box[0] - box[2]) / 2, (side - box[1] - box[3]) / 2), char, fill=255, font=font
    )

    # The character is 13–19 of 24 px high, turned by up to 25°, slanted, and moved by up to 2.5 px.
    height = rng.uniform(13, 19) * SUPERSAMPLE
    scale = height / max(box[3] - box[1], 0.8 * (box[2] - box[0]))
    turn = np.deg2rad(rng.uniform(-25, 25))
    slant = rng.uniform(-0.15, 0.15)
    stretch = rng.uniform(0.85, 1.15)
    pose = (
        scale
        * np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
        @ np.array([[stretch, slant], [0, 1]])
    )
    back = np.linalg.inv(pose)
    centre = np.full(2, side / 2)
    move = rng.uniform(-2.5, 2.5, 2) * SUPERSAMPLE
    offset = centre - back @ (centre + move)
    glyph = glyph.transform(
        (side, side), Image.AFFINE, (*back[0], offset[0], *back[1], offset[1]), Image.BICUBIC
    ).resize((SIZE, SIZE), Image.BOX)

    ink = np.asarray(glyph, np.float64) / 255
    ground = rng.uniform(0, 50)
    pixels = ground + (rng.uniform(110, 255) - ground) * ink
    pixels += rng.normal(0, rng.uniform(4, 60), pixels.shape)
    step = 255 / (LEVELS - 1)
    return (np.clip(np.rint(pixels / step), 0, LEVELS - 1) * step).astype(np.uint8)


def make(chars, n, seed):
    """Return n images with balanced characters in random order: images n×24×24 uint8,
    and labels n uint8, which are indices into chars."""
    labels = np.random.default_rng([seed, n]).permutation(np.arange(n) % len(chars))
    images = np.stack(
        [render(chars[c], np.random.default_rng([seed, n, i])) for i, c in enumerate(labels)]
    )
    return images, labels.astype(np.uint8)


def save_npz(path, **arrays):
    """Write an npz like numpy.savez_compressed, but without time stamps and with
    stronger compression, so that the same arrays give the same small file."""
    with zipfile.ZipFile(path, "w") as z:
        for name, array in arrays.items():
            data = io.BytesIO()
            np.lib.format.write_array(data, np.ascontiguousarray(array), allow_pickle=False)
            entry = zipfile.ZipInfo(name + ".npy", (1980, 1, 1, 0, 0, 0))
            z.writestr(entry, data.getvalue(), zipfile.ZIP_DEFLATED, 9)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument("--out", default=".", help="folder to write to")
    a = p.parse_args()
    for name, file, chars in [
        ("fit", "digits_fit.npz", DIGITS),
        ("cal", "digits_cal.npz", DIGITS),
        ("test", "digits_test.npz", DIGITS),
        ("letters", "letters.npz", LETTERS),
    ]:
        images, labels = make(chars, ROWS[name], SEEDS[name])
        extra = {} if chars == DIGITS else {"classes": np.frombuffer(chars.encode(), np.uint8)}
        path = os.path.join(a.out, file)
        save_npz(path, images=images, labels=labels, **extra)
        print(f"{path}: {images.shape}, {os.path.getsize(path)} bytes")

    images, labels = make(DIGITS[:4], 12, SEEDS["png"])
    for c in range(4):
        folder = os.path.join(a.out, "images", DIGITS[c])
        os.makedirs(folder, exist_ok=True)
        for i, image in enumerate(images[labels == c]):
            Image.fromarray(image).save(os.path.join(folder, f"{i}.png"), optimize=True)


if __name__ == "__main__":
    main()
