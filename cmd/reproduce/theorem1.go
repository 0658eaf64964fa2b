package main

import (
	"context"
	"encoding/csv"
	"flag"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/attach-uncertainty/attach/heads"
)

// theorem1Experiment compares the tail of ‖Cᵀx‖² for Gaussian x with the bound
// that theorem 1 of the paper prints, and with bounds that hold.
var theorem1Experiment = experiment{
	name:  "theorem1",
	doc:   "tails of certificates on Gaussian data against the paper's bound and those that hold; needs no --data",
	flags: theorem1Flags,
	run:   runTheorem1,
}

type theorem1Settings struct {
	out     string
	samples int
	seed    uint64
}

func theorem1Flags(flags *flag.FlagSet, s *settings) {
	flags.StringVar(&s.theorem1.out, "out", "theorem1", "`folder` for results and the picture")
	flags.IntVar(&s.theorem1.samples, "samples", 1_000_000, "number of Gaussian rows drawn for each spectrum")
	flags.Uint64Var(&s.theorem1.seed, "seed", 0, "seed of the rows")
}

// spectrum is certificates' variances Γ, and where their tail is looked at.
type spectrum struct {
	name   string
	gammas []float64
	at     []float64 // t
}

// theorem1Spectra are k equal variances, and one that halves from certificate to
// certificate. t are multiples of the standard deviation of ‖Cᵀx‖², and 5 for
// one certificate of variance 1.
func theorem1Spectra() []spectrum {
	var list []spectrum
	add := func(name string, gammas []float64, at ...float64) {
		var variance float64
		for _, g := range gammas {
			variance += 2 * g * g
		}
		for _, sd := range []float64{.5, 1, 2, 3, 4, 6} {
			at = append(at, sd*math.Sqrt(variance))
		}
		slices.Sort(at)
		list = append(list, spectrum{name, gammas, at})
	}
	add("1", []float64{1}, 5)
	for _, k := range []int{1, 10, 100} {
		for _, gamma := range []float64{.1, 1, 10} {
			if k > 1 || gamma != 1 {
				add(decimal(gamma), slices.Repeat([]float64{gamma}, k))
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

// tailRow is one t of one spectrum.
type tailRow struct {
	k                                       int
	gamma                                   string
	t, exact, empirical                     float64 // exact is NaN where there is no closed form
	printed, norm, laurentMassart, chernoff float64
	responses, samplesAbove                 int
}

// violated says that the printed bound lies below the tail: by the exact one,
// or by more than three standard errors below the empirical.
func (r tailRow) violated() bool {
	if !math.IsNaN(r.exact) {
		return r.printed < r.exact
	}
	n := float64(r.responses)
	return float64(r.samplesAbove) > r.printed*n+3*math.Sqrt(r.printed*n)+3
}

func runTheorem1(ctx context.Context, s settings) error {
	if s.theorem1.samples < 1 {
		return fmt.Errorf("%w: --samples must be at least 1", errUsage)
	}
	if err := os.MkdirAll(s.theorem1.out, 0o755); err != nil {
		return err
	}
	var rows []tailRow
	for i, spec := range theorem1Spectra() {
		measured, err := spec.tails(ctx, s.theorem1.samples, rand.New(rand.NewPCG(s.theorem1.seed, uint64(i))))
		if err != nil {
			return err
		}
		rows = append(rows, measured...)
		fmt.Fprintf(s.stderr, "k=%d, variances %s\n", len(spec.gammas), spec.name)
	}
	printTheorem1(s.stdout, rows)
	path := filepath.Join(s.theorem1.out, "theorem1")
	if err := writeFile(path+".csv", func(w io.Writer) error { return writeTheorem1(w, rows) }); err != nil {
		return err
	}
	return plotTheorem1(path)
}

// tails draws certificates' values, which are N(0, Γ), and counts.
func (spec spectrum) tails(ctx context.Context, samples int, rng *rand.Rand) ([]tailRow, error) {
	r := heads.Response{Variances: spec.gammas}
	above := make([]int, len(spec.at))
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
		for j, t := range spec.at {
			if norm >= t {
				above[j]++
			}
		}
	}
	rows := make([]tailRow, len(spec.at))
	for j, t := range spec.at {
		rows[j] = tailRow{
			k: len(spec.gammas), gamma: spec.name, t: t, exact: exactTail(spec.gammas, t),
			empirical: float64(above[j]) / float64(samples), responses: samples, samplesAbove: above[j],
			printed: r.PrintedBound(t), norm: r.NormBound(t), laurentMassart: r.LaurentMassart(t), chernoff: r.Chernoff(t),
		}
	}
	return rows, nil
}

// exactTail is P(‖Cᵀx‖² − E‖Cᵀx‖² ≥ t) where all variances are equal, and NaN
// else.
func exactTail(gammas []float64, t float64) float64 {
	if slices.Min(gammas) != slices.Max(gammas) {
		return math.NaN()
	}
	k := float64(len(gammas))
	return distuv.ChiSquared{K: k}.Survival(k + t/gammas[0])
}

func printTheorem1(w io.Writer, rows []tailRow) {
	fmt.Fprintf(w, "P(‖Cᵀx‖² − E‖Cᵀx‖² ≥ t) for Cᵀx ~ N(0, Γ), %d rows; ✗ marks where the printed bound lies below the tail\n\n", rows[0].responses)
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

func writeTheorem1(w io.Writer, rows []tailRow) error {
	out := csv.NewWriter(w)
	out.Write([]string{"k", "gamma", "t", "exact", "empirical", "samples", "printed", "printed_violated", "laurent_massart", "chernoff", "norm"})
	for _, r := range rows {
		exact := ""
		if !math.IsNaN(r.exact) {
			exact = decimal(r.exact)
		}
		out.Write([]string{
			strconv.Itoa(r.k), r.gamma, decimal(r.t), exact, decimal(r.empirical), strconv.Itoa(r.responses),
			decimal(r.printed), strconv.FormatBool(r.violated()), decimal(r.laurentMassart), decimal(r.chernoff), decimal(r.norm),
		})
	}
	out.Flush()
	return out.Error()
}
