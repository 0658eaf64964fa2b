package engine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/internal/audit"
	"github.com/attach-uncertainty/attach/internal/data/inputs"
	"github.com/attach-uncertainty/attach/internal/data/regularfile"
)

// local are shards that --fitted names, on this machine.
func (e *Engine) local(ctx context.Context, names []string) ([]source, error) {
	all, err := e.find(ctx, "--fitted", names)
	for i, one := range all {
		if isURL(one.path) && err == nil {
			all[i].path, _, err = e.storage.Fetch(ctx, one.path)
		}
	}
	return all, err
}

// digest is of the names and content of shards, empty where there are none.
func digest(ctx context.Context, shards []source) (string, error) {
	if len(shards) == 0 {
		return "", nil
	}
	h := sha256.New()
	for _, one := range shards {
		files := []string{""}
		if info, err := os.Stat(one.path); err != nil {
			return "", err
		} else if info.IsDir() {
			in, err := inputs.Images(ctx, one.path)
			if err != nil {
				return "", err
			}
			files = in.Files
		}
		for _, name := range files {
			sum, err := regularfile.SHA256(filepath.Join(one.path, filepath.FromSlash(name)))
			if err != nil {
				return "", err
			}
			fmt.Fprintf(h, "%q %q %s\n", one.Name, name, sum)
		}
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// fittedRows reads the features of shards, and keys of their rows.
func (e *Engine) fittedRows(ctx context.Context, shards []source) (features blas32.General, keys []string, err error) {
	for _, one := range shards {
		r, _, err := e.shardRows(ctx, one.Name, one.path, audit.Identity{})
		if err != nil {
			return features, nil, err
		}
		first := len(keys)
		for batch, err := range r.Batches(ctx, 0) {
			if err != nil {
				return features, nil, inputs.InFile(one.path, err)
			}
			x := batch.Features
			features.Rows, features.Cols, features.Stride = features.Rows+x.Rows, x.Cols, x.Cols
			for i := range x.Rows {
				key, _, _ := r.Name(len(keys) - first)
				keys = append(keys, key)
				features.Data = append(features.Data, x.Data[i*x.Stride:i*x.Stride+x.Cols]...)
			}
		}
	}
	return features, keys, nil
}
