package rows

import "testing"

func TestCount(t *testing.T) {
	for n, want := range []string{"0 classes", "1 class", "2 classes"} {
		if got := Count(n, "class"); got != want {
			t.Errorf("%d is %q", n, got)
		}
	}
	if got := Count(1, "other row") + ", " + Count(2, "row"); got != "1 other row, 2 rows" {
		t.Error(got)
	}
}
