// Package npy reads and writes NumPy's .npy and .npz files.
//
// All reading and writing of these formats goes through this package. It checks every length
// in a file before it allocates memory, and a malformed file is an error, never a panic. It
// reads versions 1.0, 2.0 and 3.0, in C and Fortran order, little- and big-endian. It writes
// version 1.0, C order and little-endian.
//
// Arrays are returned as [rows.Array], always in C order, with element types widened as
// follows:
//
//	float16, float32                → []float32
//	float64                         → []float64
//	int8 … int64, uint16 … uint64   → []int64 (a uint64 over 2⁶³−1 is an error)
//	uint8, bool                     → []uint8
//
// Structured arrays, strings, complex numbers and Python objects are errors.
//
// This package replaces github.com/sbinet/npyio (v0.6.0), because that
//
//   - panics for malformed headers and for keys in another order than NumPy's,
//     rejects version 3.0, and allocates the memory that a header claims;
//   - invents elements if a file ends early or a read is short, as reads of
//     a compressed file are;
//   - does not reorder a slice in Fortran order, and cannot read a float32 matrix;
//   - does not support float16;
//   - reads only whole arrays, in three times the time of encoding/binary;
//   - writes slices only as arrays with one axis.
//
// NumPy's documentation of numpy.lib.format describes the format.
package npy
