package inputs

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/attach-uncertainty/attach/internal/data/rows"
)

// Slice is a range of rows as in Python, from Start up to but not including End. A negative
// number counts from the end. The zero value stands for all rows.
type Slice struct {
	Start, End int
	Ends       bool // whether End is given; otherwise the range extends to the last row
}

// ParseSlice parses START:END; either number may be left out.
func ParseSlice(text string) (s Slice, err error) {
	start, end, ok := strings.Cut(text, ":")
	if !ok {
		return s, errors.New("it has no colon")
	}
	if start != "" {
		s.Start, err = strconv.Atoi(start)
	}
	if end != "" && err == nil {
		s.End, err = strconv.Atoi(end)
		s.Ends = true
	}
	return s, err
}

func (s Slice) String() string {
	var b strings.Builder
	if s.Start != 0 {
		b.WriteString(strconv.Itoa(s.Start))
	}
	b.WriteByte(':')
	if s.Ends {
		b.WriteString(strconv.Itoa(s.End))
	}
	return b.String()
}

// Of returns the range among n rows, from first up to but not including last. As in Python,
// numbers beyond the rows are cut off. An empty range is an error.
func (s Slice) Of(n int) (first, last int, err error) {
	at := func(i int) int {
		if i < 0 {
			i += n
		}
		return min(max(i, 0), n)
	}
	first, last = at(s.Start), n
	if s.Ends {
		last = at(s.End)
	}
	if first >= last {
		err = fmt.Errorf("%w: rows %v of %d are requested", ErrEmpty, s, n)
	}
	return first, last, err
}

// Slice returns the rows of the set in a range.
func (s *Set) Slice(selected Slice) (*Set, error) {
	first, last, err := selected.Of(s.Len())
	if err != nil || last-first == s.Len() {
		return s, err
	}
	if s.index == nil { // avoid an index of all rows, which could be large
		sub := *s
		sub.first, sub.last = s.first+first, s.first+last
		if s.Targets.Rows > 0 {
			sub.Targets = rows.Slice(s.Targets, first, last)
		}
		sub.Labels, sub.Groups, sub.IDs = subslice(s.Labels, first, last), subslice(s.Groups, first, last), subslice(s.IDs, first, last)
		return &sub, nil
	}
	return s.Subset(upTo(last)[first:]), nil
}

func subslice[T any](all []T, first, last int) []T {
	if all == nil {
		return nil
	}
	return all[first:last]
}
