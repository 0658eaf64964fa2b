package ort_test

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/attach-uncertainty/attach/internal/onnx"
	"github.com/attach-uncertainty/attach/internal/onnx/ort"
	"github.com/attach-uncertainty/attach/internal/onnx/ort/orttest"
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
)

// external returns a model whose weight is in a separate file, and the content of that
// file.
func external() (m ort.Model, weights []byte) {
	entry := func(k, v string) *pb.StringStringEntryProto {
		return &pb.StringStringEntryProto{Key: proto.String(k), Value: proto.String(v)}
	}
	g := graph(value("x", pb.TensorProto_FLOAT, -1, 2), value("y", pb.TensorProto_FLOAT, -1, 2), node("Add", []string{"x", "w"}, "y"))
	g.Initializer = []*pb.TensorProto{{Name: proto.String("w"), DataType: proto.Int32(int32(pb.TensorProto_FLOAT)), Dims: []int64{2},
		DataLocation: pb.TensorProto_EXTERNAL.Enum(),
		ExternalData: []*pb.StringStringEntryProto{entry("location", "sub/w.bin"), entry("offset", "4096"), entry("length", strconv.Itoa(8))}}}
	weights = make([]byte, 4096+8)
	binary.LittleEndian.PutUint32(weights[4096:], math.Float32bits(10))
	binary.LittleEndian.PutUint32(weights[4100:], math.Float32bits(20))
	return model(g), weights
}

func TestExternalData(t *testing.T) {
	r := orttest.Open(t)
	m, weights := external()
	m.Dir = t.TempDir()
	data := filepath.Join(m.Dir, "sub", "w.bin")
	if err := os.Mkdir(filepath.Dir(data), 0o700); err != nil {
		t.Fatal(err)
	}
	_, err := r.NewSession(context.Background(), m, nil, nil)
	if !errors.Is(err, onnx.ErrExternalData) || !strings.Contains(err.Error(), data) {
		t.Errorf("missing: got %v", err)
	}
	if err := os.WriteFile(data, weights[:4100], 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = r.NewSession(context.Background(), m, nil, nil)
	if !errors.Is(err, onnx.ErrExternalData) || !strings.Contains(err.Error(), "the file has 4100") {
		t.Errorf("short: got %v", err)
	}
	if err := os.WriteFile(data, weights, 0o600); err != nil {
		t.Fatal(err)
	}
	y := run(t, open(t, r, m), tensor(t, []int64{1, 2}, []float32{1, 2}))
	if got := y.Float32s(); !slices.Equal(got, []float32{11, 22}) {
		t.Errorf("got %v", got)
	}
}
