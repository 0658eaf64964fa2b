package copies

import (
	"context"
	"encoding/csv"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/featurize"
	"github.com/attach-uncertainty/attach/internal/data/inputs"
	"github.com/attach-uncertainty/attach/internal/data/npy"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/numeric/duplicates"
	"github.com/attach-uncertainty/attach/ood"
	"github.com/attach-uncertainty/attach/preprocess"
	"github.com/attach-uncertainty/attach/reproduce/experiment"
	"github.com/attach-uncertainty/attach/reproduce/networks"
)

// Fitted is the fitcopies command.
var Fitted = experiment.Experiment{
	Name:   "fitcopies",
	Doc:    "copies of fit rows that an audit names, and new rows near a fit row by chance",
	Shared: []string{"data", "models", "sets", "ort-lib"},
	New: func(_ *flag.FlagSet, s *experiment.Settings) func(ctx context.Context) error {
		return func(ctx context.Context) error { return runFitted(ctx, s) }
	},
}

// fitted is a model, its fit rows, and new rows.
type fitted struct {
	model, preprocess string
	read              func(dir string) (d *set, fit, others []int, err error)
}

func runFitted(ctx context.Context, s *experiment.Settings) error {
	fitThenNew := func(d *set, err error, fit, from, to int) (*set, []int, []int, error) {
		if err != nil {
			return nil, nil, nil, err
		}
		all := make([]int, d.n)
		for i := range all {
			all[i] = i
		}
		return d, all[:fit], all[from:to], nil
	}
	pictureModel := func(name string, edge int) func(dir string) (*set, []int, []int, error) {
		return func(dir string) (*set, []int, []int, error) {
			_, labels, err := readPictures(dir, name+"_train")
			if err != nil {
				return nil, nil, nil, err
			}
			d, err := pictures(dir, edge, name+"_train", name+"_test")
			return fitThenNew(d, err, len(labels), len(labels), len(d.labels))
		}
	}
	for _, m := range []fitted{
		{"mnist_cnn", "mnist_cnn", pictureModel("mnist", 28)},
		{"cifar10_resnet20", "cifar10_resnet", pictureModel("cifar10", 32)},
		{networks.Texts, "", func(dir string) (*set, []int, []int, error) {
			d, err := texts(dir)
			return fitThenNew(d, err, 15_000, 18_000, 22_500) // train.csv and test.csv
		}},
		{"california_mlp", "", func(dir string) (*set, []int, []int, error) {
			d, err := table(dir)
			if err != nil {
				return nil, nil, nil, err
			}
			order := rand.New(rand.NewPCG(1, 2)).Perm(d.n)
			return d, order[:d.n/2], order[d.n/2:], nil
		}},
	} {
		if s.Sets != nil && !slices.Contains(s.Sets, m.model) {
			continue
		}
		d, fit, others, err := m.read(s.Data)
		if err == nil {
			err = m.measure(ctx, s, d, fit, others)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", m.model, err)
		}
	}
	return nil
}

