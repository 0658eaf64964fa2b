package report

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/attach-uncertainty/attach/evaluate"
)

var (
	viewBox   = regexp.MustCompile(`class="chart" viewBox="([-0-9.]+) ([-0-9.]+) ([-0-9.]+) ([-0-9.]+)"`)
	chartText = regexp.MustCompile(`<text x="([-0-9.]+)" y="([-0-9.]+)"(?: dy="4")?(?: text-anchor="(\w+)")?>([^<]*)</text>`)
)

// TestChartLabelsFit checks that no label of an axis is cut off or overlaps another one,
// for small and large targets. It uses the character widths of DejaVu Sans, a wide font,
// and the font size of small screens.
func TestChartLabelsFit(t *testing.T) {
	const size = 15
	advance := func(s string) (width float64) {
		for _, r := range s {
			switch {
			case r >= '0' && r <= '9':
				width += .636
			case strings.ContainsRune(",.", r):
				width += .318
			case r == '-':
				width += .361
			default:
				width += .615
			}
		}
		return size * width
	}
	for _, limits := range [][2]float64{{0, 1e-6}, {0, .01}, {0, 1}, {14999, 500001}, {0, 9.9e6}, {1e6, 1e6 + 1}, {-5e8, 1e9}, {1e9, 1e9 + 10}, {-3e-7, -1e-7}, {0, 3e30}, {-150000, -149000}} {
		t.Run(fmt.Sprint(limits), func(t *testing.T) {
			e := sampleRegressor(1, 0)
			low, step := limits[0], (limits[1]-limits[0])/400
			e.Targets[0].Points = nil
			for i := range 400 {
				y := low + step*float64(i)
				e.Targets[0].Points = append(e.Targets[0].Points, evaluate.TargetPoint{Target: y, Median: y, Lower: y - 40*step, Upper: y + 40*step})
			}
			page := renderPage(t, Evaluation("m.attach", "x.csv", e))
			svg := between(t, page, "<h4>Intervals at", "</svg>")
			viewBoxValues := viewBox.FindStringSubmatch(svg)
			if viewBoxValues == nil {
				t.Fatalf("there is no chart:\n%.500s", svg)
			}
			number := func(s string) float64 {
				x, err := strconv.ParseFloat(s, 64)
				if err != nil {
					t.Fatal(err)
				}
				return x
			}
			left, top := number(viewBoxValues[1]), number(viewBoxValues[2])
			right, bottom := left+number(viewBoxValues[3]), top+number(viewBoxValues[4])
			end, ticks := left, map[string]bool{}
			for _, m := range chartText.FindAllStringSubmatch(svg, -1) {
				x, y, width := number(m[1]), number(m[2]), advance(m[4])
				from := map[string]float64{"": x, "middle": x - width/2, "end": x - width}[m[3]]
				if from < left || from+width > right || y-.93*size < top || y+.24*size > bottom {
					t.Errorf("%q lies from %.1f to %.1f and at %.1f, and the chart from %.1f to %.1f and from %.1f to %.1f", m[4], from, from+width, y, left, right, top, bottom)
				}
				if strings.Contains(m[4], "e+") {
					t.Errorf("%q has an exponent as programs write it", m[4])
				}
				if m[3] == "middle" {
					if from < end {
						t.Errorf("%q begins at %.1f, and the label before it ends at %.1f", m[4], from, end)
					}
					if ticks[m[4]] {
						t.Errorf("two ticks are called %q", m[4])
					}
					end, ticks[m[4]] = from+width, true
				}
			}
			if len(ticks) == 0 {
				t.Error("the axis has no label")
			}
		})
	}
}
