package hypothesis

// Agreement is on how many rows two labellings agree, and on which share of them
// they would if either knew nothing of the other, 0 of no rows.
func Agreement(a, b []int) (agreed int, chance float64) {
	of := map[int]float64{} // rows by their label in a
	for i, label := range a {
		of[label]++
		if label == b[i] {
			agreed++
		}
	}
	rows := float64(len(a))
	for _, label := range b {
		chance += of[label] / rows / rows
	}
	return agreed, chance
}