// measure counts the changed copies of fit rows whose fit row is found, and the other rows that
// are near a fit row by chance.
func (m fitted) measure(ctx context.Context, s *experiment.Settings, d *set, fit, others []int) error {
	r := rand.New(rand.NewPCG(3, 4))
	dir, err := os.MkdirTemp("", "fitcopies-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	features := func(at []int, change string) (blas32.General, error) {
		return m.features(ctx, s, dir, d.block(at, change, r))
	}
	x, err := features(fit, "exact")
	if err != nil {
		return err
	}
	reference, err := duplicates.New(ctx, x)
	if err != nil {
		return err
	}
	fmt.Fprintf(s.Stdout, "%s: %d fit rows\n", m.model, len(fit))
	for _, change := range d.changes {
		picked, at := r.Perm(len(fit))[:planted], make([]int, planted)
		for i, k := range picked {
			at[i] = fit[k]
		}
		x, err := features(at, change)
		if err != nil {
			return err
		}
		near, err := reference.Like(ctx, x)
		if err != nil {
			return err
		}
		found := 0
		for i, k := range near {
			if k == picked[i] {
				found++
			}
		}
		fmt.Fprintf(s.Stdout, "  %-16s found %d of %d (recall %.3f)\n", change, found, planted, float64(found)/planted)
	}
	if x, err = features(others, "exact"); err != nil {
		return err
	}
	near, err := reference.Like(ctx, x)
	if err != nil {
		return err
	}
	byLabel, sizes, total := map[string]float64{}, map[string]float64{}, 0
	for i, k := range near {
		label := ""
		if d.labels != nil {
			label = d.labels[others[i]]
		}
		if sizes[label]++; k >= 0 {
			byLabel[label]++
			total++
		}
	}
	worst, fraction := "", 0.0
	for label, n := range byLabel {
		if f := n / sizes[label]; f > fraction || f == fraction && label < worst {
			worst, fraction = label, f
		}
	}
	fmt.Fprintf(s.Stdout, "  new rows near a fit row: %d of %d (%.2f %%); most of %q: %.2f %% of %g\n", total, len(others), 100*float64(total)/float64(len(others)), worst, 100*fraction, sizes[worst])
	return nil
}

// features writes rows to a file in the folder and returns the model's features of them.
func (m fitted) features(ctx context.Context, s *experiment.Settings, dir string, x ood.InputBlock) (blas32.General, error) {
	t := x.Tensors[0]
	if t.Strings != nil {
		lines := [][]string{{"text", "intent"}}
		for _, text := range t.Strings {
			lines = append(lines, []string{text, ""})
		}
		path := filepath.Join(dir, "oos_test.csv") // a file of this name has no labels
		if err := experiment.WriteCSV(path, lines); err != nil {
			return blas32.General{}, err
		}
		model, batches, err := (&networks.Plan{Settings: s}).ReadTextFiles(ctx, m.model, []string{path}, "intent", func(float64) {})
		if err != nil {
			return blas32.General{}, err
		}
		return batches[0].Features, model.Close()
	}
	task := attach.Task("")
	o, path := inputs.Options{}, filepath.Join(dir, "x.csv")
	write := func(w io.Writer) error {
		c := csv.NewWriter(w)
		columns := t.Shape[1]
		header := make([]string, columns)
		for j := range header {
			header[j] = fmt.Sprint("c", j)
		}
		if err := c.Write(header); err != nil {
			return err
		}
		for row := range slices.Chunk(t.Data, columns) {
			var line []string
			for _, v := range row {
				line = append(line, strconv.FormatFloat(float64(v), 'g', -1, 32))
			}
			if err := c.Write(line); err != nil {
				return err
			}
		}
		c.Flush()
		return c.Error()
	}
	if m.preprocess == "" {
		task = attach.Regression
	} else {
		text, err := os.ReadFile(filepath.Join(s.Models, m.preprocess+".preprocess.json"))
		if err != nil {
			return blas32.General{}, err
		}
		if o.Preprocess, err = preprocess.Parse(text); err != nil {
			return blas32.General{}, err
		}
		path = filepath.Join(dir, "x.npz")
		write = func(w io.Writer) error {
			levels := make([]uint8, len(t.Data))
			for i, v := range t.Data {
				levels[i] = uint8(v)
			}
			return npy.WriteNPZ(w, map[string]rows.Array{"images": {Shape: t.Shape, Data: levels}}, false)
		}
	}
	if err := experiment.WriteFile(path, write); err != nil {
		return blas32.General{}, err
	}
	model, err := featurize.Open(ctx, filepath.Join(s.Models, m.model+".onnx"), featurize.Options{Runtime: featurize.Runtime{Library: s.Library}, Task: task})
	if err != nil {
		return blas32.General{}, err
	}
	defer model.Close()
	o.Layout = model.Info().Layout
	set, err := inputs.Open(ctx, path, o)
	if err != nil {
		return blas32.General{}, err
	}
	b, err := model.All(ctx, set.Blocks(ctx, 256), set.Len(), nil)
	return b.Features, err
}
