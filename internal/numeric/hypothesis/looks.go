package hypothesis

// Looks returns the ranks among n calibration rows at which rows are counted. They correspond
// to the p-values ½, ¼, ⅛, … down to the smallest possible one. More ranks would add little
// information, but each would need its own part of the allowed error.
func Looks(n int) []int {
	var ranks []int
	for divisor := 2; ; divisor *= 2 {
		k := (n + divisor) / divisor // ⌈(n+1)/divisor⌉
		ranks = append(ranks, k)
		if k == 1 {
			return ranks
		}
	}
}
