package hypothesis

// Agreement returns the number of rows on which two labellings agree. chance is the fraction
// on which they would agree by chance if they were independent. Both are 0 without rows.
func Agreement(a, b []int) (agreed int, chance float64) {
	counts := map[int]float64{} // number of rows with each label in a
	for i, label := range a {
		counts[label]++
		if label == b[i] {
			agreed++
		}
	}
	rows := float64(len(a))
	for _, label := range b {
		chance += counts[label] / rows / rows
	}
	return agreed, chance
}
