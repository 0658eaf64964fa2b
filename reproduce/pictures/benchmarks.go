package pictures

import (
	"cmp"
	"encoding/csv"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/attach-uncertainty/attach/reproduce/svg"
	"github.com/attach-uncertainty/attach/reproduce/theorem1"
)

// record is a line of a CSV file, keyed by column name.
type record map[string]string

func (r record) number(name string) float64 {
	v, err := strconv.ParseFloat(r[name], 64)
	if err != nil {
		return math.NaN()
	}
	return v
}

func readCSV(docs, name string) ([]record, error) {
	file, err := os.Open(filepath.Join(docs, "benchmarks", name))
	if err != nil {
		return nil, err
	}
	defer file.Close()
	lines, err := csv.NewReader(file).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	var records []record
	for _, line := range lines[1:] {
		r := record{}
		for i, column := range lines[0] {
			r[column] = line[i]
		}
		records = append(records, r)
	}
	return records, nil
}

func column(records []record, name string) (values []float64) {
	for _, r := range records {
		values = append(values, r.number(name))
	}
	return values
}

// benchmarkPictures draws the benchmark pictures from CSV files in docs/benchmarks. It
// computes the picture of theorem 1 without a file.
func benchmarkPictures(docs string) (map[string]*svg.Picture, error) {
	pictures := map[string]*svg.Picture{"benchmarks/theorem1.svg": tailBounds()}
	for _, b := range []struct {
		csv, svg string
		draw     func([]record) *svg.Picture
	}{
		{"table2-pairs.csv", "table2.svg", detectorStrip},
		{"table1.csv", "table1.svg", intervalMultiples},
		{"table3.csv", "table3.svg", directionDots},
		{"figure2-rates.csv", "figure2-rates.svg", crossingRates},
		{"figure2-curves.csv", "figure2.svg", crossings},
		{"star.csv", "star.svg", classSize},
	} {
		records, err := readCSV(docs, b.csv)
		if err != nil {
			return nil, err
		}
		pictures["benchmarks/"+b.svg] = b.draw(records)
	}
	curves, err := readCSV(docs, "figure1.csv")
	if err != nil {
		return nil, err
	}
	rows, err := readCSV(docs, "figure1-rows.csv")
	if err != nil {
		return nil, err
	}
	pictures["benchmarks/figure1.svg"] = figure1Picture(curves, rows)
	return pictures, nil
}

// detectorStrip plots the AUROC of detectors on one line for each method. Each line has one
// dot for each pair of a network and an OOD set.
func detectorStrip(records []record) *svg.Picture {
	aurocs := map[string][]float64{}
	for _, r := range records {
		if v := r.number("auroc"); !math.IsNaN(v) {
			aurocs[r["method"]] = append(aurocs[r["method"]], v)
		}
	}
	methods := slices.SortedFunc(maps.Keys(aurocs), func(a, b string) int { return cmp.Compare(stat.Mean(aurocs[b], nil), stat.Mean(aurocs[a], nil)) })
	p := svg.New(640, 96+26*float64(len(methods)), "AUROC of twelve detectors on thirty pairs",
		"Each dot is a pair of a network and an OOD set. The default, fused-layers, has the highest mean, and no pair far below the others.")
	a := plot(p, 176, 44, 400, 26*float64(len(methods)), svg.Axis{Low: .4, High: 1.005, Ticks: svg.Ticks(.4, .5, .6, .7, .8, .9, 1), Label: "AUROC (0.5 is chance)"}, svg.Axis{High: 1})
	a.Axes()
	p.Text(576, 32, "small soft end", "dots: pairs; bar: mean")
	p.Text(628, 32, "small soft end", "mean")
	for i, m := range methods {
		y := a.Top + 26*(float64(i)+.5)
		color, bold := "blue", ""
		if m == "fused-layers" {
			color, bold = "orange", " bold orange"
		}
		p.Text(166, y+5, "end small"+bold, m)
		p.Line(a.Left, y, a.Left+a.W, y, "s-line")
		p.Raw(`<g class="%s" fill-opacity=".45">`, color)
		for _, v := range aurocs[m] {
			p.Raw(`<circle cx="%.1f" cy="%.1f" r="4"/>`, a.X(v), y)
		}
		p.Raw(`</g>`)
		mean := stat.Mean(aurocs[m], nil)
		p.Line(a.X(mean), y-9, a.X(mean), y+9, "heavy s-"+color)
		p.Text(628, y+5, "end small"+bold, strconv.FormatFloat(mean, 'f', 3, 64))
	}
	return p
}

