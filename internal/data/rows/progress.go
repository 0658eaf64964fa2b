package rows

// Progress is told the share of some work that is done; nil listens to nothing.
type Progress func(share float64)

// Tell tells the share.
func (p Progress) Tell(share float64) {
	if p != nil {
		p(share)
	}
}

// Sub is the progress of a part of the work, which begins at one share of it and
// ends at another.
func (p Progress) Sub(from, to float64) Progress {
	if p == nil {
		return nil
	}
	return func(share float64) { p(from + (to-from)*share) }
}

// Part is Sub of the i-th of n equal parts.
func (p Progress) Part(i, n int) Progress {
	return p.Sub(float64(i)/float64(n), float64(i+1)/float64(n))
}

// Rising is the progress without steps back.
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
