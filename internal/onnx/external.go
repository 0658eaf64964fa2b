package onnx

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/attach-uncertainty/attach/internal/data/regularfile"
	"github.com/attach-uncertainty/attach/internal/onnx/pb"
)

// ErrExternalData is wrapped by errors about a model's external data.
var ErrExternalData = errors.New("external data")

// external is the location of a tensor's data in a file outside the model.
type external struct {
	location       string
	offset, length int64 // a length of −1 means that the model does not state it
}

// parseExternal reads the location of a tensor's external data. It returns an error if the
// location is outside the model's folder.
func parseExternal(t *pb.TensorProto) (external, error) {
	e := external{length: -1}
	for _, kv := range t.GetExternalData() {
		var err error
		switch kv.GetKey() {
		case "location":
			e.location = kv.GetValue()
		case "offset":
			e.offset, err = strconv.ParseInt(kv.GetValue(), 10, 64)
		case "length":
			e.length, err = strconv.ParseInt(kv.GetValue(), 10, 64)
		}
		if err != nil || e.offset < 0 || e.length < -1 {
			return e, fmt.Errorf("%w of tensor %q has the impossible %s %q", ErrExternalData, t.GetName(), kv.GetKey(), kv.GetValue())
		}
	}
	if e.location == "" {
		return e, fmt.Errorf("%w of tensor %q names no file", ErrExternalData, t.GetName())
	}
	if e.location[0] == '*' || !filepath.IsLocal(filepath.FromSlash(e.location)) {
		return e, fmt.Errorf("%w of tensor %q points outside the model's folder: %q is refused", ErrExternalData, t.GetName(), e.location)
	}
	return e, nil
}

// checkSize returns an error if the file is too short for tensor t. The file has have bytes,
// and the tensor needs need bytes from the offset on.
func (e external) checkSize(t *pb.TensorProto, have, need int64) error {
	if e.offset > have || need > have-e.offset {
		return fmt.Errorf("%w file %s is too short: tensor %q needs %d bytes from %d, the file has %d", ErrExternalData, e.location, t.GetName(), need, e.offset, have)
	}
	return nil
}

// openExternal opens a file of external data and returns its size in bytes. Like ONNX
// Runtime, it follows a link only if the target is in the model's folder.
func openExternal(dir, location string) (*os.File, int64, error) {
	path := filepath.Join(dir, filepath.FromSlash(location))
	f, err := openInside(dir, path)
	if err != nil {
		if pathErr, ok := errors.AsType[*fs.PathError](err); ok {
			err = pathErr.Err
		}
		return nil, 0, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, 0, err
	}
	return f, info.Size(), nil
}

var errLinkOutside = errors.New("it is a link out of the model's folder; put the file itself there")

// openInside opens the file path if it is in the folder dir after links are resolved.
func openInside(dir, path string) (*os.File, error) {
	base, err := resolvePath(dir)
	if err != nil {
		return nil, err
	}
	target, err := resolvePath(path)
	if err != nil {
		return nil, err
	}
	name, err := filepath.Rel(base, target)
	if err != nil || !filepath.IsLocal(name) {
		return nil, errLinkOutside
	}
	root, err := os.OpenRoot(base)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	return regularfile.OpenIn(root, name)
}

// resolvePath returns the absolute path of a file after all links are resolved.
func resolvePath(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(path)
}

// readError explains an error of opening or reading the external data of t.
func readError(t *pb.TensorProto, err error) error {
	if pathErr, ok := errors.AsType[*fs.PathError](err); ok && errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w of tensor %q is missing: no file %s; put it beside the model", ErrExternalData, t.GetName(), pathErr.Path)
	}
	return fmt.Errorf("%w of tensor %q cannot be read: %w", ErrExternalData, t.GetName(), err)
}

// readExternal reads the external data of t: n elements of size bytes each.
func readExternal(t *pb.TensorProto, dir string, n, size int64) ([]byte, error) {
	e, err := parseExternal(t)
	if err != nil {
		return nil, err
	}
	if e.length >= 0 && e.length != n*size {
		return nil, fmt.Errorf("%w of tensor %q has %d bytes where shape %v needs %d values of %d", ErrExternalData, t.GetName(), e.length, t.GetDims(), n, size)
	}
	f, have, err := openExternal(dir, e.location)
	if err != nil {
		return nil, readError(t, err)
	}
	defer f.Close()
	if err := e.checkSize(t, have, n*size); err != nil {
		return nil, err
	}
	b := make([]byte, n*size)
	if _, err := f.ReadAt(b, e.offset); err != nil {
		return nil, readError(t, err)
	}
	return b, nil
}

