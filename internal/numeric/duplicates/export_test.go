package duplicates

// Near returns the distance within which rows count as copies.
func (r *Reference) Near() float64 { return r.maxDistance }
