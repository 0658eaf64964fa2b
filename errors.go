package attach

import (
	"errors"

	"github.com/attach-uncertainty/attach/internal/rows"
)

// Reasons to refuse a file or a model; errors of this package wrap them.
var (
	// ErrNotBundle: the file is no bundle at all, or is cut short.
	ErrNotBundle = errors.New("not an attach file, or cut short")
	// ErrDamaged: the file is a bundle whose content is not what was written.
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

// NotFiniteError says which number of the rows is not finite.
type NotFiniteError = rows.NotFiniteError