// External returns the files that contain the model's external data, including the data of
// subgraphs. Paths are relative to the model's folder, sorted and unique. If a location is
// outside the folder, External returns an error.
func (g *Graph) External() ([]string, error) {
	seen := make(map[string]bool)
	for _, t := range externalTensors(g.Model) {
		e, err := parseExternal(t)
		if err != nil {
			return nil, err
		}
		seen[e.location] = true
	}
	return slices.Sorted(maps.Keys(seen)), nil
}

// CheckExternal returns an error if a tensor's external data has an invalid location, or if
// the file there is missing or too short.
func CheckExternal(m *pb.ModelProto, dir string) error {
	sizes := make(map[string]int64)
	for _, t := range externalTensors(m) {
		e, err := parseExternal(t)
		if err != nil {
			return err
		}
		if _, ok := sizes[e.location]; !ok {
			f, size, err := openExternal(dir, e.location)
			if err != nil {
				return readError(t, err)
			}
			f.Close()
			sizes[e.location] = size
		}
		need := e.length
		if need < 0 {
			if need, err = Elements(t); err != nil {
				return err
			}
			if size := elementTypes[pb.TensorProto_DataType(t.GetDataType())].bytes; size > 0 && need <= math.MaxInt64/size {
				need *= size
			}
		}
		if err := e.checkSize(t, sizes[e.location], need); err != nil {
			return err
		}
	}
	return nil
}

// externalTensors returns the tensors of a model that have external data, including those
// in subgraphs and functions.
func externalTensors(m *pb.ModelProto) []*pb.TensorProto {
	var list []*pb.TensorProto
	add := func(tensors ...*pb.TensorProto) {
		for _, t := range tensors {
			if t.GetDataLocation() == pb.TensorProto_EXTERNAL {
				list = append(list, t)
			}
		}
	}
	sparse := func(tensors ...*pb.SparseTensorProto) {
		for _, s := range tensors {
			add(s.GetValues(), s.GetIndices())
		}
	}
	var graph func(*pb.GraphProto)
	attributes := func(list []*pb.AttributeProto) {
		for _, a := range list {
			add(a.GetT())
			add(a.GetTensors()...)
			sparse(a.GetSparseTensor())
			sparse(a.GetSparseTensors()...)
			for _, body := range subgraphs(a) {
				graph(body)
			}
		}
	}
	nodes := func(list []*pb.NodeProto) {
		for _, n := range list {
			attributes(n.GetAttribute())
		}
	}
	graph = func(g *pb.GraphProto) {
		add(g.GetInitializer()...)
		sparse(g.GetSparseInitializer()...)
		nodes(g.GetNode())
	}
	graph(m.GetGraph())
	for _, f := range m.GetFunctions() {
		attributes(f.GetAttributeProto())
		nodes(f.GetNode())
	}
	return list
}

// SHA256 returns the hexadecimal digest of a model file. If the model has external data,
// the digest covers the bytes of the model file followed by each external file, in the
// order of External. An external file contributes its name, a zero byte, its length as 8
// little-endian bytes, and its bytes. Files are streamed, because they may be larger than
// memory.
func SHA256(ctx context.Context, path string, external []string) (string, error) {
	h := sha256.New()
	f, err := regularfile.Open(path)
	if err == nil {
		err = hashFile(ctx, h, f)
	}
	if err != nil {
		return "", fmt.Errorf("cannot hash the model: %w", err)
	}
	for _, name := range external {
		f, size, err := openExternal(filepath.Dir(path), name)
		if err == nil {
			io.WriteString(h, name)
			h.Write(binary.LittleEndian.AppendUint64([]byte{0}, uint64(size)))
			err = hashFile(ctx, h, f)
		}
		if err != nil {
			return "", fmt.Errorf("cannot hash the model's external data: %w", err)
		}
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// hashFile adds the content of a file to a hash and closes the file.
func hashFile(ctx context.Context, w io.Writer, f *os.File) error {
	defer f.Close()
	for {
		// External files may take minutes to hash, so check for cancellation after each
		// chunk.
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		_, err := io.CopyN(w, f, 64<<20)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
