// Package directions says which shifts of a model's features certificates can
// see: the second half of the paper's theorem 1, of a fitted head.
package directions

import (
	"archive/zip"
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/attach-uncertainty/attach/heads/train"
	"github.com/attach-uncertainty/attach/internal/fitting"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/calibrate"
	"github.com/attach-uncertainty/attach/internal/data/inputs"
	"github.com/attach-uncertainty/attach/internal/data/npy"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/numeric/moments"
	"github.com/attach-uncertainty/attach/reproduce/experiment"
)

// Experiment takes the principal directions of the features of in-domain rows,
// by falling variance, and says of each what linear certificates make of rows
// that are shifted along it.
//
// `sd` is the standard deviation of the rows along it. `seen` is how much the
// certificates' sum of squares grows with the square of the shift: for
// orthonormal ones from 0, where no shift can be seen, to 1. `shift` is the
// length of the shortest shift, along it or against it, ∞ where there is none,
// that lifts the rows' mean score to the threshold of a flag, and `shift/sd` the
// same in standard deviations. Lengths are those of features as the
// certificates see them: of rows scaled to norm 1, where they scale them. The
// score of certificates with cross-entropy loss is no sum of squares, and has
// no shift.
var Experiment = experiment.Experiment{
	Name: "directions",
	Doc:  "which shifts of features the certificates of a .attach file see; needs no --data",
	New: func(flags *flag.FlagSet, shared *experiment.Settings) func(ctx context.Context) error {
		s := &settings{Settings: shared}
		flags.StringVar(&s.bundle, "attach", "", "`M.attach`, fitted with certificates, certificates-trained or certificates-unregularised")
		flags.StringVar(&s.x, "x", "", "in-domain `features`, as attach features writes them")
		flags.IntVar(&s.top, "top", 10, "print the `N` directions along which the features vary most; 0 for all")
		flags.BoolVar(&s.json, "json", false, "print JSON, of all directions; null is an endless shift")
		flags.StringVar(&s.vectors, "o", "", ".npz `file` to write vectors h×h (a direction a row), variance, seen, slope and shift to")
		flags.Float64Var(&s.alpha, "alpha", 0, "`share` of in-domain inputs that may be flagged by mistake (0: what fit was given)")
		return s.run
	},
}

type settings struct {
	*experiment.Settings
	bundle, x, vectors string
	top                int
	json               bool
	alpha              float64
}

func (s *settings) run(ctx context.Context) error {
	switch {
	case s.bundle == "" || s.x == "":
		return experiment.Usagef("say with --attach what was fitted, and with --x where features of in-domain rows are")
	case s.top < 0:
		return experiment.Usagef("--top is %d; it must not be negative", s.top)
	case !(s.alpha >= 0 && s.alpha < 1):
		return experiment.Usagef("--alpha is %v; it must be between 0 and 1", s.alpha)
	case s.vectors != "" && filepath.Ext(s.vectors) != ".npz" || s.vectors == s.x:
		return experiment.Usagef("-o is %q; it must end in .npz, and not be what --x reads", s.vectors)
	}
	b, scorer, err := open(s.bundle)
	if err != nil {
		return err
	}
	certificates := linearOf(scorer)
	if s.alpha == 0 {
		s.alpha = b.Calibration.Alpha
	}
	rows, err := inputs.OpenFeatures(s.x)
	if err != nil {
		return err
	}
	if w := rows.Features.Cols; w != certificates.C.Rows {
		return fmt.Errorf("%s: the rows have %d features, but the fit used %d", s.x, w, certificates.C.Rows)
	}
	m := &moments.Moments{UnitNorm: certificates.UnitNorm}
	if err := m.Add(ctx, rows.Features); err != nil {
		return fmt.Errorf("%s: %w", s.x, err)
	}
	found, err := directionsOf(certificates, m)
	if err != nil {
		return fmt.Errorf("%s: %w", s.x, err)
	}
	out := seen{
		Detector: b.Detector.Method, K: certificates.C.Cols, Width: certificates.C.Rows, N: m.N(),
		UnitNorm: certificates.UnitNorm, Centred: certificates.Mean != nil, Alpha: s.alpha, nCal: len(b.Calibration.OOD),
	}
	if certificates.Loss != "bce" {
		scores, err := scorer.Score(ctx, nil, rows)
		if err != nil {
			return fmt.Errorf("%s: %w", s.x, err)
		}
		score := 0.
		for _, v := range scores {
			score += v
		}
		score /= float64(m.N())
		threshold := calibrate.Conformal{Scores: slices.Sorted(slices.Values(b.Calibration.OOD))}.Threshold(s.alpha)
		out.MeanScore, out.Threshold = &score, finite(threshold)
	}
	out.fill(found)
	if s.vectors != "" {
		if err := out.write(s.vectors, found); err != nil {
			return err
		}
	}
	if s.json {
		lines := json.NewEncoder(s.Stdout)
		lines.SetIndent("", "  ")
		return lines.Encode(out)
	}
	out.print(s.Stdout, s.top)
	return nil
}

