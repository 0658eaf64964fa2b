// Package parquet reads columns of Parquet files: numbers, texts, bytes, and lists of these,
// in any encoding and compression that the library parquet-go supports.
//
// The package keeps only the pages of the current rows in memory, never a whole file. For a
// damaged file it returns an error that wraps [ErrFormat].
package parquet
