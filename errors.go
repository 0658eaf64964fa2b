package attach

import (
	"errors"

	"github.com/attach-uncertainty/attach/internal/data/filekind"
	"github.com/attach-uncertainty/attach/internal/data/rows"
)

// The errors of this package wrap one of these if a file or a model is rejected.
var (
	// ErrDamaged means that the file is not a .attach file, is cut short, or was changed.
	ErrDamaged = errors.New("damaged or altered")
	// ErrNewerFormat means that a newer version of this module wrote the file.
	ErrNewerFormat = errors.New("made by a newer attach")
	// ErrUnknownMethod means that this version does not have the detector or the interval
	// method of the file.
	ErrUnknownMethod = errors.New("unknown method")
	// ErrWrongModel means that the bundle was fitted for a different base model, or on
	// features without a model.
	ErrWrongModel = errors.New("wrong model")
	// ErrNoModel means that the base model is not at the path in the bundle.
	ErrNoModel = errors.New("model not found")
)

// notAttachError is an ErrDamaged for a file that is cut short or has another format.
type notAttachError struct{ kind filekind.Kind }

func (e notAttachError) Error() string {
	switch e.kind {
	case filekind.Attach, filekind.Zip, "":
		return "not a .attach file, or cut short"
	}
	return "not a .attach file, but " + string(e.kind)
}

func (e notAttachError) Unwrap() []error { return []error{ErrDamaged, e.kind} }

// NotFinite reports whether err was caused by a NaN or an infinity in a matrix. It also
// returns the row and the column of that number, counted from 0. The text of err names the
// matrix, for example the features.
func NotFinite(err error) (row, col int, ok bool) {
	if notFinite, ok := errors.AsType[*rows.NotFiniteError](err); ok {
		return notFinite.Row, notFinite.Col, true
	}
	return 0, 0, false
}
