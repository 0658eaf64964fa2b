"""Compares audits with cleanlab on the draws that `reproduce labels` wrote.

pip install cleanlab; python3 compare.py OUT/draws

Both get the same predicted probabilities and given labels of 2,000 rows. For each kind and
fraction of wrong labels, the table shows the number of issues that cleanlab reports, how many
of these are wrong labels (precision) and how many wrong labels it finds (recall); the same for
the discoveries of an audit at a false discovery rate of 0.1, computed here from the p-values;
and the precision of as many of the lowest p-values as cleanlab has issues.
"""
import collections
import glob
import os
import sys

import numpy as np
from cleanlab.filter import find_label_issues

FDR = 0.1


def discoveries(p):
    """Returns the rows that Benjamini and Hochberg's method finds."""
    sorted_p = np.sort(p)
    passed = np.flatnonzero(sorted_p * len(p) <= FDR * np.arange(1, len(p) + 1) * (1 + 1e-12))
    return p <= sorted_p[passed[-1]] if len(passed) else np.zeros(len(p), bool)


cells = collections.defaultdict(list)
for path in sorted(glob.glob(os.path.join(sys.argv[1], "*.npz"))):
    draw = np.load(path)
    wrong, given = draw["wrong"].astype(bool), draw["given"]
    probabilities = draw["probabilities"].astype(float)
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    issues = find_label_issues(given, probabilities, n_jobs=1)
    found = discoveries(draw["p_value"])
    own = probabilities[np.arange(len(given)), given]
    first = np.lexsort((own, draw["p_value"]))[: issues.sum()]
    precision = lambda rows: wrong[rows].mean() if len(wrong[rows]) else 1.0
    recall = lambda rows: wrong[rows].sum() / wrong.sum()
    name, kind, fraction, _ = os.path.basename(path).rsplit("-", 3)
    cells[name, kind, float(fraction)].append(
        [issues.sum(), precision(issues), recall(issues), found.sum(), precision(found), recall(found), precision(first)])

print("set kind fraction: cleanlab issues precision recall; audit discoveries precision recall; precision at cleanlab's number")
for key, rows in sorted(cells.items()):
    n, p, r, found, precision, recall, first = np.mean(rows, axis=0)
    print(*key, f": {n:.0f} {p:.2f} {r:.2f}; {found:.0f} {precision:.2f} {recall:.2f}; {first:.2f}  ({len(rows)} draws)")
