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
	"slices"
	"strings"

	"gonum.org/v1/gonum/blas/blas32"
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
		experiment.Redefine(flags, "seeds", "500", "number of random draws")
		p := &networks.Plan{Settings: s, NetworkRows: 1}
		p.DefineWithTexts(flags, "1,0,1")
		written := flags.Int("draws", 20, "number of draws that compare.py gets, in the folder draws")
		by := flags.String("by", strings.Join(audit.LabelErrorChoices(), ","), "compare with `all` calibration rows, those of the class or of the cluster of classes; all also runs with wrong calibration labels")
		return func(ctx context.Context) error {
			chosen, err := experiment.Choose("--by", "choice", strings.Split(*by, ","), audit.LabelErrorChoices(), func(name string) string { return name })
			if err != nil {
				return err
			}
			return run(ctx, p, chosen, *written)
		}
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

func run(ctx context.Context, p *networks.Plan, by []string, written int) error {
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
		list := cells(by)
		n := min(5000, rows.Len()-auditedRows)
		if err := measure(ctx, rows, n, list, p.Settings.Seeds, p.Seed, filepath.Join(p.Out, "draws"), written); err != nil {
			return fmt.Errorf("%s: %w", rows.name, err)
		}
		for _, c := range list {
			fmt.Fprintf(p.Stdout, "  n_cal %4d, %s %4.1f %%, by %-7s noise %g ", n, c.kind, 100*c.fraction, c.by, c.noise)
			lines = append(lines, c.print(p.Stdout, rows.name, n, auditedRows, c.fraction, c.kind, c.by, c.noise)...)
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

// reference says what labels are compared with.
type reference struct {
	by    string
	noise float64 // fraction of wrong labels of calibration rows, and Identity.LabelNoise
}

// mistakes says which labels are wrong.
type mistakes struct {
	kind     string  // "random" classes, or the most "confused" class
	fraction float64 // fraction of wrong labels
}

// cell holds the results of many draws with the same settings.
type cell struct {
	mistakes
	reference
	results
}

// results holds what many audits find.
type results struct {
	falseFractions    [3][]float64 // by rate
	found             [3]float64   // sums of the fractions of wrong labels discovered
	violated, bounded float64      // draws with a violated bound; sum of the fractions that it counts
}

func cells(by []string) (list []*cell) {
	for _, kind := range []string{"random", "confused"} {
		for _, fraction := range []float64{.01, .05, .1} {
			for _, choice := range by {
				list = append(list, &cell{mistakes: mistakes{kind, fraction}, reference: reference{by: choice}})
			}
			if all := audit.LabelErrorChoices()[0]; by[0] == all {
				list = append(list, &cell{mistakes: mistakes{kind, fraction}, reference: reference{all, .02}})
			}
		}
	}
	return list
}

// measure repeats random draws of n calibration rows and of audited rows. The cells share the
// rows, and cells with the same mistakes the wrong labels. It writes the first draws to the folder.
func measure(ctx context.Context, p pool, n int, list []*cell, draws int, seed uint64, folder string, written int) error {
	for draw := range draws {
		if err := ctx.Err(); err != nil {
			return err
		}
		rng := rand.New(rand.NewPCG(seed, uint64(draw)))
		order := rng.Perm(p.Len())[:n+auditedRows]
		cal, audited := p.Select(order[:n]), p.Select(order[n:])
		given, compared := make(map[mistakes]givenLabels), make(map[reference]classPValues)
		for i, c := range list {
			if i == 0 || c.kind != list[i-1].kind {
				for r := range compared {
					if r.noise > 0 {
						delete(compared, r) // the labels of calibration rows are wrong in another way
					}
				}
			}
			labels, ok := given[c.mistakes]
			if !ok {
				labels = c.corrupt(rng, audited)
				given[c.mistakes] = labels
			}
			table, ok := compared[c.reference]
			if !ok {
				var err error
				if table, err = c.compare(cal, mistakes{c.kind, c.noise}.corrupt(rng, cal), audited, seed); err != nil {
					return err
				}
				compared[c.reference] = table
			}
			values := table.of(labels.given)
			parts := make([]int, len(labels.given))
			for k, label := range labels.given {
				parts[k] = table.parts[label]
			}
			if err := c.add(audit.Identity{Task: attach.Classification, LabelNoise: c.noise}, table.sizes, parts, values, labels.wrong); err != nil {
				return err
			}
			if c.by == audit.LabelErrorChoices()[0] && c.noise == 0 && draw < written {
				name := fmt.Sprintf("%s-%s-%g-%d.npz", p.name, c.kind, c.fraction, draw)
				if err := write(filepath.Join(folder, name), audited, labels, values); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// classPValues holds the p-value of each class in each row.
type classPValues struct {
	p     []float64 // row-major
	parts []int     // the part of each class: see calibrate.Sets.Part
	sizes []int     // the number of calibration rows of each part
}

// compare calibrates with the given labels and returns the p-values of the audited rows.
func (r reference) compare(cal ood.Batch, labels givenLabels, audited ood.Batch, seed uint64) (t classPValues, err error) {
	classes, err := calibrate.NewClassCalibration(cal.Logits, labels.given)
	if err != nil {
		return t, err
	}
	choices := audit.LabelErrorChoices()
	s, err := classes.Sets(calibrate.SetOptions{ByClass: r.by == choices[1], ByCluster: r.by == choices[2], Seed: seed}, .1)
	if err != nil {
		return t, err
	}
	t.p = s.PValues(audited.Logits, 0)
	for class := range audited.Logits.Cols {
		part, n := s.Part(class)
		for len(t.sizes) <= part {
			t.sizes = append(t.sizes, 0)
		}
		t.sizes[part], t.parts = n, append(t.parts, part)
	}
	return t, nil
}

// of returns the p-value of the given label of each row.
func (t classPValues) of(given []int) []float64 {
	list := make([]float64, len(given))
	for i, label := range given {
		list[i] = t.p[i*len(t.parts)+label]
	}
	return list
}

// givenLabels holds labels, and which of them are wrong.
type givenLabels struct {
	given []int
	wrong []bool
}

// corrupt returns the labels of a batch with mistakes.
func (m mistakes) corrupt(rng *rand.Rand, b ood.Batch) givenLabels {
	l := givenLabels{slices.Clone(b.Labels), make([]bool, b.Len())}
	for _, i := range rng.Perm(b.Len())[:int(math.Round(m.fraction*float64(b.Len())))] {
		z, best := rows.Row(b.Logits, i), -1
		for class, v := range z {
			if class != b.Labels[i] && (best < 0 || v > z[best]) {
				best = class
			}
		}
		if m.kind == "random" {
			best = (b.Labels[i] + 1 + rng.IntN(len(z)-1)) % len(z)
		}
		l.given[i], l.wrong[i] = best, true
	}
	return l
}

// add adds a draw. Part k has sizes[k] calibration rows, and parts[i] is the part of row i, whose
// label has the p-value p[i].
func (r *results) add(id audit.Identity, sizes, parts []int, p []float64, wrong []bool) error {
	var all, right []calibrate.Ranks
	for _, n := range sizes {
		all, right = append(all, calibrate.NewRanks(n)), append(right, calibrate.NewRanks(n))
	}
	mistakes := 0
	for i, part := range parts {
		err := all[part].Add(p[i])
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
		id.FDR, id.Delta = rate, delta
		found, discovered, err := id.FindLabelErrors(all)
		if err != nil {
			return err
		}
		falsely := discovered(right)
		r.falseFractions[k] = append(r.falseFractions[k], float64(falsely)/float64(max(1, found.Discoveries)))
		r.found[k] += float64(found.Discoveries-falsely) / float64(mistakes)
		if k == 0 {
			r.bounded += float64(found.Errors) / float64(mistakes)
			if found.Errors > mistakes {
				r.violated++
			}
		}
	}
	return nil
}

// print prints a line of results, and returns a line of the CSV file for each rate. The
// columns say what was audited.
func (r *results) print(w io.Writer, columns ...any) (lines [][]string) {
	draws := float64(len(r.falseFractions[0]))
	for i, rate := range rates() {
		mean, power := stat.Mean(r.falseFractions[i], nil), r.found[i]/draws
		stderr := stat.StdErr(stat.StdDev(r.falseFractions[i], nil), draws)
		fmt.Fprintf(w, "  %s±%s %s", experiment.Short(mean, 3), experiment.Short(stderr, 3), experiment.Short(power, 2))
		lines = append(lines, experiment.Cells(4, append(slices.Clone(columns), len(r.falseFractions[i]), rate, mean, stderr, power, r.violated/draws, r.bounded/draws)...))
	}
	fmt.Fprintf(w, "  bound violated %s, finds %s\n", experiment.Short(r.violated/draws, 3), experiment.Short(r.bounded/draws, 2))
	return lines
}

// write writes a draw for compare.py.
func write(path string, b ood.Batch, l givenLabels, p []float64) error {
	x := rows.New(len(l.given), b.Logits.Cols)
	labels := make([]float64, len(l.given))
	for i, label := range l.given {
		z := rows.Row(b.Logits, i)
		for class, v := range z {
			rows.Row(x, i)[class] = float32(softmax.New(z, 1).Of(v, 1))
		}
		labels[i] = float64(label)
	}
	return writeDraw(path, "probabilities", x, labels, l.wrong, p)
}

// writeDraw writes predictions of a classifier or regressor, and the given labels or targets.
func writeDraw(path, name string, predictions blas32.General, given []float64, wrong []bool, p []float64) error {
	marks := make([]uint8, len(wrong))
	for i, w := range wrong {
		if w {
			marks[i] = 1
		}
	}
	arrays := map[string]rows.Array{name: {Shape: []int{predictions.Rows, predictions.Cols}, Data: predictions.Data}, "given": rows.Vector(given), "wrong": {Shape: []int{len(marks)}, Data: marks}, "p_value": rows.Vector(p)}
	return experiment.WriteFile(path, func(w io.Writer) error { return npy.WriteNPZ(w, arrays, false) })
}
