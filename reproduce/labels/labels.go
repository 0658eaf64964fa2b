// Package labels measures how well audits find wrong labels. It repeats random draws of
// calibration rows and of audited rows, and gives some audited rows wrong labels. The fraction
// of false discoveries must be at most the requested rate on average.
package labels

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"path/filepath"

	"gonum.org/v1/gonum/stat"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/calibrate"
	"github.com/attach-uncertainty/attach/internal/audit"
	"github.com/attach-uncertainty/attach/internal/data/npy"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/numeric/softmax"
	"github.com/attach-uncertainty/attach/ood"
	"github.com/attach-uncertainty/attach/reproduce/experiment"
	"github.com/attach-uncertainty/attach/reproduce/networks"
)

// Experiment is the labels command.
var Experiment = experiment.Experiment{
	Name:   "labels",
	Doc:    "wrong labels that audits find, and how many of these are right",
	Shared: []string{"data", "models", "sets", "seeds", "out", "ort-lib"},
	New: func(flags *flag.FlagSet, s *experiment.Settings) func(ctx context.Context) error {
		experiment.Redefine(flags, "seeds", "300", "number of random draws")
		p := &networks.Plan{Settings: s, NetworkRows: 1}
		p.DefineWithTexts(flags, "1,0,1")
		written := flags.Int("draws", 20, "number of draws that compare.py gets, in the folder draws")
		return func(ctx context.Context) error { return run(ctx, p, *written) }
	},
}

const (
	auditedRows = 2000
	delta       = .1
)

func rates() [3]float64 { return [...]float64{.05, .1, .2} }

// pool holds the logits and labels of rows that the network was not trained on.
type pool struct {
	name string
	ood.Batch
}

func newPool(name string, batches ...ood.Batch) pool {
	p := pool{name: name}
	for _, b := range batches {
		p.Labels = append(p.Labels, b.Labels...)
	}
	p.Logits = rows.New(len(p.Labels), batches[0].Logits.Cols)
	at := 0
	for _, b := range batches {
		for i := range b.Logits.Rows {
			copy(rows.Row(p.Logits, at), rows.Row(b.Logits, i))
			at++
		}
	}
	return p
}

func run(ctx context.Context, p *networks.Plan, written int) error {
	if p.Sets == nil {
		p.Sets = []string{"mnist_cnn", "cifar10_resnet20", networks.Texts}
	}
	pools, err := read(ctx, p)
	if err != nil {
		return err
	}
	lines := [][]string{{"set", "n_cal", "audited", "wrong", "kind", "by", "label_noise", "draws", "fdr", "false_share", "stderr", "power", "bound_violated", "bound_share"}}
	for _, rows := range pools {
		fmt.Fprintf(p.Stdout, "%s: %d rows to draw from; false discoveries ± standard error, and the fraction of wrong labels discovered, at 0.05, 0.1 and 0.2\n", rows.name, rows.Len())
		for _, c := range cells(rows) {
			if err := ctx.Err(); err != nil {
				return err
			}
			folder := ""
			if c.by == audit.LabelErrorChoices()[0] && c.noise == 0 {
				folder = filepath.Join(p.Out, "draws")
			}
			if err := c.measure(rows, p.Settings.Seeds, p.Seed, folder, written); err != nil {
				return fmt.Errorf("%s: %w", rows.name, err)
			}
			fmt.Fprintf(p.Stdout, "  n_cal %4d, %s %4.1f %%, by %-7s noise %g ", c.n, c.kind, 100*c.fraction, c.by, c.noise)
			for i, rate := range rates() {
				mean, power := stat.Mean(c.falseFractions[i], nil), c.found[i]/float64(p.Settings.Seeds)
				stderr := stat.StdErr(stat.StdDev(c.falseFractions[i], nil), float64(p.Settings.Seeds))
				fmt.Fprintf(p.Stdout, "  %s±%s %s", experiment.Short(mean, 3), experiment.Short(stderr, 3), experiment.Short(power, 2))
				lines = append(lines, experiment.Cells(4, rows.name, c.n, auditedRows, c.fraction, c.kind, c.by, c.noise, p.Settings.Seeds, rate, mean, stderr, power, c.violated/float64(p.Settings.Seeds), c.bounded/float64(p.Settings.Seeds)))
			}
			fmt.Fprintf(p.Stdout, "  bound violated %s, finds %s\n", experiment.Short(c.violated/float64(p.Settings.Seeds), 3), experiment.Short(c.bounded/float64(p.Settings.Seeds), 2))
		}
	}
	return experiment.WriteCSV(filepath.Join(p.Out, "labels.csv"), lines)
}

// read returns the test rows of each network, and of the texts if they are chosen.
func read(ctx context.Context, p *networks.Plan) (pools []pool, err error) {
	if err := p.Check(ctx, networks.RunsNetwork, "only methods that run the network"); err != nil {
		return nil, err
	}
	for _, n := range p.Networks {
		im, err := p.Load(ctx, n, func(float64) {})
		if err != nil {
			return nil, err
		}
		im.Model.Close()
		pools = append(pools, newPool(n.Name, im.In))
	}
	if p.Texts {
		model, batches, err := p.ReadTexts(ctx, []string{"val", "test"}, func(float64) {})
		if err != nil {
			return nil, err
		}
		model.Close()
		pools = append(pools, newPool(networks.Texts, batches...))
	}
	return pools, nil
}

