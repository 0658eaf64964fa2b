// Package measure computes how good scores, intervals and forecasts are if the truth is known.
// It provides AUROC and related metrics for OOD scores, risk–coverage curves for scores that
// should rise with the model's errors, and proper scores for forecasts.
package measure
