package rows

// Progress is called with the fraction of some work that is done. Nil ignores it.
type Progress func(share float64)

// Tell calls p with the fraction, unless p is nil.
func (p Progress) Tell(share float64) {
	if p != nil {
		p(share)
	}
}

// Sub returns the progress for a part of the work that covers a range of fractions.
func (p Progress) Sub(from, to float64) Progress {
	if p == nil {
		return nil
	}
	return func(share float64) { p(from + (to-from)*share) }
}

// Part returns Sub for part i of n equal parts.
func (p Progress) Part(i, n int) Progress {
	return p.Sub(float64(i)/float64(n), float64(i+1)/float64(n))
}

// Rising returns a progress that never decreases.
func (p Progress) Rising() Progress {
	if p == nil {
		return nil
	}
	told := 0.
	return func(share float64) {
		told = max(told, share)
		p(told)
	}
}
