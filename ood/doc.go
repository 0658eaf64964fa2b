// Package ood holds the contract that every method keeps, be it one of telling
// in-domain from out-of-domain inputs or one of predicting intervals.
//
// A Method is a value. Package attach fits, calibrates and saves it, and package
// ood/compare sets it beside others. A score grows with uncertainty, and
// out-of-domain is the positive class throughout.
//
// What a method fits is a pointer to a struct. Its fields with a tag, all of them
// exported, are what a file keeps of it, and lengths of one name are equal:
// features, logits and layer_0 are those of the rows.
//
//	Mean []float64      `state:"mean[features]"`
//	Bank blas32.General `state:"bank[n,features]"`
//	K    int            `state:"k,least=1"`
//
// Kept are int, int64, uint64, float32, float64, bool and string; slices of float32,
// float64, int, int32, int64, uint8, bool and string, and blas32.General and
// blas64.General, whose axes the brackets name; structs, pointers to them and slices
// of either. A fit of what has a tag and is none of these is an error, and so is one
// that leaves NaN, an infinity or what the tag does not allow. After commas stands
// what is held of a file:
//
//	least=N      numbers of at least N
//	positive     numbers above 0
//	below=N      numbers below N
//	rising       numbers that do not fall
//	dim=h        a number that is the length called h
//	of=a|b       one of these strings
//	optional     may be empty
//
// What is derived from them a method Restored() error works out.
package ood
