package regions

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/reproduce/experiment"
	"github.com/attach-uncertainty/attach/reproduce/experiment/experimenttest"
)

// TestCompare checks that ellipsoids are much smaller only if errors are correlated.
func TestCompare(t *testing.T) {
	for _, tt := range []struct{ correlation, low, high float64 }{{.9, .2, .6}, {0, .66, 1.2}} {
		x, y, err := drawn("", 2, tt.correlation).read("")
		if err != nil {
			t.Fatal(err)
		}
		few := experiment.Indices(1200)
		f, err := fit(t.Context(), rows.Select(x, few), rows.Select(y, few), methods()[0], .9, 1)
		if err != nil {
			t.Fatal(err)
		}
		r, err := f.compare(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if v := *r.VolumeRatio; v < tt.low || v > tt.high || r.Box.Fraction < .8 || r.Ellipsoid.Fraction < .8 {
			t.Errorf("correlation %v: %+v, volume %v", tt.correlation, r, v)
		}
	}
}

func TestTable(t *testing.T) {
	lines := []string{"name,size,colour,a,b"}
	for i := range 100 {
		lines = append(lines, "x,"+strconv.Itoa(i)+",red,1,2")
	}
	lines = append(lines, "x,NA,blue,3,4", "x,7,blue,NA,4")
	d := table("t", "t.csv", []int{3, 4}, []int{0})
	x, y, err := d.read(experimenttest.WriteFile(t, "t.csv", strings.Join(lines, "\n")))
	if err != nil {
		t.Fatal(err)
	}
	if x.Rows != 101 || y.Rows != 101 || !slices.Equal(x.Data[198:], []float32{99, 1, -1, 0}) || !slices.Equal(y.Data[198:], []float32{1, 2, 3, 4}) {
		t.Errorf("read %v and %v", x.Data[198:], y.Data[198:])
	}
	if _, _, err := d.read(experimenttest.WriteFile(t, "t.csv", strings.Join(lines[:9], "\n"))); err == nil || !strings.Contains(err.Error(), "at least 100") {
		t.Errorf("error %v for eight rows", err)
	}
}
