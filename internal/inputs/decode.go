package inputs

import (
	"bufio"
	"errors"
	"fmt"
	"image"
	_ "image/gif"
	_ "image/jpeg"
	_ "image/png"
	"io"
	"path/filepath"
	"slices"
	"strings"

	_ "golang.org/x/image/bmp"
	_ "golang.org/x/image/tiff"
	_ "golang.org/x/image/webp"

	"github.com/attach-uncertainty/attach/internal/inputs/jpeg"
	"github.com/attach-uncertainty/attach/internal/regular"
)

// imageKinds are the file name extensions of images.
var imageKinds = []string{".png", ".jpg", ".jpeg", ".gif", ".bmp", ".tif", ".tiff", ".webp"}

func isImage(path string) bool {
	return slices.Contains(imageKinds, strings.ToLower(filepath.Ext(path)))
}

// decodeFile decodes the image at path. Errors name the path.
func decodeFile(path string) (pixels, error) {
	img, format, err := decodeImage(path)
	if err != nil {
		return pixels{}, err
	}
	if y, ok := img.(*image.YCbCr); ok && format == "webp" {
		return fromVP8(y), nil
	}
	return fromImage(img), nil
}

// ErrImage is wrapped by the error of a file that its name says is an image.
var ErrImage = errors.New("not a readable image")

func decodeImage(path string) (img image.Image, format string, err error) {
	f, err := regular.Open(path)
	if err != nil {
		return nil, "", err
	}
	defer f.Close()
	// Decoders of images meet files that nobody has tried on them; what such a
	// file does to one must not end the program.
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%s: %w: its decoder failed: %v", path, ErrImage, r)
		}
	}()
	w, h, format, err := decodeSize(f)
	if err != nil {
		return nil, "", fmt.Errorf("%s: %w", path, err)
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return nil, "", err
	}
	if format == "jpeg" {
		b, err := io.ReadAll(f)
		if err != nil {
			return nil, "", err
		}
		if img, err = jpeg.Decode(b); err == nil {
			return img, format, nil
		}
		// What is unusual, or damaged in a way that others may bear, goes to
		// the standard library.
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			return nil, "", err
		}
	}
	img, format, err = image.Decode(bufio.NewReaderSize(f, 1<<16))
	if err != nil {
		return nil, "", fmt.Errorf("%s: %w: %w", path, ErrImage, err)
	}
	if format == "gif" {
		img = onCanvas(img, w, h)
	}
	return img, format, nil
}

// decodeSize reads an image's size and refuses those that no memory is taken
// for.
func decodeSize(r io.Reader) (w, h int, format string, err error) {
	cfg, format, err := image.DecodeConfig(bufio.NewReader(r))
	if err != nil {
		return 0, 0, "", fmt.Errorf("%w: %w", ErrImage, err)
	}
	if cfg.Width < 1 || cfg.Height < 1 {
		return 0, 0, "", fmt.Errorf("%w: its size is %d×%d", ErrImage, cfg.Height, cfg.Width)
	}
	if cfg.Width > maxPixels/cfg.Height {
		return 0, 0, "", fmt.Errorf("an image of %d×%d is over the limit of %d pixels", cfg.Height, cfg.Width, maxPixels)
	}
	return cfg.Width, cfg.Height, format, nil
}
