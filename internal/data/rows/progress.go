package rows

// Progress is called with the completed fraction of some work, from 0 to 1. The methods of
// a nil Progress do nothing.
type Progress func(fraction float64)

// Tell calls p with the completed fraction, unless p is nil.
func (p Progress) Tell(fraction float64) {
	if p != nil {
		p(fraction)
	}
}

// Sub returns a Progress for a part of the work. Fractions of the part, from 0 to 1, become
// fractions of the whole between from and to.
func (p Progress) Sub(from, to float64) Progress {
	if p == nil {
		return nil
	}
	return func(fraction float64) { p(from + (to-from)*fraction) }
}

// Part returns a Progress for part i of n equal parts, where i counts from 0.
func (p Progress) Part(i, n int) Progress {
	return p.Sub(float64(i)/float64(n), float64(i+1)/float64(n))
}

// Rising returns a Progress that never reports a smaller fraction than before.
func (p Progress) Rising() Progress {
	if p == nil {
		return nil
	}
	largest := 0.
	return func(fraction float64) {
		largest = max(largest, fraction)
		p(largest)
	}
}
