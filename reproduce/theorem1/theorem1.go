// Package theorem1 compares the tail of ‖Cᵀx‖² for Gaussian x with the bound printed in
// theorem 1 of the paper, and with bounds that hold.
package theorem1

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"
	"gonum.org/v1/plot/vg"

	"github.com/attach-uncertainty/attach/reproduce/experiment"
)

// Experiment is the theorem1 command.
var Experiment = experiment.Experiment{
	Name:   "theorem1",
	Doc:    "tails of certificates on Gaussian data against the paper's bound and those that hold; needs no --data",
	Shared: []string{"out"},
	New: func(flags *flag.FlagSet, s *experiment.Settings) func(ctx context.Context) error {
		samples := flags.Int("samples", 1_000_000, "number of Gaussian rows drawn for each spectrum")
		seed := flags.Uint64("seed", 0, "seed of the rows")
		return func(ctx context.Context) error { return run(ctx, s, *samples, *seed) }
	},
}

// spectrum holds the variances Γ of the certificates and the thresholds t of the tail.
type spectrum struct {
	name       string
	gammas     []float64
	thresholds []float64
}

// spectra returns spectra of k equal variances and one whose variances halve from
// certificate to certificate. Each t is a multiple of the standard deviation of ‖Cᵀx‖². One
// certificate of variance 1 also has t = 5, the example of PrintedBound.
func spectra() []spectrum {
	var list []spectrum
	add := func(name string, gammas []float64, thresholds ...float64) {
		var variance float64
		for _, g := range gammas {
			variance += 2 * g * g
		}
		for _, sd := range []float64{.5, 1, 2, 3, 4, 6} {
			thresholds = append(thresholds, sd*math.Sqrt(variance))
		}
		slices.Sort(thresholds)
		list = append(list, spectrum{name, gammas, thresholds})
	}
	add("1", []float64{1}, 5)
	for _, k := range []int{1, 10, 100} {
		for _, gamma := range []float64{.1, 1, 10} {
			if k > 1 || gamma != 1 {
				add(experiment.Digits(gamma, 7), slices.Repeat([]float64{gamma}, k))
			}
		}
	}
	var halving []float64
	for g := 1.; len(halving) < 10; g /= 2 {
		halving = append(halving, g)
	}
	add("1…1/512", halving)
	slices.SortStableFunc(list, func(a, b spectrum) int { return len(a.gammas) - len(b.gammas) })
	return list
}

// tailRow holds the tail and the bounds for one t of one spectrum.
type tailRow struct {
	k                                       int
	gamma                                   string
	t, exact, empirical                     float64 // exact is NaN if there is no closed form
	printed, norm, laurentMassart, chernoff float64
	samples, samplesAbove                   int
}

// violated reports whether the printed bound lies below the exact tail. If there is no exact
// tail, more samples must exceed t than the bound allows. The excess must be larger than
// three standard errors plus three samples.
func (r tailRow) violated() bool {
	if !math.IsNaN(r.exact) {
		return r.printed < r.exact
	}
	n := float64(r.samples)
	return float64(r.samplesAbove) > r.printed*n+3*math.Sqrt(r.printed*n)+3
}

func run(ctx context.Context, s *experiment.Settings, samples int, seed uint64) error {
	if samples < 1 {
		return experiment.Usagef("--samples must be at least 1")
	}
	var rows []tailRow
	for i, spec := range spectra() {
		tailRows, err := spec.tails(ctx, samples, rand.New(rand.NewPCG(seed, uint64(i))))
		if err != nil {
			return err
		}
		rows = append(rows, tailRows...)
		fmt.Fprintf(s.Stderr, "k=%d, variances %s\n", len(spec.gammas), spec.name)
	}
	printTable(s.Stdout, rows)
	path := filepath.Join(s.Out, "theorem1")
	if err := experiment.WriteCSV(path+".csv", csvLines(rows)); err != nil {
		return err
	}
	return plotTails(path)
}

// tails draws values of the certificates from N(0, Γ) and counts how often ‖Cᵀx‖² − E‖Cᵀx‖²
// reaches each t.
func (spec spectrum) tails(ctx context.Context, samples int, rng *rand.Rand) ([]tailRow, error) {
	r := Response{Variances: spec.gammas}
	countAbove := make([]int, len(spec.thresholds))
	mean := r.Mean()
	for i := range samples {
		if i%4096 == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		norm := -mean
		for _, g := range spec.gammas {
			z := rng.NormFloat64()
			norm += g * z * z
		}
		for j, t := range spec.thresholds {
			if norm >= t {
				countAbove[j]++
			}
		}
	}
	rows := make([]tailRow, len(spec.thresholds))
	for j, t := range spec.thresholds {
		rows[j] = tailRow{
			k: len(spec.gammas), gamma: spec.name, t: t, exact: exactTail(spec.gammas, t),
			empirical: float64(countAbove[j]) / float64(samples), samples: samples, samplesAbove: countAbove[j],
			printed: r.PrintedBound(t), norm: r.NormBound(t), laurentMassart: r.LaurentMassart(t), chernoff: r.Chernoff(t),
		}
	}
	return rows, nil
}

