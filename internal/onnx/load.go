package onnx

import (
	"errors"
	"fmt"
	"os"

	"google.golang.org/protobuf/proto"

	"github.com/attach-uncertainty/attach/internal/data/filekind"
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
)

// ErrNotONNX is wrapped by errors of Load and Parse if the bytes are not a complete ONNX
// model.
var ErrNotONNX = errors.New("not an ONNX model")

// maxProto is the largest size of a protobuf message: 2 GiB.
const maxProto = 1<<31 - 1

// maxDepth is the deepest nesting of messages that ONNX Runtime accepts.
const maxDepth = 100

// Load reads and indexes a model file. It does not read external data. To check that data,
// call CheckExternal.
func Load(path string) (*Graph, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("cannot read the model: %w", err)
	}
	if info.IsDir() {
		return nil, fmt.Errorf("%s is a folder: %w; pass the .onnx file", path, ErrNotONNX)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is %w: it is not a regular file", path, ErrNotONNX)
	}
	if info.Size() > maxProto {
		return nil, fmt.Errorf("%s is %w: it has %d bytes, but protobuf is limited to 2 GiB; larger models keep their weights in external data", path, ErrNotONNX, info.Size())
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("cannot read the model: %w", err)
	}
	g, err := Parse(b)
	if err != nil {
		return nil, fmt.Errorf("%s is %w", path, err)
	}
	return g, nil
}

// Parse indexes a serialized ModelProto. Its errors wrap ErrNotONNX. Their texts continue a
// sentence that begins with the file's name and "is".
func Parse(b []byte) (*Graph, error) {
	if len(b) == 0 {
		return nil, fmt.Errorf("%w: it is empty", ErrNotONNX)
	}
	if kind := filekind.Of(b); kind != "" && kind != filekind.ONNX {
		return nil, fmt.Errorf("%w, but %w", ErrNotONNX, kind)
	}
	m := new(pb.ModelProto)
	if err := (proto.UnmarshalOptions{RecursionLimit: maxDepth}).Unmarshal(b, m); err != nil {
		return nil, fmt.Errorf("%w, or a truncated one: its protobuf ends early or is malformed", ErrNotONNX)
	}
	return Index(m)
}

// Index indexes a model in memory. The graph refers to m without a copy. After a change to
// m, call Index again.
func Index(m *pb.ModelProto) (*Graph, error) {
	switch {
	case m.GetIrVersion() <= 0 && len(m.GetOpsetImport()) == 0:
		return nil, fmt.Errorf("%w: it has neither an IR version nor an operator set", ErrNotONNX)
	case m.GetGraph() == nil:
		return nil, fmt.Errorf("%w, or a truncated one: it holds no graph", ErrNotONNX)
	case len(m.GetGraph().GetOutput()) == 0:
		return nil, fmt.Errorf("%w, or a truncated one: its graph has no outputs", ErrNotONNX)
	}
	return newGraph(m), nil
}