// intervalMultiples plots the calibrated intervals of three methods on eight sets, with
// coverage on the left and width on the right.
func intervalMultiples(records []record) *svg.Picture {
	p := svg.New(640, 380, "Coverage and width of calibrated 95 % intervals on eight sets",
		"Three methods on eight regression sets. All cover about 95 % once calibrated; simultaneous quantile regression is among the narrowest on most.")
	methods := []struct{ name, color, label string }{
		{"sqr", "orange", "simultaneous quantile regression"}, {"conditional-gaussian", "blue", "conditional Gaussian"}, {"mc-dropout", "green", "dropout"},
	}
	sets := []string{"boston", "concrete", "energy", "kin8nm", "naval", "power", "wine", "yacht"}
	cover := plot(p, 86, 62, 240, 256, svg.Axis{Low: .88, High: 1, Ticks: []svg.Tick{{At: .9, Label: "90 %"}, {At: .95, Label: "95 %"}, {At: 1, Label: "100 %"}}, Label: "coverage"}, svg.Axis{High: 1})
	width := plot(p, 366, 62, 240, 256, svg.Axis{High: .6, Ticks: svg.Ticks(0, .2, .4, .6), Label: "mean width, in ranges of the target"}, svg.Axis{High: 1})
	cover.Axes()
	width.Axes()
	p.Line(cover.X(.95), cover.Top, cover.X(.95), cover.Top+cover.H, "dash s-ink")
	x := 16.
	for _, m := range methods {
		p.Circle(x+5, 26, 5, m.color)
		p.Text(x+16, 31, "small", m.label)
		x += 46 + 7.2*float64(len(m.label))
	}
	for i, set := range sets {
		y := cover.Top + 32*(float64(i)+.5)
		p.Text(76, y+5, "end small", set)
		p.Line(cover.Left, y, cover.Left+cover.W, y, "s-line")
		p.Line(width.Left, y, width.Left+width.W, y, "s-line")
		for k, m := range methods {
			for _, r := range records {
				if r["coverage"] == "0.95" && r["cqr"] == "true" && r["set"] == set && r["method"] == m.name {
					dotY := y + 7*float64(k-1)
					p.Circle(cover.X(r.number("picp")), dotY, 4.5, m.color)
					p.Circle(width.X(r.number("mpiw")), dotY, 4.5, m.color)
				}
			}
		}
	}
	return p
}

