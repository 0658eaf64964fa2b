// Package measure tells how good scores, intervals and forecasts were, once the
// truth is known: AUROC and its like of scores that are to rise out-of-domain,
// risk–coverage of scores that are to rise where a network errs, and proper scores
// of forecasts.
package measure
