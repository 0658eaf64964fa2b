// Package inputs reads what a model is run on: .npy and .npz arrays, folders
// and archives of images, and tables.
//
// A [Set] is opened lazily and read in blocks of rows, so that its size is
// bounded by the disk and not by memory. What accompanies the rows (labels,
// targets, names) and tables are held in memory.
//
// The first line of a table is a header if it has a name and no number, or a
// name that is asked for, and else a row: a header of numbers alone cannot be
// told from one.
//
// Widths, rows and sizes are seen from headers before memory is taken for what
// they announce. Of images that are decoded at the same time there are no more
// pixels than the largest one may have.
package inputs