// directionDots plots the accuracy of causal discovery, with one line for each method and
// one dot for each set.
func directionDots(records []record) *svg.Picture {
	sets := []struct{ name, color string }{{"an", "blue"}, {"an-s", "green"}, {"ls", "purple"}, {"ls-s", "ochre"}, {"mn-u", "pink"}, {"tuebingen", "ink"}}
	sum, count := map[string]float64{}, map[string]float64{}
	for _, r := range records {
		if v := r.number("accuracy"); !math.IsNaN(v) {
			sum[r["method"]] += v
			count[r["method"]]++
		}
	}
	methods := slices.SortedFunc(maps.Keys(sum), func(a, b string) int { return cmp.Or(cmp.Compare(sum[b]/count[b], sum[a]/count[a]), cmp.Compare(a, b)) })
	p := svg.New(640, 110+24*float64(len(methods)), "Accuracy of deciding which variable is the cause",
		"Each dot is a data set. Methods are sorted by their mean accuracy; those that start with sqr are the paper's.")
	x := 124.
	for _, s := range sets {
		p.Circle(x, 26, 5, s.color)
		p.Text(x+10, 31, "small", s.name)
		x += 40 + 8*float64(len(s.name))
	}
	a := plot(p, 124, 54, 488, 24*float64(len(methods)), svg.Axis{Low: 0, High: 1.02, Ticks: []svg.Tick{{At: 0, Label: "0"}, {At: .25, Label: "25 %"}, {At: .5, Label: "50 % (chance)"}, {At: .75, Label: "75 %"}, {At: 1, Label: "100 %"}}, Label: "pairs decided rightly; bar: mean of the sets"}, svg.Axis{High: 1})
	a.Axes()
	p.Line(a.X(.5), a.Top, a.X(.5), a.Top+a.H, "dash s-faint")
	for i, m := range methods {
		y := a.Top + 24*(float64(i)+.5)
		class := "end small"
		if len(m) > 3 && m[:4] == "sqr-" {
			class += " bold orange"
		}
		p.Text(114, y+5, class, m)
		p.Line(a.Left, y, a.Left+a.W, y, "s-line")
		mean := sum[m] / count[m]
		p.Line(a.X(mean), y-9, a.X(mean), y+9, "wide s-soft")
		for _, s := range sets {
			for _, r := range records {
				if r["method"] == m && r["set"] == s.name && r["accuracy"] != "" {
					p.Circle(a.X(r.number("accuracy")), y, 4.5, s.color)
				}
			}
		}
	}
	return p
}

// crossingRates plots how often quantiles cross, with one line for each set. Each line has
// one dot for separate levels and one for joint levels.
func crossingRates(records []record) *svg.Picture {
	slices.SortStableFunc(records, func(a, b record) int { return cmp.Compare(b.number("separate"), a.number("separate")) })
	p := svg.New(640, 92+28*float64(len(records)), "Rows whose quantiles cross",
		"With a network for each level, quantiles cross in most rows of all sets but one. With one network for all levels they cross rarely, except on yacht and energy.")
	p.Circle(100, 26, 6, "blue")
	p.Text(112, 31, "small", "a network for each level")
	p.Circle(320, 26, 6, "orange")
	p.Text(332, 31, "small", "one network for all levels")
	a := plot(p, 94, 44, 518, 28*float64(len(records)), svg.Axis{High: 1, Ticks: []svg.Tick{{At: 0, Label: "0"}, {At: .25, Label: "25 %"}, {At: .5, Label: "50 %"}, {At: .75, Label: "75 %"}, {At: 1, Label: "100 %"}}, Label: "test rows in which two of nine quantiles cross"}, svg.Axis{High: 1})
	a.Axes()
	for i, r := range records {
		y := a.Top + 28*(float64(i)+.5)
		name := r["set"]
		if name == "cos10" {
			name = "toy"
		}
		p.Text(84, y+5, "end small", name)
		p.Line(a.X(r.number("joint")), y, a.X(r.number("separate")), y, "s-line wide")
		p.Circle(a.X(r.number("separate")), y, 6, "blue")
		p.Circle(a.X(r.number("joint")), y, 6, "orange")
	}
	return p
}

// classSize plots the effect of a small class on the quantiles of scores.
func classSize(records []record) *svg.Picture {
	p := svg.New(640, 350, "Effect of a small class on quantiles of the exam score",
		"The effect grows from 9 points at the lowest level to 22 at the highest. The bootstrap band is wide.")
	var ticks []svg.Tick
	for _, r := range records {
		ticks = append(ticks, svg.Tick{At: r.number("level"), Label: r["level"]})
	}
	a := plot(p, 52, 72, 572, 216, svg.Axis{Low: .07, High: .93, Ticks: ticks, Label: "quantile level of the score"}, svg.Axis{High: 35, Ticks: svg.Ticks(0, 10, 20, 30), Label: "effect, points"})
	a.Axes()
	level := column(records, "level")
	a.Band(level, column(records, "low"), column(records, "high"), "w-blue")
	a.Curve(level, column(records, "effect"), "wide s-blue")
	a.Dots(level, column(records, "effect"), 4, "blue", "1")
	a.Dots(level, column(records, "quantiles"), 4.5, "orange", "1")
	p.Circle(58, 26, 5, "blue")
	p.Text(70, 31, "small", "predicted quantiles, with 95 % bootstrap band")
	p.Circle(394, 26, 5, "orange")
	p.Text(406, 31, "small", "quantiles of the scores")
	return p
}

