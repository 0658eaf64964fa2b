package rowhash

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// sorted returns a sorted copy of the hashes of rows.
func sorted(rows []uint64) []uint64 { return slices.Sorted(slices.Values(rows)) }

// mix returns a hash of x.
func mix(x uint64) uint64 {
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}

// randomRows returns hashes of n rows that equal no other row.
func randomRows(r *rand.Rand, n int) []uint64 {
	rows := make([]uint64, n)
	for i := range rows {
		rows[i] = r.Uint64()
	}
	return rows
}

// repeat returns n copies of each row.
func repeat(rows []uint64, n int) (all []uint64) {
	for range n {
		all = append(all, rows...)
	}
	return all
}

// zipf returns a function that draws n rows from the given number of distinct values. The
// probability of value k is proportional to k^−s, where k counts from 1.
func zipf(values int, s float64) func(r *rand.Rand, n int) []uint64 {
	sums := make([]float64, values)
	total := 0.
	for k := range sums {
		total += math.Pow(float64(k+1), -s)
		sums[k] = total
	}
	return func(r *rand.Rand, n int) []uint64 {
		rows := make([]uint64, n)
		for i := range rows {
			k, _ := slices.BinarySearch(sums, r.Float64()*total)
			rows[i] = mix(uint64(k) + 1)
		}
		return rows
	}
}

func TestReused(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	base, other := randomRows(r, 2000), randomRows(r, 1000)
	drawBinary := zipf(8, .5) // 8 values, as in three binary columns
	binaryRows := drawBinary(r, 1500)
	for name, c := range map[string]struct {
		fit, cal []uint64
		want     int
	}{
		"a copy":                                {base, base, 2000},
		"a copy of some":                        {base, base[:100], 100},
		"half leaked":                           {base, slices.Concat(base[:500], other[:500]), 500},
		"few leaked":                            {base, slices.Concat(base[:20], other), 20},
		"others":                                {base, other, 0},
		"others, twenty times each":             {base, repeat(other, 20), 0},
		"a copy, twenty times each":             {base, repeat(base, 20), 40000},
		"a copy of rows fitted on twenty times": {repeat(base, 20), base, 2000},
		"others, beside rows fitted on twenty times": {repeat(base, 20), other, 0},
		"three binary columns":                       {drawBinary(r, 1500), drawBinary(r, 500), 0},
		"a copy of three binary columns":             {binaryRows, binaryRows, 0}, // equal rows are so common by chance that copies cannot be detected
	} {
		if got := Reused(sorted(c.fit), sorted(c.cal)); got != c.want {
			t.Errorf("%s: %d of %d rows are reused, want %d", name, got, len(c.cal), c.want)
		}
	}
	for name, c := range map[string]struct {
		cal  []uint64
		want int
	}{
		"each row twenty times": {repeat(other[:50], 20), 950},
		"a tenth of rows twice": {slices.Concat(other, other[:100]), 100},
		"no row twice":          {other, 0},
	} {
		if got := Repeated(sorted(base), sorted(c.cal)); got != c.want {
			t.Errorf("%s: %d of %d rows are repeated, want %d", name, got, len(c.cal), c.want)
		}
	}
	if got := Repeated(sorted(binaryRows), sorted(drawBinary(r, 500))); got > 0 {
		t.Errorf("of three binary columns %d rows are repeated", got)
	}
	baseTwice := repeat(base, 2)
	r.Shuffle(len(baseTwice), func(i, j int) { baseTwice[i], baseTwice[j] = baseTwice[j], baseTwice[i] })
	if got := ReusedOfSplit(sorted(baseTwice[:3200]), sorted(baseTwice[3200:])); got < 500 {
		t.Errorf("of rows that come twice, %d of 800 split off are reused", got)
	}
}

// TestChanceIsNoCopy checks that rows that are equal by chance are not reported as copies,
// for several distributions of their values.
func TestChanceIsNoCopy(t *testing.T) {
	wrong, runs := 0, 0
	for _, values := range []int{8, 100, 1000, 20_000, 200_000} {
		for _, s := range []float64{0, .5, 1, 1.5} {
			draw := zipf(values, s)
			for seed := range uint64(5) {
				r := rand.New(rand.NewPCG(seed, 3))
				fit, cal, new := sorted(draw(r, 2000)), sorted(draw(r, 500)), draw(r, 1000)
				sample := SampleOf(cal, Copied(cal))
				var m Matches
				for _, hash := range new {
					m.Add(sample, hash)
				}
				if runs++; Reused(fit, cal) > 0 || ReusedOfSplit(fit, cal) > 0 || Repeated(fit, cal) > 0 || m.Known() > 0 {
					wrong++
				}
			}
		}
	}
	if wrong > 0 {
		t.Errorf("in %d of %d draws equal rows are called copies", wrong, runs)
	}
}

// TestSample checks that the number of known rows is exact if all hashes are in the sample,
// and approximate otherwise. It also checks that Merge adds the counts of parts.
func TestSample(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for _, n := range []int{1000, 50_000} {
		known := randomRows(r, n)
		s := SampleOf(sorted(known), false)
		if !s.OK(n) || len(s.Hashes) != min(n, MostSampled) {
			t.Fatalf("the sample of %d rows has %d, and OK is %v", n, len(s.Hashes), s.OK(n))
		}
		rows := slices.Concat(known[:600], randomRows(r, 1400))
		var whole, first, rest Matches
		for i, hash := range rows {
			whole.Add(s, hash)
			if i < 700 {
				first.Add(s, hash)
			} else {
				rest.Add(s, hash)
			}
		}
		var sum Matches
		sum.Merge(first)
		if sum.Merge(rest); sum != whole {
			t.Errorf("parts have %+v, all %+v", sum, whole)
		}
		got := whole.Known()
		if n < MostSampled && got != 600 || math.Abs(float64(got)-600) > 300 {
			t.Errorf("%d of %d rows are known, of 600 that are", got, whole.Rows)
		}
		var none Matches
		for _, hash := range randomRows(r, 2000) {
			none.Add(s, hash)
		}
		if got := none.Known(); got != 0 {
			t.Errorf("%d new rows are known", got)
		}
	}
}

func TestReusedErrorCounts(t *testing.T) {
	if got := (&ReusedError{Rows: 2000}).Error(); !strings.HasPrefix(got, "all 2,000 calibration rows are among the rows to fit on: ") {
		t.Error(got)
	}
}
