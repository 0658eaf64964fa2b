package display

import (
	"strings"
	"testing"
)

func TestList(t *testing.T) {
	names := []string{"a", "b", "c\x1b", strings.Repeat("x", 300)}
	for _, c := range []struct {
		got, want string
	}{
		{List(nil, 2), ""},
		{List(names[:2], 2), "a, b"},
		{List(names, 2), "a, b and 2 more"},
		{List(names[3:], 2), strings.Repeat("x", 200) + "…"},
		{Quoted(names, 3), `"a", "b", "c\x1b" and 1 more`},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
}