// figure1Picture plots the paper's figure 1, with quantiles at the top and scores at the
// bottom.
func figure1Picture(curves, rows []record) *svg.Picture {
	p := svg.New(640, 500, "Both uncertainties of one network",
		"Above, the 95 % interval of a quantile network, wide where targets vary. Below, certificate scores divided by their thresholds: above 1 where there is no data.")
	x := column(curves, "x")
	ticks := svg.Ticks(-.5, 0, .5, 1, 1.5, 2)
	axis := svg.Axis{Low: x[0], High: x[len(x)-1], Ticks: ticks}
	a := plot(p, 56, 46, 568, 170, axis, svg.Axis{Low: -4, High: 4, Ticks: svg.Ticks(-4, -2, 0, 2, 4), Label: "target y, and the 95 % interval of one network"})
	axis.Label = "input x"
	b := plot(p, 56, 282, 568, 160, axis, svg.Axis{Low: .01, High: 1e4, Log: true, Ticks: []svg.Tick{{At: .01, Label: "0.01"}, {At: 1, Label: "1"}, {At: 100, Label: "100"}, {At: 1e4, Label: "10,000"}}, Label: "certificate score / threshold (log scale)"})
	rx := column(rows, "x")
	hasData := func(v float64) bool {
		for _, r := range rx {
			if math.Abs(r-v) < .02 {
				return true
			}
		}
		return false
	}
	for i := 0; i < len(x); i++ {
		if hasData(x[i]) {
			continue
		}
		gapStart := i
		for i+1 < len(x) && !hasData(x[i+1]) {
			i++
		}
		for _, panel := range []svg.Plot{a, b} {
			p.Rect(panel.X(x[gapStart]), panel.Top, panel.X(x[i])-panel.X(x[gapStart]), panel.H, 0, "w-orange")
		}
		p.Text((a.X(x[gapStart])+a.X(x[i]))/2, a.Top+16, "small middle orange", "no data")
	}
	a.Axes()
	a.Band(x, column(curves, "q0.025"), column(curves, "q0.975"), "w-blue")
	a.Dots(rx, column(rows, "y"), 1.5, "ink", ".4")
	a.Curve(x, column(curves, "q0.5"), "wide s-blue")
	b.Axes()
	b.Level(1, "s-ink")
	legendX := 56.
	for _, s := range []struct{ name, color, label string }{{"score trained", "purple", "trained, as in the paper"}, {"score exact", "green", "exact"}, {"score exact, unit norm", "orange", "exact, unit norm"}} {
		score := column(curves, s.name)
		// The threshold is the 95 % quantile of the scores of the rows used for fitting.
		var rowScores []float64
		for _, v := range rx {
			k, _ := slices.BinarySearch(x, v)
			rowScores = append(rowScores, score[min(k, len(x)-1)])
		}
		slices.Sort(rowScores)
		threshold := stat.Quantile(.95, stat.Empirical, rowScores, nil)
		for i := range score {
			score[i] = max(score[i]/threshold, .01)
		}
		b.Curve(x, score, "wide s-"+s.color)
		p.Line(legendX, 489, legendX+20, 489, "heavy s-"+s.color)
		p.Text(legendX+28, 494, "small soft", s.label)
		legendX += 52 + 7.4*float64(len(s.label))
	}
	return p
}

