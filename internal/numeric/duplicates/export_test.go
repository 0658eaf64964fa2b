package duplicates

// Near is how near copies are.
func (r *Reference) Near() float64 { return r.near }
