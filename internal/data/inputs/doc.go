// Package inputs reads what a model is run on: .npy and .npz arrays, folders
// and archives of images, and tables.
//
// A [Set] is opened lazily and read in blocks of rows, so that its size is
// bounded by the disk and not by memory. What accompanies the rows (labels,
// targets, names) is held in memory, and of a table of text where each row begins.
//
// [Open] tells by a path's name what opens it, and makes a Set of a source: what names
// rows and the tensors that they bring, and opens a reader of any of them. Sources are
//
//	table         cells of a text, of JSON lines or of Parquet, whose columns tableReader binds to tensors
//	imageSource   pictures: files of a folder, members of an archive, cells of a Parquet file
//	pixelSource   images in an array of bytes
//	arraySource   other arrays
//	memberArrays  arrays that are members of an archive
//	memberTexts   texts that are
//	joined        several of these, each of which brings some tensors of the same rows
//
// Precomputed features, targets and groups in files of their own are no Set: they are
// arrays by name ([OpenFeatures]) or columns of a table that is all targets or groups.
//
// A table is a file of rows with cells: numbers, texts, and in JSON lines and
// Parquet lists of numbers. Its columns are a model's inputs by their names; else
// texts go to the tokenizer, a column of files to the input that is images, and
// numbers in their order to what is left. What a column holds is seen from the first
// 64 rows.
//
// The first line of a table is a header if it has a name and no number, or a
// name that is asked for, and else a row: a header of numbers alone cannot be
// told from one.
//
// Widths, rows and sizes are seen from headers before memory is taken for what
// they announce. Of images that are decoded at the same time there are no more
// pixels than the largest one may have.
package inputs
