package ort

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// extract unpacks the listed files from the package in the folder download. This folder
// must contain only that package.
func (c client) extract(ctx context.Context, download, dst string, files []pinnedFile) error {
	path, err := onlyFile(download, c.ext)
	if err != nil {
		return err
	}
	missing := slices.Clone(files)
	err = c.visitMembers(ctx, path, func(name string, r io.Reader) error {
		i := slices.IndexFunc(missing, func(p pinnedFile) bool { return p.member == name })
		if i < 0 {
			return nil
		}
		if err := writeFile(ctx, filepath.Join(dst, missing[i].name), r); err != nil {
			return err
		}
		if missing = slices.Delete(missing, i, i+1); len(missing) == 0 {
			return fs.SkipAll
		}
		return nil
	})
	if errors.Is(err, fs.SkipAll) {
		return nil
	}
	if err == nil {
		err = fmt.Errorf("%s is not in the package", missing[0].member)
	}
	return err
}

// tarMembers calls visit for each regular file in an npm package.
func tarMembers(ctx context.Context, path string, visit func(name string, r io.Reader) error) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	gz, err := gzip.NewReader(ctxReader{ctx, f}) // stop on cancellation even inside members that are skipped
	if err != nil {
		return err
	}
	for tr := tar.NewReader(gz); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil && h.Typeflag == tar.TypeReg {
			err = visit(h.Name, tr)
		}
		if err != nil {
			return err
		}
	}
}

// wheelMembers calls visit for each regular file in a wheel, the package format of pip.
func wheelMembers(_ context.Context, path string, visit func(name string, r io.Reader) error) error {
	zr, err := zip.OpenReader(path)
	if err != nil {
		return err
	}
	defer zr.Close()
	for _, f := range zr.File {
		if !f.Mode().IsRegular() {
			continue
		}
		r, err := f.Open()
		if err == nil {
			err = visit(f.Name, r)
			r.Close()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// maxLibrary is the largest size in bytes of an unpacked file. It protects the disk from a
// malicious archive. The largest pinned file has 260 MiB.
const maxLibrary = 1 << 30

// writeFile writes a new executable file.
func writeFile(ctx context.Context, path string, r io.Reader) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	n, err := io.Copy(f, io.LimitReader(ctxReader{ctx, r}, maxLibrary))
	if err == nil && n == maxLibrary {
		err = errors.New("the file is larger than any that is published")
	}
	if e := f.Close(); err == nil {
		err = e
	}
	return err
}

// ctxReader is a reader that fails after its context is cancelled.
type ctxReader struct {
	ctx context.Context
	r   io.Reader
}

func (c ctxReader) Read(p []byte) (int, error) {
	if c.ctx.Err() != nil {
		return 0, context.Cause(c.ctx)
	}
	return c.r.Read(p)
}
