"""Train small models of tables, and write them with their converters to tables/, together
with rows of the same kind and the outputs of ONNX Runtime.

    pip install scikit-learn==1.9.1 skl2onnx==1.20.0 onnxmltools==1.16.0 \
        lightgbm==4.7.0 xgboost==3.2.0 onnxruntime==1.32.0
    python tables.py

Rows describe an invented battery: temperature, age, load and voltage, of different units,
and hours left, whose noise grows with the load. Classes are thirds of those hours.
"""

import pathlib

import numpy as np
import onnxruntime as ort
from lightgbm import LGBMClassifier, LGBMRegressor
from onnxmltools import convert_lightgbm, convert_xgboost
from onnxmltools.convert.common.data_types import FloatTensorType as MLFloat
from skl2onnx import to_onnx
from skl2onnx.common.data_types import FloatTensorType, StringTensorType
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier, RandomForestRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.multiclass import OneVsRestClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer, OneHotEncoder, StandardScaler
from sklearn.svm import SVC, SVR
from xgboost import XGBClassifier, XGBRegressor

HERE = pathlib.Path(__file__).parent / "tables"
COLUMNS = ["temperature", "age", "load", "voltage"]
KINDS = np.array(["steel", "glass", "paper"])


def rows(n, seed, shift=0.0):
    rng = np.random.default_rng(seed)
    temperature = rng.normal(20 + 25 * shift, 8, n)
    age = rng.gamma(2, 300 * (1 + shift), n)
    load = rng.uniform(0, 1 + shift, n)
    voltage = 12.6 - 0.001 * age - 0.4 * load + rng.normal(0, 0.05 + 0.3 * shift, n)
    x = np.stack([temperature, age, load, voltage], 1).astype(np.float32)
    hours = 30 - 0.2 * np.abs(temperature - 22) - 0.008 * age - 9 * load**2 + 2 * np.sin(6 * load)
    hours += rng.normal(0, 0.3 + 2 * load)
    return x, hours.astype(np.float32), np.digitize(hours, [19, 25]), KINDS[rng.integers(3, size=n)]


def csv(name, x, last, header, kinds=None):
    with open(HERE / name, "w") as f:
        print(*COLUMNS, *(["kind"] if kinds is not None else []), header, sep=",", file=f)
        for i, row in enumerate(x):
            cells = [f"{v:.5g}" for v in row] + ([kinds[i]] if kinds is not None else []) + [last[i]]
            print(*cells, sep=",", file=f)


def save(name, model):
    model = getattr(model, "SerializeToString", lambda: model)()
    (HERE / f"{name}.onnx").write_bytes(model)
    return ort.InferenceSession(model)


def main():
    HERE.mkdir(exist_ok=True)
    x, hours, level, kind = rows(600, 1)  # the training rows, which are not stored
    names = np.array(["low", "middle", "high"])
    shapes = [("x", FloatTensorType([None, 4]))]
    models = {
        "logistic": make_pipeline(StandardScaler(), LogisticRegression(max_iter=500)).fit(x, names[level]),
        "logistic_binary": LogisticRegression(max_iter=2000).fit(x, level > 0),
        "rest": make_pipeline(StandardScaler(), OneVsRestClassifier(LogisticRegression())).fit(x, level),
        "forest": RandomForestClassifier(20, max_depth=5, random_state=0).fit(x, level + 1),
        "boosting": GradientBoostingClassifier(n_estimators=20, random_state=0).fit(x, level),
        "svc": make_pipeline(StandardScaler(), SVC()).fit(x, level),
        "mlp": make_pipeline(StandardScaler(), MLPClassifier((16,), max_iter=2000, random_state=0)).fit(x, level),
        "mlp_binary": make_pipeline(StandardScaler(), MLPClassifier((16,), max_iter=2000, random_state=0)).fit(x, level > 0),
        "linear": make_pipeline(StandardScaler(), LinearRegression()).fit(x, hours),
        "ridge": make_pipeline(Normalizer(), Ridge(1e-4)).fit(x, hours),
        "forest_regressor": RandomForestRegressor(10, max_depth=6, random_state=0).fit(x, hours),
        "svr": make_pipeline(StandardScaler(), SVR(C=10)).fit(x, hours),
    }
    answers = {"x": rows(50, 4)[0]}
    for name, model in models.items():
        session = save(name, to_onnx(model, initial_types=shapes, target_opset={"": 17, "ai.onnx.ml": 3}))
        if hasattr(model, "decision_function") and name.startswith(("logistic", "svc")):
            answers[name + "_scores"] = model.decision_function(answers["x"]).astype(np.float32)
        out = session.run(None, {"x": answers["x"]})
        if isinstance(out[-1], list):
            out[-1] = np.array([list(row.values()) for row in out[-1]], np.float32)
        answers[name] = out[-1]
    many = [("x", MLFloat([None, 4]))]
    for name, model, convert in [
        ("lightgbm", LGBMClassifier(n_estimators=20, num_leaves=8, verbose=-1).fit(x, level), convert_lightgbm),
        ("lightgbm_regressor", LGBMRegressor(n_estimators=40, num_leaves=8, verbose=-1).fit(x, hours), convert_lightgbm),
        ("xgboost", XGBClassifier(n_estimators=20, max_depth=3).fit(x, level), convert_xgboost),
        ("xgboost_regressor", XGBRegressor(n_estimators=40, max_depth=3).fit(x, hours), convert_xgboost),
    ]:
        session = save(name, convert(model, initial_types=many, target_opset=15))
        out = session.run(None, {"x": answers["x"]})
        if isinstance(out[-1], list):
            out[-1] = np.array([list(row.values()) for row in out[-1]], np.float32)
        answers[name] = out[-1]

    # The model takes one tensor for each column. Columns include texts and empty cells.
    import pandas

    frame = lambda x, kind: pandas.DataFrame({**dict(zip(COLUMNS, x.T)), "kind": kind})
    columns = ColumnTransformer([
        ("numbers", make_pipeline(SimpleImputer(), StandardScaler()), COLUMNS),
        ("kinds", OneHotEncoder(), ["kind"]),
    ])
    types = [(c, FloatTensorType([None, 1])) for c in COLUMNS] + [("kind", StringTensorType([None, 1]))]
    late = hours - 4 * (kind == "paper")
    pipe = make_pipeline(columns, RandomForestClassifier(10, max_depth=4, random_state=0)).fit(frame(x, kind), names[level])
    save("columns", to_onnx(pipe, initial_types=types, target_opset={"": 17, "ai.onnx.ml": 3}))
    pipe = make_pipeline(columns, Ridge()).fit(frame(x, kind), late)
    save("columns_regressor", to_onnx(pipe, initial_types=types, target_opset={"": 17, "ai.onnx.ml": 3}))

    for name, n, seed, shift in [("fit", 600, 2, 0), ("test", 400, 3, 0), ("out", 300, 5, 1)]:
        x, hours, level, kind = rows(n, seed, shift)
        csv(f"hours_{name}.csv", x, [f"{h:.4g}" for h in hours], "hours")
        csv(f"levels_{name}.csv", x, level, "level")
        csv(f"kinds_{name}.csv", x, names[level], "level", kind)
    np.savez_compressed(HERE / "answers.npz", **answers)


main()
