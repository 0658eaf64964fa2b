"""Prints the coefficients of erf.go.

    python erf.py

Two polynomials, both made of Chebyshev interpolants in 60 digits: erf(x)/x in
x² for |x| ≤ 1, and (1 + 2x)·exp(x²)·erfc(x) in (x − 2)/(x + 2) for 1 ≤ x ≤ 6
(the form of Shepherd and Laframboise, Chebyshev approximation of
(1 + 2x)exp(x²)erfc x in 0 ≤ x < ∞, Math. Comp. 36, 1981), mapped to [−1, 1].
The error of each, relative, follows it.

Written with Python 3.11, mpmath 1.2.1.
"""

from mpmath import cos, erf, erfc, exp, mp, mpf, pi

mp.dps = 60


def interpolate(f, low, high, degree):
    """Coefficients, lowest first, of the interpolant of f in t = (2u − low − high)/(high − low) at Chebyshev's points."""
    n = degree + 1
    nodes = [cos(pi * (2 * k + 1) / (2 * n)) for k in range(n)]
    values = [f((high - low) / 2 * t + (high + low) / 2) for t in nodes]
    cheb = [2 * sum(v * cos(pi * j * (2 * k + 1) / (2 * n)) for k, v in enumerate(values)) / n for j in range(n)]
    cheb[0] /= 2
    total = [mpf(0)] * n
    before, now = [mpf(1)], [mpf(0), mpf(1)]
    for j, c in enumerate(cheb):
        t = before if j == 0 else now
        for i, a in enumerate(t):
            total[i] += c * a
        if j:
            after = [mpf(0)] + [2 * a for a in now]
            for i, a in enumerate(before):
                after[i] -= a
            before, now = now, after
    return total


def show(name, f, low, high, degree):
    c = [mpf(float(a)) for a in interpolate(f, low, high, degree)]
    worst = mpf(0)
    for k in range(2001):
        t = mpf(k) / 1000 - 1
        u = (high - low) / 2 * t + (high + low) / 2
        p = mpf(0)
        for a in reversed(c):
            p = p * t + a
        worst = max(worst, abs(p / f(u) - 1))
    print(f"{name}, error {float(worst):.1e}")
    for a in c:
        print(f"\t{float(a)!r},")


near = lambda u: erf(u**0.5) / u**0.5 if u else 2 / pi**0.5
x_of = lambda v: 2 * (1 + v) / (1 - v)
far = lambda v: (1 + 2 * x_of(v)) * exp(x_of(v) ** 2) * erfc(x_of(v))
show("near", near, mpf(0), mpf(1), 10)
show("far", far, (mpf(1) - 2) / 3, (mpf(6) - 2) / 8, 15)