// exactTail returns P(‖Cᵀx‖² − E‖Cᵀx‖² ≥ t) if all variances are equal, and NaN otherwise.
func exactTail(gammas []float64, t float64) float64 {
	if slices.Min(gammas) != slices.Max(gammas) {
		return math.NaN()
	}
	k := float64(len(gammas))
	return distuv.ChiSquared{K: k}.Survival(k + t/gammas[0])
}

func printTable(w io.Writer, rows []tailRow) {
	fmt.Fprintf(w, "P(‖Cᵀx‖² − E‖Cᵀx‖² ≥ t) for Cᵀx ~ N(0, Γ), %d rows; ✗ marks where the printed bound lies below the tail\n\n", rows[0].samples)
	fmt.Fprintf(w, "%4s %-9s %9s %11s %11s %13s %11s %11s %11s\n", "k", "Γ", "t", "exact", "empirical", "printed", "Laurent-M.", "Chernoff", "norm")
	violations := 0
	for _, r := range rows {
		mark, exact := " ", "–"
		if r.violated() {
			mark = "✗"
			violations++
		}
		if !math.IsNaN(r.exact) {
			exact = fmt.Sprintf("%.3g", r.exact)
		}
		fmt.Fprintf(w, "%4d %-9s %9.3g %11s %11.3g %11.3g %s %11.3g %11.3g %11.3g\n",
			r.k, r.gamma, r.t, exact, r.empirical, r.printed, mark, r.laurentMassart, r.chernoff, r.norm)
	}
	fmt.Fprintf(w, "\nthe printed bound is violated in %d of %d rows\n", violations, len(rows))
}

func csvLines(rows []tailRow) [][]string {
	lines := [][]string{{"k", "gamma", "t", "exact", "empirical", "samples", "printed", "printed_violated", "laurent_massart", "chernoff", "norm"}}
	for _, r := range rows {
		lines = append(lines, experiment.Cells(7, r.k, r.gamma, r.t, experiment.Known(r.exact), r.empirical, r.samples,
			r.printed, r.violated(), r.laurentMassart, r.chernoff, r.norm))
	}
	return lines
}

// plotTails plots the exact tail and the bounds for certificates of variance 1.
func plotTails(path string) error {
	var panels []*experiment.Figure
	for _, k := range []int{1, 10, 100} {
		r := Response{Variances: slices.Repeat([]float64{1}, k)}
		p := experiment.NewFigure(fmt.Sprintf("k = %d, Γ = 1", k), "t", "")
		const low = -8.
		var x []float64
		end := 8 * math.Sqrt(2*float64(k))
		for i := range 201 {
			x = append(x, end*float64(i)/200)
		}
		for i, curve := range []struct {
			name  string
			value func(t float64) float64
			width float64
		}{
			{"norm, Gaussian", r.NormBound, 1.2},
			{"printed in the paper", r.PrintedBound, 1.6},
			{"Laurent & Massart", r.LaurentMassart, 1.2},
			{"Chernoff", r.Chernoff, 1.2},
			{"the tail", func(t float64) float64 { return exactTail(r.Variances, t) }, 2.2},
		} {
			var points, y []float64
			for _, t := range x {
				if logValue := math.Log10(curve.value(t)); logValue >= low {
					points, y = append(points, t), append(y, logValue)
				}
			}
			ink := experiment.Color(i)
			if curve.name == "the tail" {
				ink = experiment.Ink()
			}
			line := p.Line(points, y, ink, curve.width)
			p.Add(line)
			if k == 100 { // only this panel has room for the legend
				p.Legend.Add(curve.name, line)
			}
		}
		if k == 1 {
			p.Y.Label.Text = "P(‖Cᵀx‖² − E‖Cᵀx‖² ≥ t)"
		}
		p.Legend.Top, p.Legend.Left, p.Legend.XOffs = false, true, .5*vg.Centimeter
		p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = 0, end, low, 0
		p.Y.Tick.Marker = experiment.Decades(low, 0)
		panels = append(panels, p)
	}
	return experiment.Save(path, 24, 8, panels)
}
