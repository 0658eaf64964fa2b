// Package ood holds the contract that every method of telling in-domain from
// out-of-domain inputs keeps, and the driver that fits methods and scores rows
// with them.
//
// A Method is a value. Fit returns a Scorer, and a score grows with
// uncertainty. Out-of-domain is the positive class throughout.
package ood
