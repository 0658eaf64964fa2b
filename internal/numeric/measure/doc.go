// Package measure computes how good scores, intervals and forecasts were, once the truth is
// known: AUROC and related metrics for OOD scores, risk–coverage curves for scores that should
// rise with the model's errors, and proper scores for forecasts.
package measure
