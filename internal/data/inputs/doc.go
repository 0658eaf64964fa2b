// Package inputs reads the inputs of a model: .npy and .npz arrays, folders and archives of
// images, and tables.
//
// A [Set] is opened lazily and read in blocks of rows, so that its size is limited by the disk
// and not by memory. Labels, targets and names of rows are in memory, and for text tables the
// position of some rows.
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
// A table is a file of rows with cells: numbers, texts, and in JSON lines and Parquet lists of
// numbers. Columns are matched with a model's inputs by name. Otherwise texts go to the
// tokenizer, a column of file names to the image input, and numbers in order to the remaining
// inputs. The first 64 rows determine the kind of a column.
//
// The first line of a table is a header if it has a name and no number, or a requested name.
// Otherwise it is a row: a header that contains only numbers cannot be recognised.
//
// Headers are checked for widths, rows and sizes before memory is allocated for the data
// that they announce. Images that are decoded at the same time have, together, at most as
// many pixels as the largest permitted image.
package inputs
