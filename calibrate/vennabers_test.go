package calibrate

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
)

// TestVennAbers compares probabilities with MAPIE and venn-abers.
func TestVennAbers(t *testing.T) {
	b, err := os.ReadFile("testdata/vennabers.json")
	if err != nil {
		t.Fatal(err)
	}
	var problems []struct {
		Top    []float64
		Right  []int
		Bounds [][2]float64
	}
	if err := json.Unmarshal(b, &problems); err != nil {
		t.Fatal(err)
	}
	for i, p := range problems {
		n := len(p.Right)
		c := ClassCalibration{Top: p.Top[:n], Ranks: make([]int, n)}
		for j, right := range p.Right {
			c.Ranks[j] = 1 - right
		}
		bounds := c.VennAbers()
		for j, top := range p.Top[n:] {
			p0, p1 := bounds(top)
			if want := p.Bounds[j]; math.Abs(p0-want[0]) > 1e-12 || math.Abs(p1-want[1]) > 1e-12 {
				t.Errorf("problem %d, confidence %v: [%v, %v], want %v", i, top, p0, p1, want)
			}
		}
	}
}

// TestVennAbersIsCalibrated checks calibration over n+1 rows, each of which is the new row
// once. p is p1 if the new row is right and p0 if it is wrong. Among the rows with the value
// p, a fraction p must be right.
func TestVennAbersIsCalibrated(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for range 50 {
		all := ClassCalibration{}
		for range 1 + rng.IntN(60) {
			top := math.Floor(rng.Float64()*40) / 40
			all.Top = append(all.Top, top)
			all.Ranks = append(all.Ranks, rng.IntN(3)*rng.IntN(2))
		}
		rows, right := map[float64]float64{}, map[float64]float64{}
		for i, top := range all.Top {
			rest := ClassCalibration{Top: slices.Delete(slices.Clone(all.Top), i, i+1), Ranks: slices.Delete(slices.Clone(all.Ranks), i, i+1)}
			p, p1 := rest.VennAbers()(top)
			if p >= p1 {
				t.Fatalf("p0 is %v and p1 is %v, want p0 < p1", p, p1)
			}
			if all.Ranks[i] == 0 {
				p = p1
				right[p]++
			}
			rows[p]++
		}
		for p, n := range rows {
			if got := right[p] / n; math.Abs(got-p) > 1e-12 {
				t.Fatalf("of %v rows at %v, a fraction %v is right", n, p, got)
			}
		}
	}
}
