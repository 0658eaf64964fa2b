package audit

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/blas/blas32"

	pq "github.com/attach-uncertainty/attach/internal/data/parquet"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/ood"
)

// indexOf returns an index of sketches of one kind and size, and the sketches.
func indexOf(t *testing.T, b ood.InputBlock) (sketchIndex, []*sketch) {
	t.Helper()
	var c sketchCounts
	var list []*sketch
	for i, text := range Sketches(b) {
		if text == nil {
			t.Fatalf("row %d has no sketch", i)
		}
		s := sketch(text)
		if !s.valid() {
			t.Fatalf("row %d has an invalid sketch", i)
		}
		c.add(&s, true)
		list = append(list, &s)
	}
	return c.index(list[0][0], list[0][1]), list
}

// sharedBands returns the number of bands in which two sketches have the same bucket.
func sharedBands(x sketchIndex, a, b *sketch) (n int) {
	for band := range x.bands() {
		if x.key(a, band) == x.key(b, band) {
			n++
		}
	}
	return n
}

// TestNearPictures checks which changes of a picture make a near copy, for both orders of axes
// and for signals, and that near copies share a bucket.
func TestNearPictures(t *testing.T) {
	const edge = 48
	r := rand.New(rand.NewPCG(1, 2))
	waves := func(seed uint64) func(x, y float64) float64 {
		r := rand.New(rand.NewPCG(seed, 3))
		var a, p, q, phase [6]float64
		for k := range a {
			a[k], p[k], q[k], phase[k] = 20*r.NormFloat64(), .2*r.NormFloat64(), .2*r.NormFloat64(), 7*r.Float64()
		}
		return func(x, y float64) (v float64) {
			for k := range a {
				v += a[k] * math.Sin(p[k]*x+q[k]*y+phase[k])
			}
			return 128 + v
		}
	}
	picture := func(v func(x, y float64) float64) (list []float32) {
		for y := range edge {
			for x := range edge {
				list = append(list, float32(v(float64(x), float64(y))))
			}
		}
		return list
	}
	original := waves(0)
	changes := []struct {
		name   string
		change func(x, y float64) float64
		want   copyKind
	}{
		{"brighter", func(x, y float64) float64 { return 1.1*original(x, y) + 4 }, nearCopy},
		{"noise", func(x, y float64) float64 { return original(x, y) + 8*r.NormFloat64() }, nearCopy},
		{"shifted", func(x, y float64) float64 { return original(x-1.5, y) }, nearCopy},
		{"mirrored", func(x, y float64) float64 { return original(edge-1-x, y) }, mirroredCopy},
		{"turned", func(x, y float64) float64 { return original(y, x) }, noCopy},
		{"a corner", func(x, y float64) float64 {
			if x < 24 && y < 24 {
				return 255 - original(x, y)
			}
			return original(x, y)
		}, noCopy},
	}
	var data []float32
	for _, c := range changes {
		data = append(data, picture(c.change)...)
	}
	data = append(data, picture(original)...)
	for k := range 60 {
		data = append(data, picture(waves(uint64(k+1)))...)
	}
	n := len(data) / edge / edge
	colours := make([]float32, 0, 3*len(data)) // colours are the last axis
	for _, v := range data {
		colours = append(colours, v, v+3, v-9)
	}
	for _, block := range []ood.InputBlock{ood.BlockOf([]int{n, 1, edge, edge}, data), ood.BlockOf([]int{n, edge, edge, 3}, colours)} {
		x, list := indexOf(t, block)
		for k, c := range changes {
			d, kind := x.compare(list[len(changes)], list[k])
			shared := sharedBands(x, list[len(changes)], list[k])
			if kind != c.want || kind != noCopy && shared == 0 {
				t.Errorf("%s: kind %d with distance %.3f, want %d; %d bands are shared", c.name, kind, d, c.want, shared)
			}
		}
		for k := range 60 {
			if d, kind := x.compare(list[len(changes)], list[len(changes)+1+k]); kind != noCopy {
				t.Errorf("another picture: %.3f", d)
			}
		}
	}
	x, list := indexOf(t, ood.BlockOf([]int{n, edge * edge}, data))
	if _, kind := x.compare(list[len(changes)], list[1]); kind != nearCopy || list[1][0] != signalSketch {
		t.Error("noise in a signal is no near copy")
	}
	if _, kind := x.compare(list[len(changes)], list[3]); kind != noCopy {
		t.Error("a reversed signal is a near copy")
	}
	if got := Sketches(ood.BlockOf([]int{1, edge, edge}, make([]float32, edge*edge))); got[0] != nil {
		t.Error("a blank picture has a sketch")
	}
}

