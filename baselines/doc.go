// Package baselines contains the methods to compare with, one in each file. Detectors tell
// in-distribution from out-of-distribution inputs. They use features, logits and earlier
// layers, or run the network through an interface. Interval models predict quantiles. All
// lists the methods, and attach.MethodByName finds one by name.
//
// Scores grow with uncertainty. A fitted method is safe for concurrent use. A method that is
// saved and restored scores the same.
package baselines
