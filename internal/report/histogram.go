package report

import (
	"errors"
	"math"
	"slices"
	"strings"

	"github.com/attach-uncertainty/attach/internal/display"
	"github.com/attach-uncertainty/attach/ood/compare"
)

// Histograms on the page measure histWidth × histHeight pixels. The small ones in the table
// measure sparkWidth × sparkHeight pixels.
const (
	histWidth, histHeight   = 320.0, 110.0
	sparkWidth, sparkHeight = 96.0, 24.0
	pixelsPerBin            = 6.0
)

// histogram draws the scores of one method.
type histogram struct {
	Width, Height float64
	Shapes        []shape
	Low, High     string // labels of the ends of the axis
}

// shape is an SVG path with a colour, such as the outline of a histogram.
type shape struct {
	Color int // 0 for in-distribution rows, 1 for the first out-of-distribution set
	Path  string
}

// glyph is a small drawing inside a table.
type glyph struct {
	Width, Height float64
	Shapes        []shape
	// The other fields describe an interval.
	Low, High, At float64
	Chance        float64 // position of chance or of the nominal rate; 0 if it is not drawn
	Below         bool    // whether At lies below the axis, so that it is drawn at the end
	Off           bool    // whether the interval excludes Chance or, if Compared is set, an adjusted p-value is too small
	Compared      bool    // whether Off comes from a p-value that is adjusted for all parts
	Marks         []float64
}

// drawHistogram draws the scores of in-distribution rows and of each out-of-distribution
// set. All histograms share their bins, and a bar is a fraction of the rows of its set. The
// first and the last bin include the outermost 0.5 % of the scores and infinite scores.
func drawHistogram(name string, in []float64, out [][]float64, width, height float64) (*histogram, error) {
	bins := int(width / pixelsPerBin)
	outScores := slices.Concat(out...)
	all := slices.DeleteFunc(slices.Concat(in, outScores), func(v float64) bool { return math.IsInf(v, 0) || math.IsNaN(v) })
	if len(in) == 0 || len(outScores) == 0 {
		return nil, errors.New("histogram of " + name + ": there are no scores")
	}
	axis := span{}
	if len(all) > 0 {
		axis = innerRange(all)
	}
	axis = axis.widened()
	fractions := mapSlice(slices.Concat([][]float64{in}, out), func(scores []float64) []float64 { return binFractions(scores, axis.low, axis.high, bins) })
	top := slices.Max(slices.Concat(fractions...))
	h := &histogram{Width: width, Height: height, Low: formatThreeDigits(axis.low), High: formatThreeDigits(axis.high)}
	for i, x := range fractions {
		h.Shapes = append(h.Shapes, shape{colourOfSet(i), histogramPath(x, top, width, height)})
	}
	return h, nil
}

// colourOfSet returns the colour of in-distribution rows (i = 0) or of the i-th
// out-of-distribution set.
func colourOfSet(i int) int {
	if i == 0 {
		return 0
	}
	return (i-1)%maxColours + 1
}

func formatThreeDigits(x float64) string { return display.Number(x, 3) }

func binFractions(scores []float64, lo, hi float64, bins int) []float64 {
	x := make([]float64, bins)
	for _, s := range scores {
		position := (s - lo) / (hi - lo) * float64(bins)
		i := int(min(max(position, 0), float64(bins-1)))
		x[i] += 1 / float64(max(len(scores), 1))
	}
	return x
}

func histogramPath(x []float64, top, width, height float64) string {
	var b strings.Builder
	b.WriteString("M0 " + formatCoordinate(height))
	for i, v := range x {
		y := formatCoordinate(height * (1 - v/top))
		b.WriteString("V" + y + "H" + formatCoordinate(width*float64(i+1)/float64(len(x))))
	}
	b.WriteString("V" + formatCoordinate(height) + "Z")
	return b.String()
}

// newSparkline draws a small histogram for the table. It shows the ranks of the scores
// among all scores, because ranks spread evenly for every distribution of scores.
func newSparkline(in []float64, out [][]float64) (glyph, error) {
	ranked := slices.Sorted(slices.Values(slices.Concat(in, slices.Concat(out...))))
	rank := func(scores []float64) []float64 {
		x := make([]float64, len(scores))
		for i, v := range scores {
			start, _ := slices.BinarySearch(ranked, v)
			end, _ := slices.BinarySearchFunc(ranked, v, func(a, b float64) int {
				if a <= b {
					return -1
				}
				return 1
			})
			x[i] = float64(start+end-1) / 2
		}
		return x
	}
	h, err := drawHistogram("", rank(in), mapSlice(out, rank), sparkWidth, sparkHeight)
	if err != nil {
		return glyph{}, err
	}
	return glyph{Width: sparkWidth, Height: sparkHeight, Shapes: h.Shapes}, nil
}

// aurocGlyphs draws the AUROC of each method with its interval on an axis from 0.5 to 1. Each
// configuration of a sweep is a mark. A method below 0.5 becomes a hollow dot at the end of
// the axis.
func aurocGlyphs(ranked []compare.MethodReport) []*glyph {
	axis := span{chanceAUROC, 1}
	return mapSlice(ranked, func(m compare.MethodReport) *glyph {
		ends := [2]float64{m.AUROC.Mean, m.AUROC.Mean}
		if m.CI != nil {
			ends = m.CI.AUROC
		}
		g, position := intervalGlyph(axis, ends[0], m.AUROC.Mean, ends[1])
		g.Below = m.AUROC.Mean < chanceAUROC
		if len(m.Configs) > 1 {
			g.Marks = mapSlice(m.Configs, func(c compare.Config) float64 { return position(c.AUROC) })
		}
		return g
	})
}

// chanceAUROC is the low end of the axis: the AUROC of random scores.
const chanceAUROC = .5