// cell holds the results of many draws with the same settings.
type cell struct {
	n        int
	fraction float64 // fraction of wrong labels
	kind     string  // "random" classes, or the most "confused" class
	by       string
	noise    float64 // fraction of wrong labels of calibration rows, and Identity.LabelNoise

	falseFractions    [3][]float64
	found             [3]float64
	violated, bounded float64
}

func cells(p pool) (list []*cell) {
	n := min(5000, p.Len()-auditedRows)
	for _, kind := range []string{"random", "confused"} {
		for _, fraction := range []float64{.01, .05, .1} {
			for _, by := range audit.LabelErrorChoices() {
				list = append(list, &cell{n: n, fraction: fraction, kind: kind, by: by})
			}
			list = append(list, &cell{n: n, fraction: fraction, kind: kind, by: audit.LabelErrorChoices()[0], noise: .02})
		}
	}
	return list
}

// measure repeats random draws. If folder is not empty, it writes the first draws to it.
func (c *cell) measure(p pool, draws int, seed uint64, folder string, written int) error {
	set := p.name
	rng := rand.New(rand.NewPCG(seed, uint64(c.n)<<32|uint64(1000*c.fraction)))
	for draw := range draws {
		order := rng.Perm(p.Len())[:c.n+auditedRows]
		cal, audited := p.Select(order[:c.n]), p.Select(order[c.n:])
		given, wrong := c.corrupt(rng, audited, c.fraction)
		cal.Labels, _ = c.corrupt(rng, cal, c.noise)
		classes, err := calibrate.NewClassCalibration(cal.Logits, cal.Labels)
		if err != nil {
			return err
		}
		choices := audit.LabelErrorChoices()
		s, err := classes.Sets(calibrate.SetOptions{ByClass: c.by == choices[1], ByCluster: c.by == choices[2], Seed: seed}, .1)
		if err != nil {
			return err
		}
		p := pValues(s, audited, given)
		if err := c.add(s, p, given, wrong, audited.Logits.Cols); err != nil {
			return err
		}
		if folder != "" && draw < written {
			name := fmt.Sprintf("%s-%s-%g-%d.npz", set, c.kind, c.fraction, draw)
			if err := write(filepath.Join(folder, name), audited, given, wrong, p); err != nil {
				return err
			}
		}
	}
	return nil
}

// corrupt returns the labels of a batch of which a fraction is wrong, and which ones are.
func (c *cell) corrupt(rng *rand.Rand, b ood.Batch, fraction float64) (given []int, wrong []bool) {
	given, wrong = append(given, b.Labels...), make([]bool, b.Len())
	for _, i := range rng.Perm(b.Len())[:int(math.Round(fraction*float64(b.Len())))] {
		z, best := rows.Row(b.Logits, i), -1
		for class, v := range z {
			if class != b.Labels[i] && (best < 0 || v > z[best]) {
				best = class
			}
		}
		if c.kind == "random" {
			best = (b.Labels[i] + 1 + rng.IntN(len(z)-1)) % len(z)
		}
		given[i], wrong[i] = best, true
	}
	return given, wrong
}

// pValues returns the p-value of each given label.
func pValues(s calibrate.Sets, b ood.Batch, given []int) []float64 {
	all, list := s.PValues(b.Logits, 0), make([]float64, len(given))
	for i, label := range given {
		list[i] = all[i*b.Logits.Cols+label]
	}
	return list
}

// add adds a draw.
func (c *cell) add(s calibrate.Sets, p []float64, given []int, wrong []bool, classes int) error {
	var parts, right []calibrate.Ranks
	for class := range classes {
		part, n := s.Part(class)
		for len(parts) <= part {
			parts, right = append(parts, calibrate.NewRanks(0)), append(right, calibrate.NewRanks(0))
		}
		parts[part], right[part] = calibrate.NewRanks(n), calibrate.NewRanks(n)
	}
	mistakes := 0
	for i, label := range given {
		part, _ := s.Part(label)
		err := parts[part].Add(p[i])
		if !wrong[i] {
			err = errors.Join(err, right[part].Add(p[i]))
		} else {
			mistakes++
		}
		if err != nil {
			return err
		}
	}
	for k, rate := range rates() {
		id := audit.Identity{Task: attach.Classification, FDR: rate, Delta: delta, LabelNoise: c.noise}
		found, discovered, err := id.FindLabelErrors(parts)
		if err != nil {
			return err
		}
		falsely := discovered(right)
		c.falseFractions[k] = append(c.falseFractions[k], float64(falsely)/float64(max(1, found.Discoveries)))
		c.found[k] += float64(found.Discoveries-falsely) / float64(mistakes)
		if k == 0 {
			c.bounded += float64(found.Errors) / float64(mistakes)
			if found.Errors > mistakes {
				c.violated++
			}
		}
	}
	return nil
}

// write writes a draw for compare.py.
func write(path string, b ood.Batch, given []int, wrong []bool, p []float64) error {
	n := len(given)
	x := rows.New(n, b.Logits.Cols)
	labels, marks := make([]int64, n), make([]uint8, n)
	for i := range n {
		z := rows.Row(b.Logits, i)
		for class, v := range z {
			rows.Row(x, i)[class] = float32(softmax.New(z, 1).Of(v, 1))
		}
		if labels[i] = int64(given[i]); wrong[i] {
			marks[i] = 1
		}
	}
	arrays := map[string]rows.Array{"probabilities": {Shape: []int{n, x.Cols}, Data: x.Data}, "given": {Shape: []int{n}, Data: labels}, "wrong": {Shape: []int{n}, Data: marks}, "p_value": rows.Vector(p)}
	return experiment.WriteFile(path, func(w io.Writer) error { return npy.WriteNPZ(w, arrays, false) })
}
