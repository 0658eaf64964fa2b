package onnx

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"

	"google.golang.org/protobuf/proto"

	"github.com/attach-uncertainty/attach/internal/data/atomicfile"
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
)

const (
	// maxInline is the largest size of a model that Save writes to a single file.
	// protobuf's own limit is 2 GiB.
	maxInline = 1 << 30
	// minSeparate is the smallest size in bytes of a tensor that moves to the data file if
	// the model is too large for one file.
	minSeparate = 1 << 10
	// DataSuffix is appended to the model's file name to name the data file.
	DataSuffix = ".data"
	// dataAlignment is the alignment in bytes of tensors in the data file. ONNX recommends
	// 4096.
	dataAlignment = 4096
)

// Save writes a model to path atomically, and changes m. dir is the folder of the external
// data of m. If the model is too large for one file, Save writes the weights to
// path+DataSuffix and returns that path as data.
func Save(ctx context.Context, m *pb.ModelProto, dir, path string) (data string, err error) {
	return save(ctx, m, dir, path, maxInline)
}

func save(ctx context.Context, m *pb.ModelProto, dir, path string, limit int64) (data string, err error) {
	tensors := externalTensors(m)
	size := int64(proto.Size(m))
	for _, t := range tensors {
		n, err := externalSize(t)
		if err != nil {
			return "", err
		}
		size += n
	}
	var commit func() error
	if size <= limit {
		for _, t := range tensors {
			if t.RawData, err = readExternalBytes(t, dir); err != nil {
				return "", err
			}
			t.ExternalData, t.DataLocation = nil, nil
		}
	} else {
		data = path + DataSuffix
		if commit, err = writeDataFile(ctx, m, dir, data); err != nil {
			return "", err
		}
	}
	raw, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		return "", err
	}
	if commit != nil {
		if err := commit(); err != nil {
			return "", err
		}
	}
	err = atomicfile.WriteFile(ctx, path, func(w io.Writer) error {
		_, err := w.Write(raw)
		return err
	})
	if err != nil && data != "" {
		os.Remove(data)
	}
	return data, err
}

// writeDataFile writes large tensors to a data file and their new locations to the model.
// The file has a temporary name until the caller calls commit.
func writeDataFile(ctx context.Context, m *pb.ModelProto, dir, path string) (commit func() error, err error) {
	f, err := atomicfile.Create(ctx, path)
	if err != nil {
		return nil, err
	}
	list := externalTensors(m)
	for _, t := range m.GetGraph().GetInitializer() {
		if t.GetDataLocation() != pb.TensorProto_EXTERNAL && len(t.RawData) >= minSeparate {
			list = append(list, t)
		}
	}
	var at int64
	for _, t := range list {
		raw := t.RawData
		if t.GetDataLocation() == pb.TensorProto_EXTERNAL {
			raw, err = readExternalBytes(t, dir)
		}
		if err == nil {
			_, err = f.Write(make([]byte, -at&(dataAlignment-1)))
		}
		at += -at & (dataAlignment - 1)
		if err == nil {
			_, err = f.Write(raw)
		}
		if err != nil {
			f.Abort()
			return nil, err
		}
		entry := func(key, value string) *pb.StringStringEntryProto {
			return &pb.StringStringEntryProto{Key: new(key), Value: new(value)}
		}
		t.RawData, t.DataLocation = nil, pb.TensorProto_EXTERNAL.Enum()
		t.ExternalData = []*pb.StringStringEntryProto{
			entry("location", filepath.Base(path)), entry("offset", strconv.FormatInt(at, 10)), entry("length", strconv.Itoa(len(raw))),
		}
		at += int64(len(raw))
	}
	return f.Commit, nil
}

// externalSize returns the number of bytes of a tensor's external data.
func externalSize(t *pb.TensorProto) (int64, error) {
	e, err := parseExternal(t)
	if err != nil || e.length >= 0 {
		return e.length, err
	}
	n, err := Elements(t)
	if err != nil {
		return 0, err
	}
	size := elementTypes[pb.TensorProto_DataType(t.GetDataType())].bytes
	if size == 0 {
		return 0, fmt.Errorf("%w of tensor %q is of a type without a size, and has no length", ErrExternalData, t.GetName())
	}
	return n * size, nil
}

// readExternalBytes reads the external data of a tensor.
func readExternalBytes(t *pb.TensorProto, dir string) ([]byte, error) {
	n, err := externalSize(t)
	if err != nil {
		return nil, err
	}
	return readExternal(t, dir, n, 1)
}
