// Package inputs reads the inputs of a model: .npy and .npz arrays, folders and archives of
// images, and tables.
//
// A [Set] is read in blocks of rows, so its size is limited by the disk and not by memory.
// Only labels, targets, groups and names of rows are kept in memory and, for text tables,
// the positions of some rows.
//
// [Open] chooses a reader by the extension of the path, and makes a Set from a source. A
// source names the rows and their tensors, and opens a reader that reads any rows. The
// sources are
//
//	table         cells of a text, of JSON lines or of Parquet, whose columns tableReader binds to tensors
//	imageSource   pictures: files of a folder, members of an archive, cells of a Parquet file
//	pixelSource   images in an array of bytes
//	arraySource   other arrays
//	memberArrays  arrays that are members of an archive
//	memberTexts   texts that are members of an archive
//	joined        several sources, each with some of the tensors of the same rows
//
// Precomputed features, targets and groups in separate files are not a Set. They are named
// arrays ([OpenFeatures]), or tables that contain only targets or groups.
//
// A table is a file of rows with cells. A cell is a number, a text or, in JSON lines and
// Parquet files, a list of numbers. Columns are matched with a model's inputs by name.
// Other columns are matched by their content: texts go to the tokenizer, file names to the
// image input, and numbers in order to the remaining inputs. The first 64 rows determine
// the kind of a column, unless all its cells there are empty.
//
// The first line of a table is a header if it contains a name and no number, or a requested
// name. Any other first line is a row, so a header that contains a number is recognised
// only by a requested name.
//
// The widths, rows and sizes in the header of a file are checked before memory is allocated
// for them. All images that are decoded at the same time have together at most as many
// pixels as the largest permitted image.
package inputs
