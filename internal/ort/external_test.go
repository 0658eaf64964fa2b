package ort_test

import (
	"context"
	"encoding/binary"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/attach-uncertainty/attach/internal/onnx/pb"
	"github.com/attach-uncertainty/attach/internal/ort"
	"github.com/attach-uncertainty/attach/internal/ort/orttest"
)

// external is a model whose weight lies in a file, and the file's content.
func external(t *testing.T) (model, weights []byte) {
	entry := func(k, v string) *pb.StringStringEntryProto {
		return &pb.StringStringEntryProto{Key: proto.String(k), Value: proto.String(v)}
	}
	g := graph(value("x", ort.Float32, -1, 2), value("y", ort.Float32, -1, 2), node("Add", []string{"x", "w"}, "y"))
	g.Initializer = []*pb.TensorProto{{Name: proto.String("w"), DataType: proto.Int32(int32(ort.Float32)), Dims: []int64{2},
		DataLocation: pb.TensorProto_EXTERNAL.Enum(),
		ExternalData: []*pb.StringStringEntryProto{entry("location", "sub/w.bin"), entry("offset", "4096"), entry("length", strconv.Itoa(8))}}}
	weights = make([]byte, 4096+8)
	binary.LittleEndian.PutUint32(weights[4096:], math.Float32bits(10))
	binary.LittleEndian.PutUint32(weights[4100:], math.Float32bits(20))
	return marshal(t, g), weights
}

func TestExternalData(t *testing.T) {
	r := orttest.Open(t)
	model, weights := external(t)
	dir := t.TempDir()
	file, data := filepath.Join(dir, "m.onnx"), filepath.Join(dir, "sub", "w.bin")
	for _, err := range []error{os.WriteFile(file, model, 0o600), os.Mkdir(filepath.Dir(data), 0o700)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	models := map[string]ort.Model{"file": {Path: file}, "bytes": {Data: model, Dir: dir}, "bytes of a file": {Data: model, Path: file}}
	for name, m := range models {
		_, err := r.NewSession(context.Background(), m, nil, nil)
		if !errors.Is(err, ort.ErrExternalData) || !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), data) {
			t.Errorf("%s, missing: got %v", name, err)
		}
	}
	if err := os.WriteFile(data, weights[:4100], 0o600); err != nil {
		t.Fatal(err)
	}
	for name, m := range models {
		if _, err := r.NewSession(context.Background(), m, nil, nil); !errors.Is(err, ort.ErrExternalData) || !strings.Contains(err.Error(), "holds 4100 bytes") {
			t.Errorf("%s, short: got %v", name, err)
		}
	}
	if err := os.WriteFile(data, weights, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, m := range models {
		y := run(t, open(t, r, m), tensor(t, []int64{1, 2}, []float32{1, 2}))
		if got := y.Float32s(); !slices.Equal(got, []float32{11, 22}) {
			t.Errorf("%s: got %v", name, got)
		}
	}
	if _, err := r.NewSession(context.Background(), ort.Model{Data: model}, nil, nil); !errors.Is(err, ort.ErrExternalData) {
		t.Errorf("no folder: got %v", err)
	}
}
