// Package testmodels holds small trained networks and inputs for them, made by
// the Python scripts beside it: what `attach demo` shows and what tests use.
// README.md says what each file is and which command made it.
//
// The digit networks classify 24×24 grey images of the digits 0–9. None of the
// stored rows was used to train them. The toy regressor has one input and one
// target.
package testmodels

import "embed"

// FS holds the models and inputs that a program can use without a checkout:
//
//	digits_resnet.onnx      classifier, residual with batch norm, φ = 64
//	digits_vgg.onnx         classifier, VGG with dropout, φ = 128
//	digits.preprocess.json  how images become their input
//	digits_fit.npz          images uint8 n×24×24, labels uint8 n: to fit heads
//	digits_cal.npz          as above, to calibrate on
//	digits_test.npz         as above: in-domain rows to measure on
//	letters.npz             images as above: out-of-domain rows
//	toy_regressor.onnx      regressor of one input, φ = 100
//	toy_fit.npz             x float32 n×1, y float32 n
//	toy_cal.npz             as above, to calibrate on
//	toy_test.npz            as above, to measure on
//
// FS leaves out the folders images and odd, which only tests need.
//
//go:embed digits_resnet.onnx digits_vgg.onnx digits.preprocess.json
//go:embed digits_fit.npz digits_cal.npz digits_test.npz letters.npz
//go:embed toy_regressor.onnx toy_fit.npz toy_cal.npz toy_test.npz
var FS embed.FS
