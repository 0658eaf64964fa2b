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

	"github.com/attach-uncertainty/attach/internal/regular"
)

// imageKinds are the file name extensions of images.
var imageKinds = []string{".png", ".jpg", ".jpeg", ".gif", ".bmp", ".tif", ".tiff", ".webp"}

func isImage(path string) bool {
	return slices.Contains(imageKinds, strings.ToLower(filepath.Ext(path)))
}

// decodeFile decodes the image at path, unless accept refuses its size, which is
// asked before memory is taken for pixels. Errors name the path.
func decodeFile(path string, accept func(h, w int) error) (m pixels, err error) {
	defer recovered(path, &err)
	img, format, screen, err := decodeImage(path, accept)
	if err != nil {
		return pixels{}, err
	}
	if y, ok := img.(*image.YCbCr); ok && format == "webp" {
		return fromVP8(y), nil
	}
	m = fromImage(img)
	if at := img.Bounds(); format == "gif" && at != screen {
		// The frame covers part of the screen; the rest is black.
		m = m.window(-at.Min.Y, -at.Min.X, screen.Dy(), screen.Dx())
	}
	return m, nil
}

// recovered makes an error of a panic. Decoders of images meet files that nobody
// has tried on them; what such a file does to one must not end the program.
func recovered(path string, err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("%s: %w: its decoder failed: %v", path, ErrImage, r)
	}
}

// ErrImage is wrapped by the error of a file that its name says is an image.
var ErrImage = errors.New("not a readable image")

func decodeImage(path string, accept func(h, w int) error) (img image.Image, format string, screen image.Rectangle, err error) {
	f, err := regular.Open(path)
	if err != nil {
		return nil, "", screen, err
	}
	defer f.Close()
	w, h, format, err := decodeSize(f)
	if err == nil {
		err = accept(h, w)
	}
	if err != nil {
		return nil, "", screen, fmt.Errorf("%s: %w", path, err)
	}
	screen = image.Rect(0, 0, w, h)
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return nil, "", screen, err
	}
	img, format, err = image.Decode(bufio.NewReaderSize(f, 1<<16))
	if err != nil {
		return nil, "", screen, fmt.Errorf("%s: %w: %w", path, ErrImage, err)
	}
	return img, format, screen, nil
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
	if err := checkArea(cfg.Height, cfg.Width); err != nil {
		return 0, 0, "", err
	}
	return cfg.Width, cfg.Height, format, nil
}
