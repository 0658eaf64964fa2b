// Package inputs reads what a model is run on: .npy and .npz arrays, folders
// and archives of images, and tables.
//
// A [Set] is opened lazily and read in blocks of rows, so that its size is
// bounded by the disk and not by memory. What accompanies the rows (labels,
// targets, names) is held in memory, and of a table of text where each row begins.
//
// [Open] chooses a reader by the name of the path, and makes a Set from a source. A source
// names the rows and their tensors, and opens a reader of any rows. The sources are
//
//	table         cells of a text, of JSON lines or of Parquet, whose columns tableReader binds to tensors
//	imageSource   pictures: files of a folder, members of an archive, cells of a Parquet file
//	pixelSource   images in an array of bytes
//	arraySource   other arrays
//	memberArrays  arrays that are members of an archive
//	memberTexts   texts that are members of an archive
//	joined        several sources, each with some of the tensors of the same rows
//
// Precomputed features, targets and groups in separate files do not make a Set. They are
// arrays by name ([OpenFeatures]), or tables that hold only targets or groups.
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
// Headers are checked for widths, rows and sizes before memory is allocated for the data
// that they announce. Images that are decoded at the same time have, together, at most as
// many pixels as the largest permitted image.
package inputs
