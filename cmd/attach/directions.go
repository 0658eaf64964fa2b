package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"strconv"

	"github.com/urfave/cli/v2"
	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/baselines"
	"github.com/attach-uncertainty/attach/heads"
	"github.com/attach-uncertainty/attach/heads/bundle"
	"github.com/attach-uncertainty/attach/internal/atomicfile"
	"github.com/attach-uncertainty/attach/internal/npy"
	"github.com/attach-uncertainty/attach/ood"
)

func directionsCommand() *cli.Command {
	flags := []cli.Flag{
		&cli.StringFlag{Name: "x", Usage: "`INPUTS`: in-domain rows, such as fit was given: .npy, .npz (x or images), .csv, a folder of images; with --features, what `attach features` writes"},
		&cli.IntFlag{Name: "top", Value: 10, Usage: "`N`: print the N directions along which the features vary most; 0 for all"},
		&cli.BoolFlag{Name: "json", Usage: "print JSON, of all directions"},
		&cli.StringFlag{Name: "o", Usage: "`FILE`: .npz to write the directions themselves to"},
		&cli.StringFlag{Name: "model", Usage: "`MODEL.onnx`: the model that M.attach was fitted for, where it has moved since"},
		&cli.BoolFlag{Name: "features", Usage: "take --x as features, and do not run the model"},
		&cli.Float64Flag{Name: "alpha", Usage: "`SHARE`: share of in-domain inputs that may be flagged by mistake, instead of what fit was given"},
	}
	return &cli.Command{
		Name:      "directions",
		Usage:     "show which shifts of a model's features certificates can see, and which not",
		UsageText: "attach directions M.attach --x INPUTS",
		Description: "Takes the principal directions of the features of in-domain rows, by falling variance, and says of each what linear certificates " +
			"(detectors certificates, certificates-trained and certificates-unregularised) make of rows that are shifted along it.\n\n`sd` is the standard deviation of the rows along it. `seen` is how much " +
			"the certificates' sum of squares grows with the square of the shift: for orthonormal ones from 0, where no shift can be seen, to 1. `shift` is the " +
			"length of the shortest shift, along it or against it, ∞ where there is none, that lifts the rows' mean score to the threshold of a flag, and `shift/sd` the same " +
			"in standard deviations. Lengths are those of features as the certificates see them: of rows scaled to norm 1, where they scale them. " +
			"The score of certificates with cross-entropy loss is no sum of squares, and has no shift.\n\n" +
			"-o writes vectors h×h (a direction a row), variance, seen, slope and shift. JSON has null for an endless shift.",
		Flags:  concat(flags, inputFlags(), []cli.Flag{batchFlag()}, runtimeFlags()),
		Action: directions,
	}
}

