// Package attach adds calibrated uncertainty to a model that is already trained. [Fit] creates
// a [Bundle] from in-distribution rows: a detector of out-of-distribution inputs and, for a
// regressor, an interval model. Save writes it to a .attach file, and [Open] reads one. Its
// Predictor tells, for each row, how far to trust the prediction.
//
// The package is pure Go. It uses features and logits that the model computed. Package
// featurize runs the model, for which it needs cgo and a shared library. A service that gets
// features from elsewhere needs neither.
//
// # File format
//
// A .attach file is a zip file whose entries are stored, not deflated, in sorted order and
// without timestamps, so that equal bundles are equal bytes:
//
//	manifest.json        everything but arrays, as UTF-8 JSON
//	manifest.sha256      hex SHA-256 of manifest.json, as sha256sum writes it
//	detector/*.npy       arrays of the detector
//	quantiles/*.npy      arrays of the interval model
//	cells/empty.npy      number of fit rows whose cell is empty, by column
//	calibration/ood.npy  the detector's scores on the calibration rows
//	calibration/labels.npy, calibration/true.npy, calibration/above.npy,
//	calibration/ranks.npy, calibration/top.npy, calibration/grown.npy
//	                     for a classifier, by calibration row, in the same order:
//	                     the true class, its softmax probability, the sum over classes
//	                     that rank above it, their number, the largest
//	                     probability, and the sum over the classes that an
//	                     ordinal set takes before it
//	calibration/predicted.npy
//	                     the predicted class of each calibration row
//	calibration/fit_hashes.npy, calibration/cal_hashes.npy
//	                     the smallest distinct hashes of the fit rows and of
//	                     the calibration rows, at most 4,096 of each, which
//	                     identify rows that were used before
//	calibration/quantiles.npy, calibration/targets.npy
//	                     targets×rows×levels and targets×rows: the interval
//	                     model's quantiles on the calibration rows, and the targets
//	calibration/groups.npy
//	                     the groups of the calibration rows, as indices into the
//	                     manifest's list of groups
//
// Arrays are NumPy .npy, little-endian, in C order, so that in Python
//
//	b = numpy.load("model.attach"); b["detector/certificates"]; b["manifest.json"]
//
// opens one. The manifest lists every array with its dtype, shape, size and SHA-256. It also
// names the base model, the earlier layers that the detector reads, the preprocessing, the
// method and parameters of each part, the calibration, and the library version that wrote it.
//
// # Compatibility
//
// The manifest's "format" is an integer. Every later version of this package reads every
// earlier format. Additions get the next number once a release reads the last one, and an
// older version then returns [ErrNewerFormat]. Two things never change: the zip contains
// manifest.json, and it has "format" at its top level.
//
// # What is rejected
//
// Read accepts exactly what Write writes. It rejects unknown keys and arrays, numbers in
// another notation, probabilities that no softmax gives, and other numbers of rows than in the
// manifest. Therefore a later version must write a file that it read without changes. Write
// rejects what Read would reject, so that a saved file can be opened. Methods are found by
// name, among [Methods] and custom methods that are passed to both.
//
// The checksums detect truncation, corruption and careless edits. They are not a signature:
// anyone who can write the file can also write its checksums, and other weights or calibration
// scores look just as valid. Trust a file as much as you trust its sender.
package attach
