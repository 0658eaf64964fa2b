package hypothesis

// Looks returns the ranks among n calibration rows at which rows are counted: those of the
// p-values ½, ¼, ⅛, … down to the smallest possible. More ranks would add little information,
// and each would need a part of the allowed error.
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
