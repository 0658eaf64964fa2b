package inputs

import (
	"errors"
	"testing"
)

// TestSlice checks ranges against Python's range(n)[text].
func TestSlice(t *testing.T) {
	for _, c := range []struct {
		text        string
		n           int
		first, last int // equal if the range is empty
	}{
		{":", 5, 0, 5}, {"0:3", 5, 0, 3}, {"2:", 5, 2, 5}, {":-1", 5, 0, 4}, {"-2:", 5, 3, 5}, {"-9:2", 5, 0, 2},
		{"1:99", 5, 1, 5}, {"-3:-1", 5, 2, 4}, {"3:3", 5, 3, 3}, {":0", 5, 0, 0}, {"4:2", 5, 2, 2}, {"7:", 5, 5, 5},
	} {
		s, err := ParseSlice(c.text)
		if err != nil || s.String() != c.text && c.text != "0:3" {
			t.Errorf("%s is read as %v, %v", c.text, s, err)
		}
		first, last, err := s.Of(c.n)
		if c.first == c.last {
			if !errors.Is(err, ErrEmpty) {
				t.Errorf("%s of %d: rows %d to %d, error %v", c.text, c.n, first, last, err)
			}
		} else if err != nil || first != c.first || last != c.last {
			t.Errorf("%s of %d: rows %d to %d, error %v; want %d to %d", c.text, c.n, first, last, err, c.first, c.last)
		}
	}
	for _, text := range []string{"", "3", "a:", ":b", "1:2:3", "1.5:"} {
		if _, err := ParseSlice(text); err == nil {
			t.Errorf("%q is taken for rows", text)
		}
	}
}
