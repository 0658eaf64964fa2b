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

// ErrImage is wrapped by the error of what cannot be decoded, or is too large.
var ErrImage = errors.New("not a readable image")

// Size reads the height and width of an encoded image, and refuses those that no
// memory is taken for.
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

// Decode decodes an image, once [Size] and take, where that is not nil, take its size,
// to RGB or, of JPEG, to what [From] and [Resize] make RGB of.
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
		// The frame covers part of the screen; the rest is black.
		rgb = rgb.window(-at.Min.Y, -at.Min.X, h, w)
	}
	return rgb, nil
}

// recovered makes an error of a panic. Decoders of images meet files that nobody
// has tried on them; what such a file does to one must not end the program.
func recovered(err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("%w: its decoder failed: %v", ErrImage, r)
	}
}
