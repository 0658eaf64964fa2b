// Package attach adds calibrated uncertainty to a network that is already
// trained. [Fit] makes a [Bundle] of rows that the network is meant for: a
// detector of inputs unlike them and, for a regressor, intervals. Save writes it
// to a file, [Open] reads one, and its Predictor says of each row how far it is to
// be trusted.
//
// The package is pure Go and takes what the network makes of inputs: features and
// logits. Package featurize runs the network, for which it needs cgo and a shared
// library. A service that gets features elsewhere needs neither.
//
// # File format
//
// A bundle is a zip file whose entries are stored, not deflated, in sorted
// order and without timestamps, so that equal bundles are equal bytes:
//
//	manifest.json        what follows, as UTF-8 JSON
//	manifest.sha256      hex SHA-256 of manifest.json, as sha256sum writes it
//	detector/*.npy       arrays of the out-of-domain detector
//	quantiles/*.npy      arrays of the quantile head
//	cells/empty.npy      of the rows fitted on, how many have their cell empty, by column
//	calibration/ood.npy  the detector's scores on the calibration rows
//	calibration/labels.npy, calibration/true.npy, calibration/above.npy,
//	calibration/ranks.npy, calibration/top.npy, calibration/grown.npy
//	                     of a classifier's calibration rows, in the same order,
//	                     the true class, its softmax probability, those of the classes
//	                     that rank above it added up, how many these are, the
//	                     largest probability, and those of the classes that an
//	                     ordinal set takes before it added up
//	calibration/predicted.npy
//	                     the class predicted of each of them
//	calibration/fit_hashes.npy, calibration/cal_hashes.npy
//	                     the least of the distinct hashes of the rows fitted on and of
//	                     the calibration rows, at most 4,096 of each, by which rows
//	                     that were used before are found
//	calibration/quantiles.npy, calibration/targets.npy
//	                     targets×rows×levels and targets×rows: the quantile
//	                     head on the calibration rows, and the true values
//	calibration/groups.npy
//	                     the calibration rows' groups, as places in the
//	                     manifest's list of groups
//
// Arrays are NumPy .npy, little-endian, in C order, so that in Python
//
//	b = numpy.load("model.attach"); b["detector/certificates"]; b["manifest.json"]
//
// opens one. The manifest lists every array with its dtype, shape, size and
// SHA-256, and names the base model, the layers of it that the detector reads,
// the preprocessing, each part's method and parameters, the calibration, and
// the library version that wrote it.
//
// # Compatibility
//
// The manifest's "format" is an integer. Every later version of this package
// reads every earlier format. What is added gets the next number once a release reads
// the last, and an older reader refuses it with [ErrNewerFormat]. That the zip holds manifest.json with
// "format" at its top level never changes.
//
// # What is refused
//
// Read takes what Write writes, and nothing else: keys and arrays that nothing
// reads, numbers in another notation, probabilities that no softmax gives, as many rows
// as the manifest does not say. A later version has to write a file that it read as
// it was. Write refuses what Read would, so that what is saved can be opened:
// reading finds methods by name, among [Methods] and a program's own that both
// are given.
//
// The checksums find truncation, corruption and careless edits. They are no
// signature: who can write the file can write its checksums, and a file with
// other weights or other calibration scores is as good as any. A file from
// elsewhere deserves the trust that its sender does.
package attach
