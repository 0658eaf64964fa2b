package compare

// Choose enters what was selected.
func (r *Report) Choose(s Selected) { r.choose(s) }
