// Package ood defines the contract of a method: a detector, which tells in-distribution from
// out-of-distribution (OOD) inputs, or an interval method, which predicts quantiles.
//
// A Method is a value. Package attach fits, calibrates and saves it, and package ood/compare
// compares it with others. A score grows with uncertainty, and OOD is the positive class
// throughout.
//
// A fit returns a pointer to a struct. Its fields with a tag `state:"…"`, which must be
// exported, are saved in a file. Lengths with the same name must be equal; features, logits
// and layer_0 are the widths of the rows.
//
//	Mean []float64      `state:"mean[features]"`
//	Bank blas32.General `state:"bank[n,features]"`
//	K    int            `state:"k,least=1"`
//
// A saved field has one of these types: int, int64, uint64, float32, float64, bool and string;
// slices of float32, float64, int, int32, int64, uint8, bool and string; blas32.General and
// blas64.General, whose axes the brackets name; structs, pointers to them, and slices of
// either. A fit returns an error if a tagged field has another type, or contains NaN, an
// infinity or a value that the tag does not allow. Conditions follow the name after commas,
// and are checked when a file is opened:
//
//	least=N      numbers of at least N
//	positive     numbers above 0
//	below=N      numbers below N
//	rising       numbers that do not fall
//	dim=h        a number that is the length called h
//	of=a|b       one of these strings
//	optional     may be empty
//
// A method Restored() error computes fields that derive from the saved ones.
package ood
