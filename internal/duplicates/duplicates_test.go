package duplicates_test

import (
	"context"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/internal/duplicates"
	"github.com/attach-uncertainty/attach/internal/rows"
)

func random(n, h int, seed uint64) blas32.General {
	rng := rand.New(rand.NewPCG(seed, 1))
	x := rows.New(n, h)
	for i := range x.Data {
		x.Data[i] = float32(rng.NormFloat64())
	}
	return x
}

// TestGroups plants copies, scaled and disturbed, in several blocks, a chain of
// rows that are like their neighbours alone, and rows that are like none.
func TestGroups(t *testing.T) {
	x := random(1300, 20, 3)
	at := func(i int) []float32 { return rows.Row(x, i) }
	for _, to := range []int{600, 1290} {
		for j, v := range at(7) {
			at(to)[j] = 3*v + 1e-4*float32(j%3)
		}
	}
	copy(at(513), at(512))
	for k, i := range []int{20, 1100, 900} { // 5 degrees apart, 10 between the ends
		clear(at(i))
		at(i)[0], at(i)[1] = float32(math.Cos(float64(k)*math.Pi/36)), float32(math.Sin(float64(k)*math.Pi/36))
	}
	for _, i := range []int{30, 31} {
		clear(at(i))
		at(40 + i)[2] = float32(math.NaN())
		for j := range at(50 + i) {
			at(50 + i)[j] = float32(math.Inf(1))
		}
	}
	want := [][]int{{7, 600, 1290}, {20, 900, 1100}, {512, 513}}
	got, err := duplicates.Groups(context.Background(), x, math.Cos(5.01*math.Pi/180))
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v, %v", got, want, err)
	}
	got, err = duplicates.Groups(context.Background(), x, math.Cos(4.99*math.Pi/180))
	if want := [][]int{want[0], want[2]}; err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v, %v", got, want, err)
	}
	done, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := duplicates.Groups(done, x, .9); err == nil {
		t.Error("a search that is cancelled is no error")
	}
	if got, err := duplicates.Groups(context.Background(), rows.New(0, 3), .9); err != nil || got != nil {
		t.Errorf("of no rows: %v, %v", got, err)
	}
}

// TestGroupsAreComponents: groups are the components of the graph of all pairs,
// where many are joined in other orders.
func TestGroupsAreComponents(t *testing.T) {
	x := random(700, 3, 9)
	const cosine = .9995
	label := make([]int, x.Rows)
	for i := range label {
		label[i] = i
	}
	for changed := true; changed; {
		changed = false
		for i := range label {
			for j := range i {
				var aa, bb, ab float64
				for k, v := range rows.Row(x, i) {
					w := rows.Row(x, j)[k]
					aa, bb, ab = aa+float64(v)*float64(v), bb+float64(w)*float64(w), ab+float64(v)*float64(w)
				}
				if ab >= cosine*math.Sqrt(aa*bb) && label[i] != label[j] {
					label[i] = min(label[i], label[j])
					label[j] = label[i]
					changed = true
				}
			}
		}
	}
	members := map[int]int{}
	for _, l := range label {
		members[l]++
	}
	want := 0
	for _, n := range members {
		if n > 1 {
			want++
		}
	}
	groups, err := duplicates.Groups(context.Background(), x, cosine)
	if err != nil || len(groups) != want || want < 20 {
		t.Fatalf("%d groups, want %d, %v", len(groups), want, err)
	}
	for _, group := range groups {
		for _, i := range group {
			if label[i] != label[group[0]] || len(group) != members[label[i]] {
				t.Errorf("group %v is not that of row %d", group, i)
			}
		}
	}
}

// TestGroupsOfCopies: rows that are all the same are one group.
func TestGroupsOfCopies(t *testing.T) {
	x := rows.New(1500, 64)
	for i := range x.Rows {
		copy(rows.Row(x, i), rows.Row(random(1, 64, 5), 0))
	}
	if groups, err := duplicates.Groups(context.Background(), x, 1); err != nil || len(groups) != 1 || len(groups[0]) != x.Rows {
		t.Errorf("%d groups, %v", len(groups), err)
	}
}
