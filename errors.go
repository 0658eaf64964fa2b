package attach

import (
	"errors"

	"github.com/attach-uncertainty/attach/internal/rows"
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

// notBundle is ErrDamaged of a file that is no bundle at all, or is cut short.
type notBundle struct{}

func (notBundle) Error() string { return "not an attach file, or cut short" }
func (notBundle) Unwrap() error { return ErrDamaged }

// NotFiniteError says which number of the rows is not finite.
type NotFiniteError = rows.NotFiniteError