// seenDirections is what directions prints.
type seenDirections struct {
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

// directionSquares are the matrices of features × features that are held while
// directions are found.
const directionSquares = 8

type seenDirection struct {
	Variance float64  `json:"variance"`
	Seen     float64  `json:"seen"`
	Slope    float64  `json:"slope"` // of the sum of squares, at no shift
	Shift    *float64 `json:"shift"` // nil where it is endless or not known
}

func directions(c *cli.Context) error {
	args, err := positional(c, "M.attach")
	if err != nil {
		return err
	}
	if err := required(c, "x"); err != nil {
		return err
	}
	if err := distinct(c, "x", "model", "preprocess"); err != nil {
		return err
	}
	if c.Bool("features") {
		if err := refuse(c, "with --features", append(rowFlags(), "model")...); err != nil {
			return err
		}
	}
	if c.Bool("json") {
		if err := refuse(c, "with --json, which prints all directions", "top"); err != nil {
			return err
		}
	}
	if err := refuseLabels(c); err != nil {
		return err
	}
	alpha, path := c.Float64("alpha"), c.String("o")
	switch {
	case c.IsSet("alpha") && !(alpha > 0 && alpha < 1):
		return usagef("--alpha is %v; it must be between 0 and 1", alpha)
	case c.Int("top") < 0:
		return usagef("--top is %d; it must not be negative", c.Int("top"))
	case path != "":
		if err := checkExtension("o", path, ".npz"); err != nil {
			return err
		}
		if err := checkWritable(c.Context, path); err != nil {
			return err
		}
	}
	r, err := newReading(c)
	if err != nil {
		return err
	}
	o, err := featurizeOptions(c)
	if err != nil {
		return err
	}
	b, certificates, err := openCertificates(args[0])
	if err != nil {
		return err
	}
	if certificates.Loss == heads.BCE {
		if err := refuse(c, "for certificates of cross-entropy loss, which have no shift", "alpha"); err != nil {
			return err
		}
	}
	if w := float64(certificates.Width()); directionSquares*8*w*w > ood.MostMemory {
		return fmt.Errorf("%s: the directions of %g features take more than %d GB of memory: fit on fewer", args[0], w, 2*ood.MostMemory>>30)
	}
	if b.Base.SHA256 == "" && !c.Bool("features") {
		if err := refuse(c, "for heads that were fitted on features alone", append(rowFlags(), "model")...); err != nil {
			return err
		}
	}
	if !c.IsSet("alpha") {
		alpha = b.Calibration.Alpha
	}
	rows, err := openPredictRows(c, r, b, o)
	if err != nil {
		return err
	}
	defer rows.close()
	p := newProgress(c.App.ErrWriter, "directions")
	defer p.end()
	moments := &heads.Moments{UnitNorm: certificates.UnitNorm}
	score := 0.0
	for batch, err := range rows.batches {
		if err != nil {
			return inFile(c.String("x"), err)
		}
		if w := batch.Features.Cols; w != certificates.Width() {
			return fmt.Errorf("%s: the rows have %d features, and the bundle was fitted on %d", c.String("x"), w, certificates.Width())
		}
		if err := moments.Add(batch.Features); err != nil {
			return inFile(c.String("x"), err)
		}
		for _, s := range certificates.Score(nil, batch.Features) {
			score += s
		}
		p.set(moments.N(), rows.n)
	}
	found, err := certificates.Directions(moments)
	if err != nil {
		return inFile(c.String("x"), err)
	}
	p.end()
	out := seenDirections{
		Detector: b.Detector.Method, K: certificates.K(), Width: certificates.Width(), N: moments.N(),
		UnitNorm: certificates.UnitNorm, Centred: certificates.Mean != nil, Alpha: alpha, nCal: len(b.Calibration.OOD.Scores),
	}
	if certificates.Loss != heads.BCE {
		score /= float64(moments.N())
		out.MeanScore, out.Threshold = &score, finite(b.Calibration.OOD.Threshold(alpha))
	}
	out.fill(found)
	if path != "" {
		if err := out.write(c.Context, path, found); err != nil {
			return err
		}
	}
	if c.Bool("json") {
		return writeJSON(c.App.Writer, out)
	}
	return out.print(c.App.Writer, c.Int("top"))
}

// openCertificates opens a bundle with linear certificates.
func openCertificates(path string) (*bundle.Bundle, *heads.Certificates, error) {
	b, err := bundle.Open(path)
	if err != nil {
		return nil, nil, err
	}
	if b.Detector == nil {
		return nil, nil, fmt.Errorf("%s: it holds no detector; fit with --method certificates", path)
	}
	c, ok := baselines.LinearCertificates(b.Detector.Scorer)
	if !ok {
		return nil, nil, fmt.Errorf("%s: its detector is %s, and directions are those of linear certificates; fit with --method certificates", path, b.Detector.Method)
	}
	return b, c, nil
}

func finite(v float64) *float64 {
	if math.IsInf(v, 0) || math.IsNaN(v) {
		return nil
	}
	return &v
}

// fill takes what the certificates see of each direction, as sums of squares.
func (s *seenDirections) fill(found []heads.Direction) {
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
func shiftTo(d heads.Direction, rise float64) float64 {
	if rise <= 0 {
		return 0
	}
	return d.Shift(rise)
}

func (s *seenDirections) print(w io.Writer, top int) error {
	what := "features"
	if s.UnitNorm {
		what = "features scaled to norm 1"
	}
	if s.Centred {
		what += ", less their mean"
	}
	printf(w, "%s: %d certificates of %d %s; %d rows\n", s.Detector, s.K, s.Width, what, s.N)
	switch {
	case s.Threshold != nil:
		printf(w, "mean score %.4g; flagged above %.4g, at alpha %g\n", *s.MeanScore, *s.Threshold, s.Alpha)
	case s.MeanScore != nil:
		printf(w, "mean score %.4g; at alpha %g no shift is flagged, as %d calibration rows are too few: choose a larger --alpha\n", *s.MeanScore, s.Alpha, s.nCal)
	default:
		fmt.Fprintln(w, "no shifts: the score is of cross-entropy loss, and no sum of squares")
	}
	printf(w, "%d of %d directions are seen less than %g %% of the one seen best; they hold %.3g %% of the rows' variance\n\n", s.Blind, s.Width, 100*blindShare, 100*s.BlindVariance)
	if top == 0 || top > len(s.Directions) {
		top = len(s.Directions)
	}
	lines := [][]string{{"direction", "sd", "seen", "shift", "shift/sd"}}
	for i, d := range s.Directions[:top] {
		sd := math.Sqrt(d.Variance)
		shift, relative := "–", "–"
		switch {
		case d.Shift != nil:
			shift = strconv.FormatFloat(*d.Shift, 'g', 3, 64)
			if sd > 0 {
				relative = strconv.FormatFloat(*d.Shift/sd, 'g', 3, 64)
			}
		case s.Threshold != nil:
			shift, relative = "∞", "∞"
		}
		lines = append(lines, []string{strconv.Itoa(i + 1), strconv.FormatFloat(sd, 'g', 3, 64), strconv.FormatFloat(d.Seen, 'g', 3, 64), shift, relative})
	}
	if err := printRows(w, lines); err != nil {
		return err
	}
	if left := len(s.Directions) - top; left > 0 {
		_, err := printf(w, "\n%d more directions vary less; --top 0 prints them all\n", left)
		return err
	}
	return nil
}

// write writes the directions, and what is seen of them.
func (s *seenDirections) write(ctx context.Context, path string, found []heads.Direction) error {
	h := s.Width
	vectors := blas32.General{Rows: len(found), Cols: h, Stride: h}
	columns := map[string][]float64{}
	for i, d := range found {
		for _, v := range d.Vector {
			vectors.Data = append(vectors.Data, float32(v))
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
	arrays := map[string]heads.Array{"vectors": heads.ArrayOf(vectors)}
	for name, x := range columns {
		arrays[name] = heads.Array{Shape: []int{len(x)}, Data: x}
	}
	return atomicfile.WriteFile(ctx, path, func(w io.Writer) error { return npy.WriteNPZ(w, arrays, false) })
}
