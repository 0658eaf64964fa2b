package batchparts

// LayerError is an error about earlier layers. The model can still run if earlier layers
// are not read.
type LayerError struct{ Err error }

func (e *LayerError) Error() string { return e.Err.Error() }
func (e *LayerError) Unwrap() error { return e.Err }
