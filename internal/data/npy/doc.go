// Package npy reads and writes NumPy's .npy and .npz files.
//
// It is the module's one door to these formats. Every length in a file is
// checked before memory is taken for it, and a malformed file is an error,
// never a panic. Versions 1.0, 2.0 and 3.0 are read, in C and Fortran order,
// little- and big-endian; version 1.0, C order and little-endian is written.
//
// Arrays come out as [rows.Array], always in C order, with the element types
// widened as follows:
//
//	float16, float32                → []float32
//	float64                         → []float64
//	int8 … int64, uint16 … uint64   → []int64 (a uint64 over 2⁶³−1 is an error)
//	uint8, bool                     → []uint8
//
// Structured arrays, strings, complex numbers and Python objects are refused.
//
// All of it is ours, since github.com/sbinet/npyio (v0.6.0)
//
//   - panics on malformed headers and on keys in another order than NumPy's,
//     refuses version 3.0, and takes the memory that a header asks for;
//   - makes elements up where a file ends early or a read is short, as reads of
//     a deflated file are;
//   - leaves a slice in Fortran order as it is, and reads no matrix of float32;
//   - knows no float16;
//   - reads whole arrays, in three times the time of encoding/binary;
//   - writes slices as arrays of one axis.
//
// The format is described in NumPy's documentation of numpy.lib.format.
package npy
