// Package ood holds the contract that every method of telling in-domain from
// out-of-domain inputs keeps, the metrics such methods are judged by, and a
// side-by-side comparison of them.
//
// A Method is a value. Its Fit returns a Scorer, and a score grows with
// uncertainty. Out-of-domain is the positive class throughout.
package ood
