"""Writes classifier.json: features, logits and labels of a small classifier, and
scores of the methods that read logits or recompute them from changed features.

    python classifier.py [--peers]

Every score is computed from the formulas of its paper, in double precision. With --peers the
scores are also compared with pytorch-ood, if its definition is the same. Compared with pytorch-ood 0.4.0 on PyTorch 1.13.0.
"""
import sys

import numpy as np
from scipy.optimize import brentq
from scipy.special import log_softmax, logsumexp, softmax
from scipy.stats import entropy, weibull_min

from fixture import Problem, f32, take, uniforms

rng = np.random.default_rng(11)
H, C, SEEN = 24, 6, 5  # class 5 is never predicted in training
weight = f32(rng.normal(size=(C, H)) / 2)
bias = f32(rng.normal(size=C) / 4)
bias[5] = -12


def rows(labels, noise):
    """Features after a ReLU: those of a class lie along its weights."""
    centres = 1.5 * weight + 0.3
    x = np.stack([centres[y] if y >= 0 else 0.4 + 0 * weight[0] for y in labels])
    return f32(np.maximum(x + noise * rng.normal(size=x.shape), 0))


labels = np.arange(90) % SEEN
train = rows(labels, 0.5)
test = np.r_[
    train[:2],
    rows(np.arange(10) % SEEN, 0.5),
    rows(-np.ones(6, int), 0.6),
    f32(20 * np.maximum(weight[5:], 0)),  # predicted as class 5
    f32(rng.normal(size=(3, H))),  # of both signs
    -f32(np.abs(rng.normal(size=(1, H)))),
    np.zeros((1, H)),
]
train_logits, test_logits = f32(train @ weight.T + bias), f32(test @ weight.T + bias)
predicted = train_logits.argmax(1)
labels[[7, 20, 21]] = (predicted[[7, 20, 21]] + 1) % SEEN  # mislabelled
assert set(predicted) == set(range(SEEN)) and 5 in test_logits.argmax(1)

problem = Problem("numpy", "scipy", train={"features": train, "logits": train_logits, "labels": labels},
                  test={"features": test, "logits": test_logits}, last={"weight": weight, "bias": bias})


def put(method, params, s, labelled=False):
    # Methods multiply features with the last layer in float32.
    tolerance, absolute = (1e-9, 1e-12) if method in ("max-logit", "energy", "gen", "kl-matching", "openmax") else (2e-6, 2e-6)
    return problem.put(method, params, s, tolerance, absolute, without=[] if labelled else ["labels"])


def energy(z, t=1):
    return -t * logsumexp(z / t, axis=1)


put("max-logit", {}, -test_logits.max(1))
for t in (1, 10, 100, 1000):
    put("energy", {"temperature": t}, energy(test_logits, t))

p = softmax(test_logits, axis=1)
for gamma in (0.01, 0.1, 0.5, 1, 2, 5, 10):
    for top in (3, 10, 100):
        order = np.argsort(-test_logits, axis=1)[:, :top]
        q = np.take_along_axis(p, order, 1)
        others = np.stack([[np.delete(r, k).sum() for k in o] for r, o in zip(p, order)])
        put("gen", {"gamma": gamma, "top": top}, (q**gamma * others**gamma).sum(1))

# The typical distributions of predicted classes.
logp = log_softmax(test_logits, axis=1)
typical = np.stack([softmax(train_logits[predicted == k], axis=1).mean(0) for k in range(SEEN)])
kl = np.stack([(p * (logp - np.log(d))).sum(1) for d in typical], 1)
put("kl-matching", {}, kl.min(1))


def layer(x, w=weight):
    return x @ w.T + bias


def sharpened(x, k):
    """exp(sum of all / sum of the k largest), for features of both signs bounded as in the Go code."""
    top = -np.sort(-x, axis=1)[:, :k].sum(1)
    ratio = np.full(len(x), H / k)
    np.divide(x.sum(1), top, out=ratio, where=top > 0)
    return np.exp(ratio)[:, None]


for percentile in (65, 70, 75, 80, 85, 90, 95):
    k = H - int(np.round(H * percentile / 100))
    # A stable sort prunes the last of equal features.
    order = np.argsort(-test, axis=1, kind="stable")[:, :k]
    mask = np.zeros(test.shape)
    np.put_along_axis(mask, order, 1, 1)
    put("ash-b", {"percentile": percentile}, energy(layer(mask * test.sum(1, keepdims=True) / k)))
    put("ash-s", {"percentile": percentile}, energy(layer(mask * test * sharpened(test, k))))
    put("scale", {"percentile": percentile}, energy(layer(test * sharpened(test, k))))

