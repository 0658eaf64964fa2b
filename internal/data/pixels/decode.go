package pixels

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"image"
	_ "image/gif"
	_ "image/jpeg"
	_ "image/png"
	"io"

	_ "golang.org/x/image/bmp"
	_ "golang.org/x/image/tiff"
	_ "golang.org/x/image/webp"
)

// ErrImage is wrapped by the error for an image that cannot be decoded, or is too large.
var ErrImage = errors.New("not a readable image")

// Size returns the height and width of an encoded image. It returns an error for sizes that
// are too large to allocate.
func Size(r io.Reader) (height, width int, err error) {
	defer recovered(&err)
	cfg, _, err := image.DecodeConfig(bufio.NewReader(r))
	switch {
	case err != nil:
		return 0, 0, fmt.Errorf("%w: %w", ErrImage, err)
	case cfg.Width < 1 || cfg.Height < 1:
		return 0, 0, fmt.Errorf("%w: its size is %d×%d", ErrImage, cfg.Height, cfg.Width)
	}
	if err := CheckArea(cfg.Height, cfg.Width); err != nil {
		return 0, 0, fmt.Errorf("%w: %w", ErrImage, err)
	}
	return cfg.Height, cfg.Width, nil
}

// Decode decodes an image to RGB or, for JPEG, to an image that [From] and [Resize] convert to
// RGB. It first checks the size with [Size] and, if take is not nil, with take.
func Decode(r io.Reader, take func(h, w int) error) (m image.Image, err error) {
	defer recovered(&err)
	var h, w int
	s, seeks := r.(io.Seeker)
	if seeks {
		h, w, err = Size(r)
	} else {
		var head bytes.Buffer
		h, w, err = Size(io.TeeReader(r, &head))
		r = io.MultiReader(&head, r)
	}
	if err == nil && take != nil {
		err = take(h, w)
	}
	if err == nil && seeks {
		_, err = s.Seek(0, io.SeekStart)
	}
	if err != nil {
		return nil, err
	}
	img, format, err := image.Decode(bufio.NewReaderSize(r, 1<<14))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrImage, err)
	}
	if y, ok := img.(*image.YCbCr); ok && format == "webp" {
		return fromVP8(y), nil
	} else if ok {
		return y, nil
	}
	rgb := From(img)
	if at := img.Bounds(); format == "gif" && at != image.Rect(0, 0, w, h) {
		// The frame covers part of the screen, and the rest is black.
		rgb = rgb.window(-at.Min.Y, -at.Min.X, h, w)
	}
	return rgb, nil
}

// recovered turns a panic into an error. Image decoders meet hostile files, which must not end
// the program.
func recovered(err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("%w: its decoder failed: %v", ErrImage, r)
	}
}
