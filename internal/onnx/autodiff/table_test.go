package autodiff

import "slices"

// allCases are the cases of all tables.
func allCases() []graphCase {
	return slices.Concat(graphCases, activationCases, normalizationCases, reductionCases, placeCases, spatialCases)
}

// testedElsewhere are rules that the tables cannot reach: of operators that
// recent operator sets lack, or that cannot be compared with differences.
var testedElsewhere = map[string]bool{"CastLike": true}
