// Package baselines contains methods to compare with, one in each file. Detectors
// distinguish in-distribution inputs from out-of-distribution inputs. They use features,
// logits and earlier layers, or run the model through an interface. Interval models predict
// quantiles. All lists the methods, and attach.MethodByName finds a method by name.
//
// A higher score means more uncertainty. Fitted methods are safe for concurrent use. A
// method that is saved and restored gives the same scores.
package baselines
