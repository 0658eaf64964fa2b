// Package baselines holds the methods of telling in-domain from out-of-domain
// inputs, one method a file: those that work on features, logits and earlier layers, and those
// that run the network, which they take as an interface. All lists them.
//
// Scores grow with uncertainty. A fitted method is safe for concurrent use, and
// its State restores to a scorer with the same scores.
package baselines
