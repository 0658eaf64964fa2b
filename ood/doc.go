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
// The brackets name the axes of a slice or a matrix. Numbers, truth values and
// strings are kept too, and so are structs, pointers to them and slices of
// either. After commas stands what is held of a file:
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
