"""Compares audits with cleanlab on the draws that `reproduce labels` or `reproduce targets` wrote.

pip install cleanlab datasets; python3 compare.py OUT/draws

Both get the same predicted probabilities and given labels of 2,000 rows, or the same
predictions and given targets. For each kind and
fraction of wrong labels, the table shows the number of issues that cleanlab reports, how many
of these are wrong labels (precision) and how many wrong labels it finds (recall); the same for
the discoveries of an audit at a false discovery rate of 0.1, computed here from the p-values;
the precision of as many of the lowest p-values as cleanlab has issues; and the precision of as
many rows as the audit discovers, in the order of the probabilities or of cleanlab's scores.
"""
import collections
import glob
import os
import sys

import numpy as np
from cleanlab.datalab.internal.issue_manager.regression.label import find_issues_with_predictions
from cleanlab.filter import find_label_issues

FDR = 0.1


def discoveries(p):
    """Returns the rows that Benjamini and Hochberg's method finds."""
    sorted_p = np.sort(p)
    passed = np.flatnonzero(sorted_p * len(p) <= FDR * np.arange(1, len(p) + 1) * (1 + 1e-12))
    return p <= sorted_p[passed[-1]] if len(passed) else np.zeros(len(p), bool)


def classifier(draw):
    """Returns cleanlab's issues, and the probability of each given label."""
    probabilities, given = draw["probabilities"].astype(float), draw["given"].astype(int)
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    return find_label_issues(given, probabilities, n_jobs=1), probabilities[np.arange(len(given)), given]


def regressor(draw):
    """Returns the issues of cleanlab's Datalab, which has a default threshold of 0.05, and its scores."""
    issues = find_issues_with_predictions(draw["predictions"][:, 0].astype(float), draw["given"], 0.05)
    return issues["is_label_issue"].to_numpy(), issues["label_score"].to_numpy()


cells = collections.defaultdict(list)
for path in sorted(glob.glob(os.path.join(sys.argv[1], "**", "*.npz"), recursive=True)):
    draw = np.load(path)
    wrong, found = draw["wrong"].astype(bool), discoveries(draw["p_value"])
    issues, own = (regressor if "predictions" in draw else classifier)(draw)
    first = np.lexsort((own, draw["p_value"]))[: issues.sum()]
    theirs = np.argsort(own, kind="stable")[: found.sum()]
    precision = lambda rows: wrong[rows].mean() if len(wrong[rows]) else 1.0
    recall = lambda rows: wrong[rows].sum() / wrong.sum()
    name, fraction, _ = os.path.relpath(path, sys.argv[1]).rsplit("-", 2)
    cells[name, float(fraction)].append(
        [issues.sum(), precision(issues), recall(issues), found.sum(), precision(found), recall(found), precision(first), precision(theirs)])

print("set and kind, fraction: cleanlab issues precision recall; audit discoveries precision recall; "
      "precision of the audit at cleanlab's number; precision of cleanlab's order at the audit's number")
for key, rows in sorted(cells.items()):
    n, p, r, found, precision, recall, first, theirs = np.mean(rows, axis=0)
    print(*key, f": {n:.0f} {p:.2f} {r:.2f}; {found:.0f} {precision:.2f} {recall:.2f}; {first:.2f}; {theirs:.2f}  ({len(rows)} draws)")
