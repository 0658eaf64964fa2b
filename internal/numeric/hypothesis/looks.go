package hypothesis

// Looks are the ranks among n calibration rows at which rows are counted: those of
// the p-values ½, ¼, ⅛, … down to the least. Close to each other they would tell
// little more, and each takes its share of the error allowed.
func Looks(n int) []int {
	var at []int
	for part := 2; ; part *= 2 {
		k := (n + part) / part // ⌈(n+1)/part⌉
		at = append(at, k)
		if k == 1 {
			return at
		}
	}
}
