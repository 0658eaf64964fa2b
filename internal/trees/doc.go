// Package trees grows regression trees that reduce the variance of a target,
// and builds from them the two classical models of conditional quantiles: the
// quantile regression forest and gradient boosting of the pinball loss.
//
// A result depends on data, options and seed alone, never on the number of
// threads.
package trees
