package attach

import (
	"errors"

	"github.com/attach-uncertainty/attach/internal/data/filekind"
	"github.com/attach-uncertainty/attach/internal/data/rows"
)

// Reasons to reject a file or a model. Errors of this package wrap them.
var (
	// ErrDamaged: the file is not a .attach file, is cut short, or was changed.
	ErrDamaged = errors.New("damaged or altered")
	// ErrNewerFormat: a newer version of this module wrote the file.
	ErrNewerFormat = errors.New("made by a newer attach")
	// ErrUnknownMethod: this version does not know the detector or the interval method of the
	// file.
	ErrUnknownMethod = errors.New("unknown method")
	// ErrWrongModel: the bundle belongs to another base model, or to none.
	ErrWrongModel = errors.New("wrong model")
	// ErrNoModel: the base model is not at the path in the bundle.
	ErrNoModel = errors.New("model not found")
)

// notBundle is the ErrDamaged for a file of another kind, or for one that is cut short.
type notBundle struct{ kind filekind.Kind }

func (e notBundle) Error() string {
	switch e.kind {
	case filekind.Attach, filekind.Zip, "":
		return "not a .attach file, or cut short"
	}
	return "not a .attach file, but " + string(e.kind)
}

func (e notBundle) Unwrap() []error { return []error{ErrDamaged, e.kind} }

// NotFinite reports whether err is about a NaN or an infinity in a matrix, and returns its row
// and column, counted from 0. The text of err names the matrix, for example the features, the
// targets or weights.
func NotFinite(err error) (row, col int, ok bool) {
	if bad, ok := errors.AsType[*rows.NotFiniteError](err); ok {
		return bad.Row, bad.Col, true
	}
	return 0, 0, false
}
