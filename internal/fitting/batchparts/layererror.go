package batchparts

// LayerError is an error in earlier layers. The model may run if no earlier layers are read.
type LayerError struct{ Err error }

func (e *LayerError) Error() string { return e.Err.Error() }
func (e *LayerError) Unwrap() error { return e.Err }
