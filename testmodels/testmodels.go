// Package testmodels contains small trained networks and inputs for them, for `attach demo` and
// for tests. Python scripts in the same folder created the files. README.md describes each file
// and the command that created it.
//
// The digit networks classify 24×24 grey images of the digits 0–9. They were trained on images
// that are not stored. The toy regressor has one input and one target.
package testmodels

import "embed"

// FS holds the models and inputs that a program can use without a checkout. Each model has φ
// features:
//
//	digits_resnet.onnx      classifier, residual with batch norm, φ = 64
//	digits_vgg.onnx         classifier, VGG with dropout, φ = 128
//	digits.preprocess.json  the preprocessing of images
//	digits_fit.npz          fit rows: images uint8 n×24×24, labels uint8 n
//	digits_cal.npz          calibration rows: images, labels
//	digits_test.npz         in-distribution test rows: images, labels
//	letters.npz             out-of-distribution rows: images, labels, classes (ASCII codes)
//	toy_regressor.onnx      regressor of one input, φ = 100
//	toy_fit.npz             fit rows: x float32 n×1, y float32 n
//	toy_cal.npz             calibration rows: x, y
//	toy_test.npz            test rows: x, y
//
// FS does not contain the folders images and odd, because only tests need them.
//
//go:embed digits_resnet.onnx digits_vgg.onnx digits.preprocess.json
//go:embed digits_fit.npz digits_cal.npz digits_test.npz letters.npz
//go:embed toy_regressor.onnx toy_fit.npz toy_cal.npz toy_test.npz
var FS embed.FS
