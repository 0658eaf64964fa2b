package inputs

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/attach-uncertainty/attach/internal/data/rows"
)

// Slice is a range of rows with Python's meaning: from Start up to, but not including, End. A
// negative number counts from the end. The zero value is all rows.
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

// Of returns the range among n rows: from the first up to, but not including, the last. As in
// Python, a range beyond the rows is cut off; an empty result is an error.
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

// Slice returns these rows of the set.
func (s *Set) Slice(of Slice) (*Set, error) {
	first, last, err := of.Of(s.Len())
	if err != nil || last-first == s.Len() {
		return s, err
	}
	if s.index == nil { // rows may be too many to number each
		sub := *s
		sub.first, sub.last = s.first+first, s.first+last
		if s.Targets.Rows > 0 {
			sub.Targets = rows.Slice(s.Targets, first, last)
		}
		sub.Labels, sub.Groups, sub.IDs = part(s.Labels, first, last), part(s.Groups, first, last), part(s.IDs, first, last)
		return &sub, nil
	}
	return s.Subset(upTo(last)[first:]), nil
}

func part[T any](all []T, first, last int) []T {
	if all == nil {
		return nil
	}
	return all[first:last]
}
