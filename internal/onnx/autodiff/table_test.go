package autodiff

import "slices"

// allCases returns the test cases of all tables.
func allCases() []graphCase {
	return slices.Concat(graphCases, activationCases, normalizationCases, reductionCases, indexingCases, spatialCases)
}

// testedElsewhere lists rules that no case in the tables can test: recent operator sets
// lack the operator, or central differences do not apply.
var testedElsewhere = map[string]bool{"CastLike": true}
