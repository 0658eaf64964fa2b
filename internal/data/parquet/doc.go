// Package parquet reads columns of Parquet files: numbers, texts, bytes, and
// lists of these, in any encoding and compression that the library parquet-go
// knows.
//
// A file is read in the memory of the pages that rows lie in, never as a whole.
// A file that is damaged ends in an error that wraps [ErrFormat].
package parquet
