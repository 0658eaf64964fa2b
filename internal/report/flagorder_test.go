package report

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// randomRows returns the positions from 0 up to n at which a draw is below the rate of its
// position.
func randomRows(rng *rand.Rand, n int, rate func(position int) float64) (flagged []FlaggedRow) {
	for i := range n {
		if rng.Float64() < rate(i) {
			flagged = append(flagged, FlaggedRow{Position: i})
		}
	}
	return flagged
}

// TestClustersInRandomOrder checks that rows in random order have a cluster in at most 1 % of
// files. More than 30 of 2,000 files have a probability of less than 1 in 100.
func TestClustersInRandomOrder(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, rate := range []float64{.02, .05, .3, .9} {
		files := 0
		for range 2000 {
			if findClusters(randomRows(rng, 300, func(int) float64 { return rate }), 0, 300, 300, many()) != nil {
				files++
			}
		}
		if files > 30 {
			t.Errorf("at rate %v, %d of 2,000 files have clusters", rate, files)
		}
	}
}

// TestClusters checks that clusters are found where they were planted, one beside a larger one
// too.
func TestClusters(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	flagged := randomRows(rng, 5000, func(i int) float64 {
		switch {
		case i >= 300 && i < 420:
			return .95
		case i >= 2500 && i < 4500:
			return .8
		}
		return .05
	})
	clusters := findClusters(flagged, 0, 5000, 5000, many())
	want := [][2]int{{300, 420}, {2500, 4500}}
	if len(clusters) != len(want) {
		t.Fatalf("clusters %v", clusters)
	}
	for k, c := range clusters {
		if math.Abs(float64(c.begin-want[k][0])) > 5 || math.Abs(float64(c.end-want[k][1])) > 5 {
			t.Errorf("cluster %d to %d, want %v", c.begin, c.end, want[k])
		}
		for _, r := range c.flagged {
			if r.Position < c.begin || r.Position >= c.end {
				t.Errorf("row %d is not in the cluster from %d to %d", r.Position, c.begin, c.end)
			}
		}
	}
	all := randomRows(rng, 50, func(int) float64 { return 1 })
	if findClusters(all, 0, 50, 50, many()) != nil || findClusters(nil, 0, 50, 50, many()) != nil {
		t.Error("a file in which all rows or none are flagged has a cluster")
	}
}

// TestClusterIsBest checks the first cluster of small files against all runs of rows.
func TestClusterIsBest(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	found := 0
	for range 300 {
		const n = 80
		from := rng.IntN(40)
		flagged := randomRows(rng, n, func(i int) float64 {
			if i >= from && i < from+20 {
				return .9
			}
			return .08
		})
		isFlagged := make([]int, n)
		for _, r := range flagged {
			isFlagged[r.Position] = 1
		}
		p := float64(len(flagged)) / n
		q := (1 + p) / 2
		best := math.Inf(-1)
		for begin := range n {
			k := 0
			for end := begin; end < n; end++ {
				k += isFlagged[end]
				m := end - begin + 1
				best = max(best, float64(k)*math.Log(q/p)+float64(m-k)*math.Log((1-q)/(1-p)))
			}
		}
		clusters := findClusters(flagged, 0, n, n, many())
		if want := best >= math.Log(n*(n+1)/2/.01); (clusters != nil) != want {
			t.Fatalf("the best log ratio is %v, but the clusters are %v", best, clusters)
		}
		if len(clusters) != 1 {
			continue
		}
		found++
		c := clusters[0]
		k, m := float64(len(c.flagged)), float64(c.end-c.begin)
		if ratio := k*math.Log(q/p) + (m-k)*math.Log((1-q)/(1-p)); math.Abs(ratio-best) > 1e-9 {
			t.Fatalf("the cluster %v has the log ratio %v, and the best run %v", c, ratio, best)
		}
	}
	if found < 30 {
		t.Errorf("only %d files have a cluster", found)
	}
}

// TestFlaggedOrder checks what a page says of the order and the causes of flagged rows.
func TestFlaggedOrder(t *testing.T) {
	f := sampleFlags()
	f.Total, f.Flagged, f.Expected = 1010, nil, 50.5
	f.RowName = func(position int) string { return strconv.Itoa(7000 + position) }
	for i := range 100 {
		r := FlaggedRow{Position: 300 + i, Reasons: "ram is out of range", Explained: i < 60, Top: "ram"}
		if i >= 90 {
			r.Position += 200 + 20*(i-90)
			r.Reasons = ""
		}
		if i < 5 {
			r.Top = "disk" // in fewer than a tenth of the explained rows
		}
		if i >= 5 && i < 15 {
			r.Top = ""
		}
		f.Flagged = append(f.Flagged, r)
	}
	page := renderPage(t, Flagged(f))
	checkPage(t, page)
	for _, want := range []string{
		"Rows 7300 to 7389: 90 of 90 rows flagged; in all of them, ram is out of range.",
		"What raised the score most in 60 explained rows: ram in 45, nothing alone in 10.",
		"Each bar counts the flagged rows among 50 rows that follow each other.", ">7,000<", ">8,000<",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	c := f.orderChart(true)[0]
	// 21 bars: the last has 10 rows, so a fifth of the expected rows of the others.
	if want := fmt.Sprintf("V%s", formatCoordinate(c.Height*(1-c.y.position(.5)))); !strings.Contains(c.Dashed, want) || strings.Count(c.Dashed, "H") != 21 {
		t.Errorf("the expected numbers are %s, without %s", c.Dashed, want)
	}

	f.RowName = func(position int) string { return fmt.Sprintf("%d.png", position) }
	if page = renderPage(t, Flagged(f)); !strings.Contains(page, "Rows 300.png to 389.png: 90 of 90") || !strings.Contains(page, ">position of the row<") {
		t.Error("the page does not name files")
	}
	f.Flagged = slices.Clone(f.Flagged[90:])
	if page = renderPage(t, Flagged(f)); strings.Contains(page, "90 of 90") || !strings.Contains(page, "No part of the file has clearly more than the others.") {
		t.Error("a page without clusters has one, or does not say so")
	}
	f.Flagged = []FlaggedRow{{Explained: true, Top: "ram"}, {Position: 1, Explained: true, Top: "disk"}}
	if notes := f.topNotes(); notes != nil {
		t.Errorf("rows that have nothing in common share %v", notes)
	}
	f.Total = 99
	f.Flagged = f.Flagged[:0]
	if f.orderChart(false) != nil {
		t.Error("a short file has a chart")
	}
}

// many returns a number of clusters that no test reaches.
func many() *int {
	n := 1000
	return &n
}

// TestClustersAreLimited checks that a periodic file with many clusters is not searched for
// all of them.
func TestClustersAreLimited(t *testing.T) {
	var flagged []FlaggedRow
	for i := range 100_000 {
		if i%200 < 60 {
			flagged = append(flagged, FlaggedRow{Position: i})
		}
	}
	left := 7
	if got := findClusters(flagged, 0, 100_000, 100_000, &left); len(got) != 7 || left != 0 {
		t.Errorf("%d clusters, %d left", len(got), left)
	}
}