for percentile in (0, 50, 85, 90, 95, 99):
    put("react", {"percentile": percentile}, energy(layer(np.minimum(test, np.percentile(train, percentile)))))

for percentile in (10, 30, 50, 70, 90, 99):
    contribution = weight * train.mean(0)
    w = weight * (contribution > np.percentile(contribution, percentile))
    put("dice", {"percentile": percentile}, energy(layer(test, w)))

new_logits = layer(test)
top = new_logits.argmax(1)
mean = train.mean(0)
distances = np.linalg.norm(weight[:, None] - weight, axis=2)
for centred in (True, False):
    others = np.arange(C) != top[:, None]
    margins = (new_logits.max(1, keepdims=True) - new_logits)[others].reshape(-1, C - 1)
    planes = (margins / distances[top][others].reshape(-1, C - 1)).mean(1)
    put("fdbd", {"centred": centred}, -planes / np.maximum(np.linalg.norm(test - centred * mean, axis=1), 2.0**-149))

for alpha in (1e-4, 1e-3, 1e-2, 1e-1):
    centred = test - mean
    angle = (weight[top] * centred).sum(1) / np.linalg.norm(centred, axis=1)
    put("nci", {"alpha": alpha}, -angle - alpha * np.abs(test).sum(1))


def examples(rows, labelled):
    """By class, the rows that are predicted as this class, without the mislabelled rows."""
    return [rows[(predicted == k) & ((labels == k) | (not labelled))] for k in range(C)]


def means(groups):
    return np.stack([g.mean(0) if len(g) else np.zeros(g.shape[1]) for g in groups])


for labelled in (False, True):
    put("she", {}, -(test * means(examples(train, labelled))[test_logits.argmax(1)]).sum(1), labelled)


def weibull(x):
    """Maximum likelihood of shape and scale, by the derivative of the likelihood."""
    y = x / x.max()

    def derivative(k):
        return (y**k * np.log(y)).sum() / (y**k).sum() - np.log(y).mean() - 1 / k

    k = brentq(derivative, 1, 1e8, xtol=1e-9, rtol=1e-14)
    scale = x.max() * (y**k).mean() ** (1 / k)
    searched, _, guess = weibull_min.fit(x, floc=0)
    likelihood = weibull_min.logpdf(x, k, scale=scale).sum()
    assert likelihood >= weibull_min.logpdf(x, searched, scale=guess).sum() - 1e-6
    return k, scale


def openmax(tail, alpha, labelled):
    """Log-odds of the unknown class."""
    groups = examples(train_logits, labelled)
    centres = means(groups)
    odds = []
    fits = []
    for g, centre in zip(groups, centres):
        d = np.sort(np.linalg.norm(g - centre, axis=1))[-tail:]
        fits.append((d.min(), *weibull(d + 1e4 - d.min())) if len(d) else None)
    for z in test_logits:
        revised = z.copy()
        ranked = np.argsort(-z, kind="stable")[: min(alpha, C)]
        for i, k in enumerate(ranked):
            w = 1.0
            if fits[k]:
                least, shape, scale = fits[k]
                w = weibull_min.cdf(np.linalg.norm(z - centres[k]) + 1e4 - least, shape, scale=scale)
            revised[k] = z[k] * (1 - w * (len(ranked) - i) / len(ranked))
        odds.append((z - revised).sum() - logsumexp(revised))
    return np.array(odds)


for tail, alpha in [(20, 3), (20, 10), (50, 3), (50, 10), (5, 2)]:
    for labelled in (False, True):
        put("openmax", {"tail": tail, "alpha": alpha}, openmax(tail, alpha, labelled), labelled)


def unit(x):
    norm = np.linalg.norm(x, axis=1, keepdims=True)
    return x / np.where(norm == 0, 1, norm)


products = unit(test) @ (unit(train) * logsumexp(train_logits, axis=1)[:, None]).T
for k in (1, 10, 50, 100):
    put("nnguide", {"k": k}, np.sort(products, axis=1)[:, -k:].mean(1) * energy(test_logits))

