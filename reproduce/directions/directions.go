// Package directions shows which shifts of a model's features the certificates can detect.
// It applies the second half of the paper's theorem 1 to a fitted detector.
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

// Experiment is the directions command. It computes the principal directions of
// in-distribution features and shows how linear certificates respond to rows shifted along
// each direction.
//
// Column sd is the rows' standard deviation along the direction. Column seen is the growth
// of the certificates' sum of squares per squared length of a shift. For orthonormal
// certificates, it lies between 0 (no shift is detectable) and 1.
//
// Column shift is the length of the shortest shift, forwards or backwards, that raises the mean
// score to the flagging threshold. It is ∞ if no shift does. Column shift/sd is this length
// in standard deviations. Lengths refer to features as the certificates read them: if the
// certificates scale rows to norm 1, so does this command. Certificates with cross-entropy
// loss have no shift because their score is not a sum of squares.
var Experiment = experiment.Experiment{
	Name: "directions",
	Doc:  "which shifts of features the certificates of a .attach file see; needs no --data",
	New: func(flags *flag.FlagSet, shared *experiment.Settings) func(ctx context.Context) error {
		s := &settings{Settings: shared}
		flags.StringVar(&s.attachFile, "attach", "", "`M.attach`, fitted with certificates, certificates-trained or certificates-unregularised")
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
	attachFile, x, vectors string
	top                    int
	json                   bool
	alpha                  float64
}

func (s *settings) run(ctx context.Context) error {
	switch {
	case s.attachFile == "" || s.x == "":
		return experiment.Usagef("say with --attach what was fitted, and with --x where features of in-domain rows are")
	case s.top < 0:
		return experiment.Usagef("--top is %d; it must not be negative", s.top)
	case !(s.alpha >= 0 && s.alpha < 1):
		return experiment.Usagef("--alpha is %v; it must be between 0 and 1", s.alpha)
	case s.vectors != "" && filepath.Ext(s.vectors) != ".npz" || s.vectors == s.x:
		return experiment.Usagef("-o is %q; it must end in .npz, and not be what --x reads", s.vectors)
	}
	b, scorer, err := openCertificates(s.attachFile)
	if err != nil {
		return err
	}
	certificates := certificatesOf(scorer)
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
	directions, err := principalDirections(certificates, m)
	if err != nil {
		return fmt.Errorf("%s: %w", s.x, err)
	}
	out := report{
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
		out.MeanScore, out.Threshold = &score, finiteOrNil(threshold)
	}
	out.setDirections(directions)
	if s.vectors != "" {
		if err := out.write(s.vectors, directions); err != nil {
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

// linearMethods lists the methods that fit linear certificates.
var linearMethods = []string{"certificates", "certificates-trained", "certificates-unregularised"}

// openCertificates opens a .attach file and restores its linear certificates from the
// stored state.
func openCertificates(path string) (*attach.Bundle, *fitting.Scorer, error) {
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

// linearCertificates holds certificates that are linear functions of the features.
type linearCertificates struct {
	C        blas32.General // h features × k certificates
	Mean     []float32      // subtracted from rows; may be nil
	UnitNorm bool           // reports whether rows are first scaled to norm 1
	Loss     train.Loss
}

// certificatesOf returns the linear certificates of a fitted detector.
func certificatesOf(s *fitting.Scorer) linearCertificates {
	st := s.State()
	c := st.Arrays["certificates"]
	mean, _ := st.Arrays["mean"].Data.([]float32)
	return linearCertificates{
		C:    blas32.General{Rows: c.Shape[0], Cols: c.Shape[1], Stride: c.Shape[1], Data: c.Data.([]float32)},
		Mean: mean, UnitNorm: st.Params["unit_norm"].(bool), Loss: train.Loss(st.Params["loss"].(string)),
	}
}

// report is the JSON output of the directions command.
type report struct {
	Detector string  `json:"detector"`
	K        int     `json:"k"`     // number of certificates
	Width    int     `json:"width"` // number of features
	UnitNorm bool    `json:"unit_norm"`
	Centred  bool    `json:"centred"`
	N        int     `json:"n"` // number of rows
	Alpha    float64 `json:"alpha"`
	// MeanScore is the mean score of the rows, and rows with a score above Threshold are
	// flagged. Both are nil if the score is not a sum of squares. Threshold is also nil if
	// no score can be flagged.
	MeanScore *float64 `json:"mean_score"`
	Threshold *float64 `json:"threshold"`
	nCal      int      // number of calibration rows
	// Blind counts the directions with Seen below blindThreshold times the largest Seen.
	// BlindVariance is their fraction of the rows' variance.
	Blind         int                 `json:"blind"`
	BlindVariance float64             `json:"blind_variance"`
	Directions    []reportedDirection `json:"directions"`
}

const blindThreshold = .01

type reportedDirection struct {
	Variance float64  `json:"variance"`
	Seen     float64  `json:"seen"`
	Slope    float64  `json:"slope"` // derivative of the sum of squares at a shift of 0
	Shift    *float64 `json:"shift"` // nil if infinite or unknown
}

func finiteOrNil(v float64) *float64 {
	if math.IsInf(v, 0) || math.IsNaN(v) {
		return nil
	}
	return &v
}

// setDirections stores the directions. It multiplies Seen and Slope by k because the report
// is about sums of squares, not means.
func (s *report) setDirections(directions []direction) {
	k := float64(s.K)
	var total, blind, best float64
	for _, d := range directions {
		best = max(best, d.Seen)
	}
	for _, d := range directions {
		total += d.Variance
		entry := reportedDirection{Variance: d.Variance, Seen: k * d.Seen, Slope: k * d.Slope}
		if d.Seen < blindThreshold*best {
			s.Blind++
			blind += d.Variance
		}
		if s.Threshold != nil {
			entry.Shift = finiteOrNil(shiftTo(d, *s.Threshold-*s.MeanScore))
		}
		s.Directions = append(s.Directions, entry)
	}
	if total > 0 {
		s.BlindVariance = blind / total
	}
}

// shiftTo returns the length of the shortest shift that raises the mean score by rise. It
// returns 0 if rise is not positive.
func shiftTo(d direction, rise float64) float64 {
	if rise <= 0 {
		return 0
	}
	return d.Shift(rise)
}

func (s *report) print(w io.Writer, top int) {
	description := "features"
	if s.UnitNorm {
		description = "features scaled to norm 1"
	}
	if s.Centred {
		description += ", less their mean"
	}
	fmt.Fprintf(w, "%s: %d certificates of %d %s; %d rows\n", s.Detector, s.K, s.Width, description, s.N)
	switch {
	case s.Threshold != nil:
		fmt.Fprintf(w, "mean score %.4g; flagged above %.4g, at alpha %g\n", *s.MeanScore, *s.Threshold, s.Alpha)
	case s.MeanScore != nil:
		fmt.Fprintf(w, "mean score %.4g; at alpha %g no shift is flagged, because there are too few calibration rows (%d): choose a larger --alpha\n", *s.MeanScore, s.Alpha, s.nCal)
	default:
		fmt.Fprintln(w, "no shifts: the score is of cross-entropy loss, and no sum of squares")
	}
	fmt.Fprintf(w, "%d of %d directions are seen less than %g %% of the one seen best; they hold %.3g %% of the rows' variance\n\n", s.Blind, s.Width, 100*blindThreshold, 100*s.BlindVariance)
	if top == 0 || top > len(s.Directions) {
		top = len(s.Directions)
	}
	fmt.Fprintf(w, "%9s %9s %9s %9s %9s\n", "direction", "sd", "seen", "shift", "shift/sd")
	threeDigits := func(v float64) string { return strconv.FormatFloat(v, 'g', 3, 64) }
	for i, d := range s.Directions[:top] {
		sd := math.Sqrt(d.Variance)
		shift, relative := "–", "–"
		switch {
		case d.Shift != nil:
			shift = threeDigits(*d.Shift)
			if sd > 0 {
				relative = threeDigits(*d.Shift / sd)
			}
		case s.Threshold != nil:
			shift, relative = "∞", "∞"
		}
		fmt.Fprintf(w, "%9d %9s %9s %9s %9s\n", i+1, threeDigits(sd), threeDigits(d.Seen), shift, relative)
	}
	if remaining := len(s.Directions) - top; remaining > 0 {
		fmt.Fprintf(w, "\n%d more directions vary less; --top 0 prints them all\n", remaining)
	}
}

// write writes the directions and the certificates' response to an .npz file.
func (s *report) write(path string, directions []direction) error {
	vectors := rows.New(len(directions), s.Width)
	columns := map[string][]float64{}
	for i, d := range directions {
		for j, v := range d.Vector {
			rows.Row(vectors, i)[j] = float32(v)
		}
		entry := s.Directions[i]
		columns["variance"] = append(columns["variance"], entry.Variance)
		columns["seen"] = append(columns["seen"], entry.Seen)
		columns["slope"] = append(columns["slope"], entry.Slope)
		if s.Threshold != nil {
			shift := math.Inf(1)
			if entry.Shift != nil {
				shift = *entry.Shift
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
