"""Adds words that readers search for to pages that say them otherwise.

MkDocs runs this hook. The words are in the search index, and not on the page.
"""

WORDS = {
    "concepts/detectors.md": "OOD novelty anomaly outlier unfamiliar out-of-domain detection",
    "concepts/reasons.md": "explanation feature attribution importance SHAP Shapley integrated gradients LIME why root cause drift schema",
    "concepts/p-values.md": "OOD novelty anomaly confidence threshold conformal",
    "concepts/intervals-and-sets.md": "conformal prediction set confidence region error bars quantile",
    "guides/intervals.md": "conformal error bars confidence interval quantile regression",
    "guides/prediction-sets.md": "conformal classification confidence set top-k LAC APS RAPS SAPS",
    "guides/time.md": "time series forecast online adaptive conformal inference ACI DtACI PID rolling window",
    "guides/late-targets.md": "feedback ground truth delayed labels online adaptive conformal inference ACI serve production",
    "guides/drift.md": "drift shift monitoring change detection martingale e-value",
    "guides/audit.md": "outlier novelty anomaly data cleaning false discovery rate FDR",
    "guides/calibration-data.md": "held-out exchangeable calibration set how many rows",
    "guides/conditional-coverage.md": "conditional coverage ERT excess risk subgroup fairness worst slab size-stratified Holm",
    "guides/groups.md": "Mondrian conditional coverage fairness subgroup",
    "guides/gates-in-ci.md": "test GitHub Actions continuous integration exit status",
    "guides/export.md": "ONNX JavaScript C# browser deploy",
    "reference/service.md": "Triton KServe v2 REST gRPC Prometheus metrics",
}


def on_page_content(html, page, config, files):
    words = WORDS.get(page.file.src_uri)
    if words is None:
        return html
    return f'{html}\n<p class="synonyms" hidden>{words}</p>'
