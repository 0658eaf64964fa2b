package autodiff

import "slices"

// allCases returns the test cases of all tables.
func allCases() []graphCase {
	return slices.Concat(graphCases, activationCases, normalizationCases, reductionCases, indexingCases, spatialCases)
}

// testedElsewhere lists operators that have no case of their own, because they share the
// rule of another operator. CastLike has the rule of Cast.
var testedElsewhere = map[string]bool{"CastLike": true}