// TestNearCells checks that rows with one other cell are near copies, also if numbers are
// rounded, but not if the equal cells have few values.
func TestNearCells(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	nan := float32(math.NaN())
	first := []float32{2019, .25, nan, 0, 17.5, 3}
	others := [][]float32{{2019, .250001, nan, 0, 17.5, 3}, {2019, .25, 3, 0, 17.5, 3}, {2019, .3, 3, 0, 17.5, 3}, {11, 12, 13, 0, 14, 3}}
	want := []copyKind{nearCopy, nearCopy, noCopy, noCopy}
	data := slices.Clone(first)
	for _, o := range others {
		data = append(data, o...)
	}
	for range 200 {
		data = append(data, 2000+float32(r.IntN(25)), float32(r.NormFloat64()), float32(r.NormFloat64()), float32(r.IntN(2)), float32(r.NormFloat64()), float32(r.IntN(5)))
	}
	x, list := indexOf(t, ood.BlockOf([]int{len(data) / 6, 6}, data))
	for k, w := range want {
		if d, kind := x.compare(list[0], list[1+k]); kind != w || kind != noCopy && sharedBands(x, list[0], list[1+k]) == 0 {
			t.Errorf("%v: kind %d with distance %.3f, want %d", others[k], kind, d, w)
		}
	}
	coarse := rows.New(500, 6)
	for i := range coarse.Data {
		coarse.Data[i] = float32(r.IntN(3))
	}
	x, list = indexOf(t, ood.BlockOf([]int{500, 6}, coarse.Data))
	for i := range list[:499] {
		if _, kind := x.compare(list[i], list[i+1]); kind != noCopy {
			t.Fatalf("rows of few values are near copies")
		}
	}
}

// TestNearTexts checks texts that differ in case, punctuation or a word. It also checks the
// distance against the Jaccard distance of the sets of pieces.
func TestNearTexts(t *testing.T) {
	long := "the guarantee holds for inputs that are exchangeable with the calibration rows, and each bound says how many outliers there are at least"
	texts := []string{long, strings.ToUpper(long) + "!", strings.Replace(long, "bound", "figure", 1), "book a flight to paris, with a seat at the window", "book a hotel in rome, with a bed and a view"}
	x, list := indexOf(t, ood.InputBlock{Tensors: []ood.Tensor{{Shape: []int{len(texts), 1}, Strings: texts}}})
	pieces := func(text string) map[string]bool {
		set := map[string]bool{}
		for at := range len(text) - shingle + 1 {
			set[text[at:at+shingle]] = true
		}
		return set
	}
	for k, want := range []copyKind{nearCopy, nearCopy, noCopy} {
		i, j := 0, k+1
		if k == 2 {
			i, j = 3, 4
		}
		d, kind := x.compare(list[i], list[j])
		if kind != want || kind != noCopy && sharedBands(x, list[i], list[j]) == 0 {
			t.Errorf("%q and %q: kind %d with distance %.3f, want %d", texts[i], texts[j], kind, d, want)
		}
		a, b := pieces(normalizeText(texts[i])), pieces(normalizeText(texts[j]))
		common := 0
		for p := range a {
			if b[p] {
				common++
			}
		}
		if exact := 1 - float64(common)/float64(len(a)+len(b)-common); math.Abs(d-exact) > .15 {
			t.Errorf("distance %.3f, and the sets of pieces have %.3f", d, exact)
		}
	}
}