// tailBounds plots the tail of theorem 1 and its bounds.
func tailBounds() *svg.Picture {
	p := svg.New(640, 330, "Theorem 1: the printed bound lies below the tail",
		"For 1, 10 and 100 certificates of variance 1 the bound printed in the paper falls below the true tail. Three other bounds stay above it.")
	legendX := 16.
	names := []struct{ name, color string }{{"printed bound", "orange"}, {"the tail", "ink"}, {"Laurent & Massart", "purple"}, {"Chernoff", "green"}, {"norm", "blue"}}
	for _, n := range names {
		p.Line(legendX, 26, legendX+16, 26, "heavy s-"+n.color)
		p.Text(legendX+22, 31, "small", n.name)
		legendX += 44 + 7.8*float64(len(n.name))
	}
	for i, k := range []int{1, 10, 100} {
		r := theorem1.Response{Variances: slices.Repeat([]float64{1}, k)}
		end := 8 * math.Sqrt(2*float64(k))
		step := []float64{4, 10, 40}[i]
		a := plot(p, 58+198*float64(i), 82, 142, 184, svg.Axis{High: end, Ticks: svg.Ticks(0, step, 2*step), Label: fmt.Sprintf("t, for k = %d", k)},
			svg.Axis{Low: 1e-8, High: 1, Log: true, Ticks: []svg.Tick{{At: 1e-8, Label: "1e-8"}, {At: 1e-6, Label: "1e-6"}, {At: 1e-4, Label: "1e-4"}, {At: .01, Label: "0.01"}, {At: 1, Label: "1"}}, Label: "P(‖Cᵀx‖² − mean ≥ t)"})
		a.Axes()
		for _, c := range []struct {
			color string
			value func(t float64) float64
		}{
			{"blue", r.NormBound}, {"green", r.Chernoff}, {"purple", r.LaurentMassart},
			{"ink", func(t float64) float64 { return distuv.ChiSquared{K: float64(k)}.Survival(float64(k) + t) }}, {"orange", r.PrintedBound},
		} {
			var x, y []float64
			for j := range 121 {
				t := end * float64(j) / 120
				v := c.value(t)
				if v < 1e-8 {
					v = math.NaN()
				}
				x, y = append(x, t), append(y, v)
			}
			a.Curve(x, y, "wide s-"+c.color)
		}
	}
	return p
}

// crossings plots nine quantiles, from separate networks on the left and from one network
// for all levels on the right.
func crossings(records []record) *svg.Picture {
	p := svg.New(640, 330, "Quantiles that cross, and quantiles that do not",
		"Nine quantiles of a toy with one input. At the left a network for each level: the lines cross in most places. At the right one network for all levels: no lines cross.")
	x := column(records, "x1")
	for i, m := range []struct{ method, color, title string }{{"separate", "blue", "a network for each level"}, {"joint", "orange", "one network for all levels"}} {
		a := plot(p, 42+310*float64(i), 72, 272, 196, svg.Axis{High: 2, Ticks: svg.Ticks(0, .5, 1, 1.5, 2), Label: "input x"},
			svg.Axis{Low: -1.8, High: 1.8, Ticks: svg.Ticks(-1, 0, 1)})
		a.Axes()
		a.Dots(x, column(records, "y"), 1.4, "soft", ".5")
		var levels [][]float64
		for l := 1; l < 10; l++ {
			levels = append(levels, column(records, fmt.Sprintf("%s q0.%d", m.method, l)))
			a.Curve(x, levels[l-1], "s-"+m.color)
		}
		crossed := 0
		for k := range x {
			for l := range len(levels) - 1 {
				if levels[l][k] > levels[l+1][k] {
					crossed++
					p.Line(a.X(x[k]), a.Top+a.H-5, a.X(x[k]), a.Top+a.H, "s-pink")
					break
				}
			}
		}
		p.Text(a.Left, 30, "bold "+m.color, m.title)
		p.Text(a.Left, 50, "small soft", fmt.Sprintf("quantiles cross in %.0f %% of these rows", 100*float64(crossed)/float64(len(x))))
	}
	p.Line(42, 317, 42, 323, "s-pink wide")
	p.Text(50, 324, "small soft", "mark: a row in which two of the nine quantiles cross")
	return p
}
