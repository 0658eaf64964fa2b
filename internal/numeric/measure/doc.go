// Package measure evaluates scores and forecasts against known outcomes. It provides AUROC
// and related metrics for OOD scores, risk–coverage curves for scores that should rise with
// the model's errors, bootstrap confidence intervals of these metrics, and proper scores
// for forecasts.
package measure