// TestJoinNear checks that a near copy of a near copy belongs to the group of the first row.
func TestJoinNear(t *testing.T) {
	m := newMerge(&ScoreSet{ranks: []int{9, 0}}, 6, dirFiles(t.TempDir()))
	for partition, pairs := range [][][2]byte{{{5, 2}, {2, 1}}, {{7, 5}}} {
		var records []byte
		for _, pair := range pairs {
			record := make([]byte, edgeRecordSize)
			record[7], record[19], record[20] = pair[0], pair[1], byte(nearCopy)
			records = append(records, record...)
		}
		if err := m.Gather(t.Context(), Round{Name: nearRound}, partition, func(use func([]byte) error) error { return eachRecord(records, edgeRecordSize, use) }); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.joinNear(t.Context(), 1); err != nil || m.firstOf(7) != 1 || m.firstOf(3) != 3 || len(m.near) != 3 {
		t.Errorf("%+v, %v", m.near, err)
	}
}

// TestNearCopiesOfShards checks that near copies in other shards are found, counted once, and
// listed in the file of duplicates, and that a merge of audits writes the same bytes.
func TestNearCopiesOfShards(t *testing.T) {
	s, err := NewScorer(bundle(t), Identity{FDR: .1, Delta: .1})
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]ood.Batch{"a.npz": sample(300, 4, 0), "b.npz": sample(100, 5, 0)}
	for i := range 50 {
		to, from := rows.Row(all["b.npz"].Features, i), rows.Row(all["a.npz"].Features, 3*i)
		copy(to, from)
		if i >= 20 {
			to[i%6] += 1
		}
	}
	copy(rows.Row(all["b.npz"].Features, 60), rows.Row(all["b.npz"].Features, 30)) // an exact copy of a near copy
	names := []string{"a.npz", "b.npz"}
	dir, a := finishAudit(t, scoreFiles(t, s, all, names, func(n int) []int { return []int{30} }))
	if a.Copies == nil || a.Copies.Repeated != 51 || a.Copies.Near != 30 || a.Copies.Distinct != 349 {
		t.Fatalf("%+v", a.Copies)
	}
	if most := a.Copies.MostCopied[0]; most.Inputs != 3 || !slices.Equal(most.Keys, []string{"a.npz:90", "b.npz:30", "b.npz:60"}) {
		t.Errorf("%+v", most)
	}
	if want := []FileCopies{{Shard: "b.npz", Of: "a.npz", Exact: 20, Near: 30}, {Shard: "b.npz", Of: "b.npz", Exact: 1}}; !slices.Equal(a.Copies.Between, want) {
		t.Errorf("copies between files: %+v", a.Copies.Between)
	}
	file, err := pq.Open(filepath.Join(dir, Duplicates))
	if err != nil {
		t.Fatal(err)
	}
	cursor, err := file.Open(0, 1, 2, 5, 6)
	if err != nil {
		t.Fatal(err)
	}
	defer cursor.Close()
	cells, err := cursor.Read(context.Background(), 0, file.Rows())
	if err != nil || file.Rows() != 50+51 {
		t.Fatalf("%d rows, %v", file.Rows(), err)
	}
	kinds := map[string]string{}
	for i := range file.Rows() {
		kinds[string(cells[2].Bytes[i])] = fmt.Sprintf("%v %v %s %.2f", cells[0].Numbers[i], cells[1].Numbers[i], cells[3].Bytes[i], cells[4].Numbers[i])
	}
	for key, want := range map[string]string{"a.npz:0": "0 0 first 0.00", "b.npz:0": "0 300 exact 0.00", "a.npz:90": "90 90 first 0.00", "b.npz:30": "90 330 near 0.17", "b.npz:60": "90 360 exact 0.00"} {
		if kinds[key] != want {
			t.Errorf("%s: %s, want %s", key, kinds[key], want)
		}
	}
	var parts []*File
	for _, name := range names {
		once, _ := finishAudit(t, scoreFiles(t, s, all, []string{name}, noCuts))
		f, err := OpenFile(filepath.Join(once, Scores))
		if err != nil {
			t.Fatal(err)
		}
		parts = append(parts, f)
	}
	merged, _ := finishAudit(t, parts)
	checkPartitions(t, parts, a)
	for _, name := range []string{Scores, Duplicates, "audit.json"} {
		first, err1 := os.ReadFile(filepath.Join(dir, name))
		second, err2 := os.ReadFile(filepath.Join(merged, name))
		if err1 != nil || err2 != nil || !bytes.Equal(first, second) {
			t.Errorf("%s of the merged audits differs, %v, %v", name, err1, err2)
		}
	}
}

// TestDuplicatesNameFitRows checks that an input that was fitted on names its fit row.
func TestDuplicatesNameFitRows(t *testing.T) {
	s, err := NewScorer(bundle(t), Identity{FDR: .1, Delta: .1, Fitted: "fit"})
	if err != nil {
		t.Fatal(err)
	}
	fit := sample(600, 1, 0) // the rows that bundle fits
	s.Fitted = func(context.Context) (blas32.General, []string, error) {
		keys := make([]string, fit.Len())
		for i := range keys {
			keys[i] = fmt.Sprintf("fit.npz:%d", i)
		}
		return fit.Features, keys, nil
	}
	list := scoreFiles(t, s, map[string]ood.Batch{"a.npz": fit}, []string{"a.npz"}, noCuts)
	dir, a := finishAudit(t, list)
	checkPartitions(t, list, a)
	file, err := pq.Open(filepath.Join(dir, Duplicates))
	if err != nil {
		t.Fatal(err)
	}
	cursor, err := file.Open(4, 5, 7)
	if err != nil {
		t.Fatal(err)
	}
	defer cursor.Close()
	cells, err := cursor.Read(context.Background(), 0, file.Rows())
	if err != nil {
		t.Fatal(err)
	}
	used := 0
	for i := range file.Rows() {
		if string(cells[1].Bytes[i]) != "fit" {
			continue
		}
		used++
		if got, want := string(cells[2].Bytes[i]), fmt.Sprintf("fit.npz:%v", cells[0].Numbers[i]); got != want {
			t.Errorf("the row of %s names %q", want, got)
		}
	}
	if used == 0 {
		t.Error("no row was fitted on")
	}
}
