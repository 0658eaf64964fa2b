"""Resizes every third JPEG of a folder with Pillow, for TestResizePhotographs.

python3 resize_folder.py FOLDER OUT.npz; ran with Pillow 9.4.0 and 13.0.0.
"""
import glob
import os
import sys

import numpy as np
from PIL import Image

files = sorted(glob.glob(os.path.join(sys.argv[1], "*.jpg")))[::3]
images = [Image.open(f).convert("RGB") for f in files]
out = {"decoded": [np.asarray(im) for im in images]}
for name, f in (("bilinear", Image.BILINEAR), ("bicubic", Image.BICUBIC)):
    out[name + "256"] = [np.asarray(im.resize((256, 256), f).crop((16, 16, 240, 240))) for im in images]
    out[name + "96"] = [np.asarray(im.resize((96, 96), f)) for im in images]
np.savez(sys.argv[2], **out)
