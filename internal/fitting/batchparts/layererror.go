package batchparts

// LayerError is an error of earlier layers: where none are read the network may
// run.
type LayerError struct{ Err error }

func (e *LayerError) Error() string { return e.Err.Error() }
func (e *LayerError) Unwrap() error { return e.Err }