// linearMethods fit linear certificates.
var linearMethods = []string{"certificates", "certificates-trained", "certificates-unregularised"}

// open opens a bundle with linear certificates, and these, from their state in its
// file.
func open(path string) (*attach.Bundle, *fitting.Scorer, error) {
	b, err := attach.Open(path)
	if err != nil {
		return nil, nil, err
	}
	if b.Detector == nil || !slices.Contains(linearMethods, b.Detector.Method) {
		return nil, nil, fmt.Errorf("%s: directions are those of linear certificates; fit with --method certificates, certificates-trained or certificates-unregularised", path)
	}
	z, err := zip.OpenReader(path)
	if err != nil {
		return nil, nil, err
	}
	defer z.Close()
	var manifest struct {
		Detector struct{ State map[string]any }
	}
	st := rows.State{Arrays: map[string]rows.Array{}}
	for _, f := range z.File {
		name, ok := strings.CutPrefix(strings.TrimSuffix(f.Name, ".npy"), "detector/")
		if !ok && f.Name != "manifest.json" {
			continue
		}
		r, err := f.Open()
		if err != nil {
			return nil, nil, err
		}
		if ok {
			st.Arrays[name], err = npy.Read(r, int64(f.UncompressedSize64))
		} else {
			err = json.NewDecoder(r).Decode(&manifest)
		}
		if err := cmp.Or(err, r.Close()); err != nil {
			return nil, nil, fmt.Errorf("%s: %s: %w", path, f.Name, err)
		}
	}
	st.Params = manifest.Detector.State
	m, _ := attach.MethodByName(b.Detector.Method)
	scorer, err := fitting.Restore(m, st)
	return b, scorer, err
}

// linear are certificates that are linear functions of features.
type linear struct {
	C        blas32.General // h×k
	Mean     []float32      // subtracted from rows, or nil
	UnitNorm bool           // rows are scaled to norm 1 before
	Loss     train.Loss
}

// linearOf are the linear certificates that were fitted.
func linearOf(s *fitting.Scorer) linear {
	st := s.State()
	c := st.Arrays["certificates"]
	mean, _ := st.Arrays["mean"].Data.([]float32)
	return linear{
		C:    blas32.General{Rows: c.Shape[0], Cols: c.Shape[1], Stride: c.Shape[1], Data: c.Data.([]float32)},
		Mean: mean, UnitNorm: st.Params["unit_norm"].(bool), Loss: train.Loss(st.Params["loss"].(string)),
	}
}

// seen is what directions prints.
type seen struct {
	Detector string  `json:"detector"`
	K        int     `json:"k"`     // certificates
	Width    int     `json:"width"` // features
	UnitNorm bool    `json:"unit_norm"`
	Centred  bool    `json:"centred"`
	N        int     `json:"n"` // rows
	Alpha    float64 `json:"alpha"`
	// MeanScore is that of the rows, and Threshold what a flagged one exceeds;
	// nil where the score is no sum of squares, or nothing is ever flagged.
	MeanScore *float64 `json:"mean_score"`
	Threshold *float64 `json:"threshold"`
	nCal      int      // rows that the threshold is of
	// Blind is the number of directions that are seen less than blindShare of
	// the one seen best, and BlindVariance their share of the rows' variance.
	Blind         int             `json:"blind"`
	BlindVariance float64         `json:"blind_variance"`
	Directions    []seenDirection `json:"directions"`
}

const blindShare = .01

type seenDirection struct {
	Variance float64  `json:"variance"`
	Seen     float64  `json:"seen"`
	Slope    float64  `json:"slope"` // of the sum of squares, at no shift
	Shift    *float64 `json:"shift"` // nil where it is endless or not known
}

