// Package ood defines the interface of methods. A detector distinguishes in-distribution inputs
// from out-of-distribution (OOD) inputs. An interval method predicts quantiles.
//
// A Method is a value. Package attach fits, calibrates and saves methods, and package
// ood/compare compares them. The score of a detector increases with uncertainty. OOD is the
// positive class throughout.
//
// A fit returns a pointer to a struct. A file saves the exported fields that have a tag
// `state:"…"`. The brackets in a tag name the lengths of the axes. Lengths with the same name
// must be equal. The names features, logits and layer_0 stand for the widths of the rows.
//
//	Mean []float64      `state:"mean[features]"`
//	Bank blas32.General `state:"bank[n,features]"`
//	K    int            `state:"k,least=1"`
//
// A saved field has one of these types: int, int64, uint64, float32, float64, bool or string;
// a slice of float32, float64, int, int32, int64, uint8, bool or string; blas32.General or
// blas64.General; a struct, a pointer to a struct, or a slice of either. A fit returns an
// error if a tagged field has another type, or contains NaN, an infinity or a value that the
// tag does not allow. Conditions on values follow the name in the tag, after commas. They are
// also checked when a file is opened:
//
//	least=N      numbers of at least N
//	positive     numbers above 0
//	below=N      numbers below N
//	rising       numbers that never decrease
//	dim=h        a number equal to the length called h
//	of=a|b       one of these strings
//	optional     may be empty
//
// If the struct has a method Restored() error, it is called after the fields are read. It can
// compute other fields from the saved ones.
//
// The example of Method defines a detector, fits it, saves it and opens it again.
package ood
