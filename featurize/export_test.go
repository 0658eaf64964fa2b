package featurize

// Batch is the number of rows in one run.
func (m *Model) Batch() int { return m.batch }
