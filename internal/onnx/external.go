package onnx

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"sort"
	"strconv"

	"github.com/attach-uncertainty/attach/internal/onnx/pb"
)

// ErrExternalData is wrapped by the errors about a model's external data.
var ErrExternalData = errors.New("external data")

type external struct {
	location       string
	offset, length int64 // length −1: to the end of the tensor
}

// externalOf reads where a tensor's data lies and refuses places outside the
// model's folder.
func externalOf(t *pb.TensorProto) (external, error) {
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

func missing(t *pb.TensorProto, path string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w of tensor %q is missing: no file %s; put it beside the model", ErrExternalData, t.GetName(), path)
	}
	return fmt.Errorf("%w of tensor %q cannot be read: %w", ErrExternalData, t.GetName(), err)
}

func readExternal(t *pb.TensorProto, dir string, n, size int64) ([]byte, error) {
	e, err := externalOf(t)
	if err != nil {
		return nil, err
	}
	if n > math.MaxInt64/size || (e.length >= 0 && e.length != n*size) {
		return nil, fmt.Errorf("%w of tensor %q has %d bytes where shape %v needs %d values of %d", ErrExternalData, t.GetName(), e.length, t.GetDims(), n, size)
	}
	path := filepath.Join(dir, filepath.FromSlash(e.location))
	f, err := os.Open(path)
	if err != nil {
		return nil, missing(t, path, err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, missing(t, path, err)
	}
	if have := info.Size(); e.offset > have || n*size > have-e.offset {
		return nil, fmt.Errorf("%w file %s is too short: tensor %q needs %d bytes from %d, the file has %d", ErrExternalData, path, t.GetName(), n*size, e.offset, have)
	}
	b := make([]byte, n*size)
	if _, err := f.ReadAt(b, e.offset); err != nil {
		return nil, missing(t, path, err)
	}
	return b, nil
}

// External returns the files, relative to the model's folder, that hold its
// external data: sorted, each once, sub-graphs included. A location outside
// the folder is an error.
func (g *Graph) External() ([]string, error) {
	seen := make(map[string]bool)
	err := g.eachExternal(func(_ *pb.TensorProto, e external) error {
		seen[e.location] = true
		return nil
	})
	if err != nil {
		return nil, err
	}
	files := make([]string, 0, len(seen))
	for f := range seen {
		files = append(files, f)
	}
	sort.Strings(files)
	return files, nil
}

// CheckExternal says whether every file of external data is there and long
// enough; its error names the first that is not.
func (g *Graph) CheckExternal(dir string) error {
	sizes := make(map[string]int64)
	return g.eachExternal(func(t *pb.TensorProto, e external) error {
		path := filepath.Join(dir, filepath.FromSlash(e.location))
		have, ok := sizes[path]
		if !ok {
			info, err := os.Stat(path)
			if err != nil {
				return missing(t, path, err)
			}
			have = info.Size()
			sizes[path] = have
		}
		need := e.length
		if need < 0 {
			n, err := Elements(t)
			if err != nil {
				return err
			}
			need = n
			if size := elementBytes(t.GetDataType()); size > 0 && n <= math.MaxInt64/size {
				need = n * size
			}
		}
		if e.offset > have || need > have-e.offset {
			return fmt.Errorf("%w file %s is too short: tensor %q needs %d bytes from %d, the file has %d", ErrExternalData, path, t.GetName(), need, e.offset, have)
		}
		return nil
	})
}

func (g *Graph) eachExternal(visit func(*pb.TensorProto, external) error) error {
	each := func(t *pb.TensorProto) error {
		if t.GetDataLocation() != pb.TensorProto_EXTERNAL {
			return nil
		}
		e, err := externalOf(t)
		if err != nil {
			return err
		}
		return visit(t, e)
	}
	if err := eachTensor(g.Model.GetGraph(), each); err != nil {
		return err
	}
	for _, f := range g.Model.GetFunctions() {
		if err := eachNodeTensor(f.GetNode(), each); err != nil {
			return err
		}
	}
	return nil
}

func eachTensor(body *pb.GraphProto, visit func(*pb.TensorProto) error) error {
	for _, t := range body.GetInitializer() {
		if err := visit(t); err != nil {
			return err
		}
	}
	for _, s := range body.GetSparseInitializer() {
		for _, t := range []*pb.TensorProto{s.GetValues(), s.GetIndices()} {
			if err := visit(t); err != nil {
				return err
			}
		}
	}
	return eachNodeTensor(body.GetNode(), visit)
}

func eachNodeTensor(nodes []*pb.NodeProto, visit func(*pb.TensorProto) error) error {
	for _, n := range nodes {
		for _, a := range n.GetAttribute() {
			tensors := a.GetTensors()
			if a.GetT() != nil {
				tensors = append([]*pb.TensorProto{a.GetT()}, tensors...)
			}
			for _, t := range tensors {
				if err := visit(t); err != nil {
					return err
				}
			}
			for _, body := range subgraphs(a) {
				if err := eachTensor(body, visit); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// SHA256 returns the hexadecimal digest of a model file. Where the model has
// external data, it is the digest of the file's bytes followed, for each
// external file in the order that External gives, by its name, a zero byte,
// its length as 8 little-endian bytes and its bytes. Nothing is held in
// memory.
func SHA256(path string, external []string) (string, error) {
	h := sha256.New()
	if err := hashFile(h, path); err != nil {
		return "", fmt.Errorf("cannot hash the model: %w", err)
	}
	for _, name := range external {
		full := filepath.Join(filepath.Dir(path), filepath.FromSlash(name))
		info, err := os.Stat(full)
		if err != nil {
			return "", fmt.Errorf("cannot hash the model's external data: %w", err)
		}
		io.WriteString(h, name)
		h.Write(binary.LittleEndian.AppendUint64([]byte{0}, uint64(info.Size())))
		if err := hashFile(h, full); err != nil {
			return "", fmt.Errorf("cannot hash the model's external data: %w", err)
		}
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

func hashFile(w io.Writer, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(w, f)
	return err
}
