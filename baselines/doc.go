// Package baselines holds the methods that people compare with, one a file: of
// telling in-domain from out-of-domain inputs, by features, logits and earlier layers or by
// running the network, which they take as an interface, and of predicting
// intervals. All lists them, and attach.MethodByName has them by name.
//
// Scores grow with uncertainty. A fitted method is safe for concurrent use, and
// what a file keeps of it scores the same.
package baselines
