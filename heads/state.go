package heads

import "github.com/attach-uncertainty/attach/rows"

// What fitted heads are stored as.
type (
	Array  = rows.Array
	State  = rows.State
	Stater = rows.Stater
)

// ArrayOf copies m into an array of shape [rows, cols].
var ArrayOf = rows.ArrayOf

// Vector is v as an array of one dimension.
var Vector = rows.Vector
