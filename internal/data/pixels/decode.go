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

// ErrImage is wrapped by errors for images that cannot be decoded or are too large.
var ErrImage = errors.New("not a readable image")

// Size returns the height and width of an encoded image. It returns an error for sizes that
// are too large to allocate.
func Size(r io.Reader) (height, width int, err error) {
	defer recoverError(&err)
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

// Decode decodes an image. It returns RGB or, for JPEG, an image that [From] and [Resize]
// convert to RGB. Before decoding it checks the size with [Size] and, if check is not nil,
// with check.
func Decode(r io.Reader, check func(h, w int) error) (m image.Image, err error) {
	defer recoverError(&err)
	var h, w int
	s, seeks := r.(io.Seeker)
	if seeks {
		h, w, err = Size(r)
	} else {
		var head bytes.Buffer
		h, w, err = Size(io.TeeReader(r, &head))
		r = io.MultiReader(&head, r)
	}
	if err == nil && check != nil {
		err = check(h, w)
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
		// The frame of a GIF may cover only a part of the image. The rest is black.
		rgb = rgb.window(-at.Min.Y, -at.Min.X, h, w)
	}
	return rgb, nil
}

// recoverError turns a panic of an image decoder into an error, so that a hostile file
// cannot end the program.
func recoverError(err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("%w: its decoder failed: %v", ErrImage, r)
	}
}
