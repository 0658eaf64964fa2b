// Package onnx reads ONNX models, indexes them, and builds new ones.
//
// A model is kept as its protobuf message, so whatever this package does not
// know (newer IR versions, newer operator sets, unknown fields) survives being
// read and written again.
package onnx
