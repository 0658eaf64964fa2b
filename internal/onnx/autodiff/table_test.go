package autodiff

import "slices"

// allCases returns the cases of all tables.
func allCases() []graphCase {
	return slices.Concat(graphCases, activationCases, normalizationCases, reductionCases, indexingCases, spatialCases)
}

// testedElsewhere lists rules that the tables cannot reach, because recent operator sets lack
// the operator or because differences do not apply.
var testedElsewhere = map[string]bool{"CastLike": true}
