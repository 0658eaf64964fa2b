package attach

import (
	"errors"

	"github.com/attach-uncertainty/attach/internal/data/filekind"
	"github.com/attach-uncertainty/attach/internal/data/rows"
)

// Reasons to refuse a file or a model; errors of this package wrap them.
var (
	// ErrDamaged: the file is no bundle at all, is cut short, or holds what was not
	// written.
	ErrDamaged = errors.New("damaged or altered")
	// ErrNewerFormat: the file was written by a newer version of this module.
	ErrNewerFormat = errors.New("made by a newer attach")
	// ErrUnknownMethod: the bundle's detector or quantile method is not known to
	// this version.
	ErrUnknownMethod = errors.New("unknown method")
	// ErrWrongModel: the bundle belongs to another base model, or to none.
	ErrWrongModel = errors.New("wrong base model")
	// ErrNoModel: the base model is not where the bundle says.
	ErrNoModel = errors.New("no base model")
)

// notBundle is ErrDamaged of a file of another kind, or of one that is cut short.
type notBundle struct{ kind filekind.Kind }

func (e notBundle) Error() string {
	switch e.kind {
	case filekind.Attach, filekind.Zip, "":
		return "not an attach file, or cut short"
	}
	return "not an attach file, but " + string(e.kind)
}

func (e notBundle) Unwrap() []error { return []error{ErrDamaged, e.kind} }

// NotFinite reports whether err refuses a matrix because a number in it is NaN or
// infinite, and returns the row and the column of that number, counted from 0. The text
// of err names the matrix, such as the features, the targets or weights.
func NotFinite(err error) (row, col int, ok bool) {
	if bad, ok := errors.AsType[*rows.NotFiniteError](err); ok {
		return bad.Row, bad.Col, true
	}
	return 0, 0, false
}
