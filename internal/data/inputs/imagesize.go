package inputs

import "github.com/attach-uncertainty/attach/internal/data/imagesize"

// CheckImages returns an error where the rows are images and, prepared, not of
// the shape that the model takes, of which -1 is any size. It says what the first
// image is and how preprocessing would make such a shape of it.
func (s *Set) CheckImages(takes []int) error {
	var name string
	var h, w int
	var shape []int
	if src, ok := find[*imageSource](s.src); ok {
		name, h, w, shape = src.path(src.first), src.h, src.w, src.none.Shape[1:]
	} else if src, ok := find[*pixelSource](s.src); ok {
		name, h, w, shape = src.name(s.Row(0)), src.frame.h, src.frame.w, src.none.Shape[1:]
	}
	if shape == nil {
		return nil
	}
	return InFile(name, imagesize.Check(s.layout, h, w, shape, takes))
}
