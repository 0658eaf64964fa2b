// Package attach adds calibrated uncertainty to a model that is already trained. [Fit] creates
// a [Bundle] from in-distribution rows. The bundle has a detector of out-of-distribution
// inputs and, for a regressor, an interval model. [Bundle.Save] writes it to a .attach file,
// and [Open] reads the file. A [Predictor] of the bundle then computes, for each row, how far
// to trust the prediction.
//
// The package is pure Go. Its inputs are features and logits that the model computed. Package
// featurize runs the model; this needs cgo and a shared library. A service whose features come
// from another process needs only this package.
//
// # File format
//
// A .attach file is a zip file. Its entries are stored, not deflated, in sorted order and
// without timestamps. Equal bundles therefore have equal bytes:
//
//	manifest.json        everything but arrays, as UTF-8 JSON
//	manifest.sha256      hex SHA-256 of manifest.json, as sha256sum writes it
//	detector/*.npy       arrays of the detector
//	quantiles/*.npy      arrays of the interval model
//	features/*.npy       mean and standard deviation of each standardised feature
//	text/*.npy           files of the tokenizer, as bytes
//	profile/columns.npy  the profile of the inputs, as JSON: see package schema
//	cells/empty.npy      for each column, the number of fit rows in which it is empty; these
//	                     include the calibration rows if those have more empty cells
//
// The arrays below calibration/ have one entry for each calibration row, except the ratio and
// the hashes. If only some calibration rows calibrate intervals, the quantiles, the targets and
// the groups have entries for these rows only:
//
//	ood.npy         the detector's score
//	predicted.npy   the predicted class
//	labels.npy      the true class
//	true.npy        the softmax probability of the true class
//	above.npy       the total probability of the classes that rank above the true class
//	ranks.npy       the number of classes that rank above the true class
//	top.npy         the largest probability of any class
//	grown.npy       the total probability of the classes that an ordinal set
//	                takes before the true class
//	quantiles.npy   the interval model's quantiles, targets×rows×levels
//	targets.npy     the true targets, targets×rows
//	groups.npy      the group, as an index into the manifest's list of groups
//	weights.npy     the weight
//	interval_weights.npy
//	                the weights of the rows that calibrate intervals, if not all do
//	folds.npy       the fold, if the intervals are cross-fitted
//	ratio.npy       the coefficients and the intercept of the logarithm of the density
//	                ratio, which is the weight of a new row
//	fit_hashes.npy, cal_hashes.npy
//	                the smallest distinct hashes of the fit rows and of the
//	                calibration rows, at most 4,096 of each, which identify
//	                rows that were used before
//
// The arrays are NumPy .npy files, little-endian, in C order. Python can read them directly:
//
//	b = numpy.load("model.attach"); b["detector/certificates"]; b["manifest.json"]
//
// The manifest lists every array with its dtype, shape, size and SHA-256. It also names the
// base model, the earlier layers that the detector reads, the preprocessing, and the library
// version. It describes the calibration, and the method and parameters of the detector and the
// interval model.
//
// # Compatibility
//
// The manifest has a format version, the integer "format". Every version of this package reads
// all earlier formats, and returns [ErrNewerFormat] for a later one. An addition to the format
// gets the next number if a release already reads the current one. Write uses the oldest format
// that can hold the bundle:
//
//   - Format 2 adds the profile of the inputs.
//   - Format 3 adds the words of texts to the profile.
//   - Format 4 adds intervals that only some of the calibration rows calibrate.
//   - Format 5 adds weights of calibration rows.
//   - Format 6 adds the nonconformity score of intervals.
//   - Format 7 adds cross-fitted intervals: the fold of each calibration row, and one interval
//     model for each fold. It also adds the nonconformity score "ridge".
//
// Two things never change: the zip contains manifest.json, and it has "format" at its top level.
//
// # What is rejected
//
// Read accepts exactly what Write writes. For example, it rejects unknown keys, unknown
// arrays, numbers in another notation, and probabilities that no softmax gives. Therefore
// every later version that reads a file must write it again with the same bytes. Write
// rejects bundles that Read would reject, so that every saved file can be opened. Both find
// methods by name, among [Methods] and the custom methods passed to them.
//
// The checksums detect truncation, corruption and careless edits. They are not a signature:
// anyone who can write the file can also write its checksums, and other weights or calibration
// scores look just as valid. Trust a file as much as you trust its sender.
package attach