# A pass keeps half of the features, as the method draws them.
passes = np.stack([layer(test * 2 * (take(uniforms(0, s), H) >= 0.5)) for s in range(100)])
each = softmax(passes, axis=2)
put("bald-features", {"score": "mutual-information"}, entropy(each.mean(0), axis=1) - entropy(each, axis=2).mean(0))
put("bald-features", {"score": "predictive-entropy"}, entropy(each.mean(0), axis=1))
put("bald-features", {"score": "variance"}, each.var(0).mean(1))

problem.write("classifier.json")

if "--peers" in sys.argv:
    import torch
    from pytorch_ood import detector

    def compare(name, want, got, keep=slice(None)):
        want, got = np.asarray(want)[keep], got.detach().numpy()[keep]
        off = np.max(np.abs(want - got) / np.maximum(np.abs(want), 1e-3))
        print(f"{name}: off by {off:.1g}")
        assert off < 1e-4, name

    def of(method, params, labelled=False):
        want = (method, params, [] if labelled else ["labels"])
        return next(s["scores"] for s in problem.out["scores"] if (s["method"], s["params"], s["without"]) == want)

    z = torch.tensor(test_logits)
    compare("max-logit", of("max-logit", {}), detector.MaxLogit.score(z))
    compare("energy", of("energy", {"temperature": 10}), detector.EnergyBased.score(z, t=10))
    for top in (3, 10):
        # pytorch-ood takes the mean over classes, of probabilities of at least 1e-7.
        s = detector.GEN.score(z, gamma=1, M=top) * min(top, C)
        compare("gen", of("gen", {"gamma": 1, "top": top}), s)

    x, w, b = (torch.tensor(a) for a in (test, weight, bias))
    maps = x[:, :, None, None]

    def head(v):
        return v.flatten(1) @ w.T + b

    def same(v):
        return v.clone()

    some = slice(0, -2)  # the ratio of sums differs, or is 0/0, if no feature is positive
    for variant in ("ash-b", "ash-s"):
        compare(variant, of(variant, {"percentile": 90}), detector.ASH(same, head, variant, 0.9).predict(maps), some)
    compare("scale", of("scale", {"percentile": 85}), detector.SCALE(same, head, 0.85).predict(maps), some)
    clip = float(np.percentile(train, 90))
    compare("react", of("react", {"percentile": 90}), detector.ReAct(same, head, clip).predict(x))
    dice = detector.DICE(same, w, b, 0.7)
    dice.fit_features(torch.tensor(train), torch.tensor(labels))
    compare("dice", of("dice", {"percentile": 70}), dice.predict_features(x))

    linear = torch.nn.Linear(H, C).double()
    linear.weight.data, linear.bias.data = w, b
    linear.float()
    trained, given = torch.tensor(train).float(), torch.tensor(labels)
    fdbd = detector.fDBD(same, linear).fit_features(trained)
    compare("fdbd", of("fdbd", {"centred": True}), fdbd.predict_features(x.float()))
    nci = detector.NCI(same, linear, alpha=0.01).fit_features(trained)
    compare("nci", of("nci", {"alpha": 0.01}), nci.predict_features(x.float()))
    nnguide = detector.NNGuide(same, linear, k=10).fit_features(trained, given)
    compare("nnguide", of("nnguide", {"k": 10}), nnguide.predict_features(x.float()))

    # pytorch-ood needs rows of every class: classes without any are left out.
    seen = test_logits.argmax(1) != 5
    small = torch.nn.Linear(H, SEEN)
    small.weight.data, small.bias.data = w[:SEEN].float(), b[:SEEN].float()
    she = detector.SHE(same, small).fit_features(trained, given)
    compare("she", of("she", {}, True), she.predict_features(x.float()), seen)
    kl_matching = detector.KLMatching(same).fit_logits(torch.tensor(train_logits))
    compare("kl-matching", of("kl-matching", {}), kl_matching.predict_logits(z))
    # pytorch-ood finds the Weibull distribution by a search, which is less exact.
    for tail, alpha in ((20, 3), (5, 2)):
        openmax_there = detector.OpenMax(same, tailsize=tail, alpha=alpha)
        openmax_there.fit_logits(torch.tensor(train_logits), torch.tensor(predicted))
        log_odds = torch.tensor(of("openmax", {"tail": tail, "alpha": alpha}))
        compare("openmax", torch.sigmoid(log_odds), openmax_there.predict_logits(z))
