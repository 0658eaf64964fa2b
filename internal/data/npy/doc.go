// Package npy reads and writes NumPy's .npy and .npz files.
//
// All reading and writing of these formats goes through this package. It checks every
// length in a file before it allocates memory, so a malformed file causes an error, never a
// panic. The package reads versions 1.0, 2.0 and 3.0, in C and Fortran order, little- and
// big-endian. It writes version 1.0 in C order and little-endian.
//
// Arrays are returned as [rows.Array], always in C order. Element types are widened as
// follows:
//
//	float16, float32                → []float32
//	float64                         → []float64
//	int8 … int64, uint16 … uint64   → []int64 (a uint64 over 2⁶³−1 is an error)
//	uint8, bool                     → []uint8
//
// Arrays of texts are read only by [Lazy.Texts]. Structured arrays, complex numbers and Python
// objects cause an error.
//
// This package exists because github.com/sbinet/npyio (v0.6.0)
//
//   - panics for malformed headers and for keys in a different order from NumPy's,
//     rejects version 3.0, and allocates the memory that a header claims;
//   - invents elements if a file ends early, or if a read returns fewer bytes
//     than requested, as is common for compressed files;
//   - does not reorder a slice in Fortran order, and cannot read a float32 matrix;
//   - does not support float16;
//   - reads only whole arrays, and takes three times as long as encoding/binary;
//   - writes slices only as arrays with one axis.
//
// NumPy's documentation of numpy.lib.format describes the format.
package npy