func finite(v float64) *float64 {
	if math.IsInf(v, 0) || math.IsNaN(v) {
		return nil
	}
	return &v
}

// fill takes what the certificates see of each direction, as sums of squares.
func (s *seen) fill(found []direction) {
	k := float64(s.K)
	var all, blind, best float64
	for _, d := range found {
		best = max(best, d.Seen)
	}
	for _, d := range found {
		all += d.Variance
		one := seenDirection{Variance: d.Variance, Seen: k * d.Seen, Slope: k * d.Slope}
		if d.Seen < blindShare*best {
			s.Blind++
			blind += d.Variance
		}
		if s.Threshold != nil {
			one.Shift = finite(shiftTo(d, *s.Threshold-*s.MeanScore))
		}
		s.Directions = append(s.Directions, one)
	}
	if all > 0 {
		s.BlindVariance = blind / all
	}
}

// shiftTo is the shortest shift that adds rise to the mean score: none where it
// is there already.
func shiftTo(d direction, rise float64) float64 {
	if rise <= 0 {
		return 0
	}
	return d.Shift(rise)
}

func (s *seen) print(w io.Writer, top int) {
	what := "features"
	if s.UnitNorm {
		what = "features scaled to norm 1"
	}
	if s.Centred {
		what += ", less their mean"
	}
	fmt.Fprintf(w, "%s: %d certificates of %d %s; %d rows\n", s.Detector, s.K, s.Width, what, s.N)
	switch {
	case s.Threshold != nil:
		fmt.Fprintf(w, "mean score %.4g; flagged above %.4g, at alpha %g\n", *s.MeanScore, *s.Threshold, s.Alpha)
	case s.MeanScore != nil:
		fmt.Fprintf(w, "mean score %.4g; at alpha %g no shift is flagged, as %d calibration rows are too few: choose a larger --alpha\n", *s.MeanScore, s.Alpha, s.nCal)
	default:
		fmt.Fprintln(w, "no shifts: the score is of cross-entropy loss, and no sum of squares")
	}
	fmt.Fprintf(w, "%d of %d directions are seen less than %g %% of the one seen best; they hold %.3g %% of the rows' variance\n\n", s.Blind, s.Width, 100*blindShare, 100*s.BlindVariance)
	if top == 0 || top > len(s.Directions) {
		top = len(s.Directions)
	}
	fmt.Fprintf(w, "%9s %9s %9s %9s %9s\n", "direction", "sd", "seen", "shift", "shift/sd")
	three := func(v float64) string { return strconv.FormatFloat(v, 'g', 3, 64) }
	for i, d := range s.Directions[:top] {
		sd := math.Sqrt(d.Variance)
		shift, relative := "–", "–"
		switch {
		case d.Shift != nil:
			shift = three(*d.Shift)
			if sd > 0 {
				relative = three(*d.Shift / sd)
			}
		case s.Threshold != nil:
			shift, relative = "∞", "∞"
		}
		fmt.Fprintf(w, "%9d %9s %9s %9s %9s\n", i+1, three(sd), three(d.Seen), shift, relative)
	}
	if left := len(s.Directions) - top; left > 0 {
		fmt.Fprintf(w, "\n%d more directions vary less; --top 0 prints them all\n", left)
	}
}

// write writes the directions, and what is seen of them.
func (s *seen) write(path string, found []direction) error {
	vectors := rows.New(len(found), s.Width)
	columns := map[string][]float64{}
	for i, d := range found {
		for j, v := range d.Vector {
			rows.Row(vectors, i)[j] = float32(v)
		}
		one := s.Directions[i]
		columns["variance"] = append(columns["variance"], one.Variance)
		columns["seen"] = append(columns["seen"], one.Seen)
		columns["slope"] = append(columns["slope"], one.Slope)
		if s.Threshold != nil {
			shift := math.Inf(1)
			if one.Shift != nil {
				shift = *one.Shift
			}
			columns["shift"] = append(columns["shift"], shift)
		}
	}
	arrays := map[string]rows.Array{"vectors": rows.ArrayOf(vectors)}
	for name, x := range columns {
		arrays[name] = rows.Vector(x)
	}
	return experiment.WriteFile(path, func(w io.Writer) error { return npy.WriteNPZ(w, arrays, false) })
}
