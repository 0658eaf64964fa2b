package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"math"

	"github.com/urfave/cli/v2"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/calibrate"
	"github.com/attach-uncertainty/attach/featurize"
	"github.com/attach-uncertainty/attach/internal/atomicfile"
	"github.com/attach-uncertainty/attach/internal/inputs"
	"github.com/attach-uncertainty/attach/ood"
)

func predictCommand() *cli.Command {
	flags := []cli.Flag{
		&cli.StringFlag{Name: "x", Usage: "`INPUTS`: rows to predict: .npy, .npz (x or images), .csv, a folder of images; with --features, what `attach features` writes"},
		&cli.StringFlag{Name: "o", Usage: "`FILE`: .csv, .jsonl or .npz to write; - is CSV on standard output", Value: "-"},
		&cli.StringFlag{Name: "model", Usage: "`MODEL.onnx`: the model that M.attach was fitted for, where it has moved since"},
		&cli.BoolFlag{Name: "features", Usage: "take --x as features and logits, and do not run the model"},
		weightsFlag("with --features or for heads that were fitted on features alone", ""),
		&cli.Float64Flag{Name: "level", Usage: "`PROBABILITY`: how likely an interval is to cover the target, instead of what fit was given"},
		&cli.StringFlag{Name: "quantiles", Usage: "`LEVELS`: write these quantiles of the head too, such as .1,.5,.9; like the median they are not conformalized"},
		&cli.StringFlag{Name: "side", Usage: "`WHICH`: both ends of intervals, or lower or upper: that one alone, missed as seldom as both together", Value: "both"},
		&cli.BoolFlag{Name: "joint", Usage: "widen the intervals of several targets so that all of a row's are covered at once"},
		&cli.BoolFlag{Name: "smoothed", Usage: "cover no more often than asked where targets or quantiles take few values: draw for each row whether its interval is closed, or open, with ends moved inwards to the next float32 number"},
		&cli.IntFlag{Name: "samples", Usage: "`N`: write N draws from the calibrated distribution of each row and target too; those of different targets are independent"},
		&cli.Uint64Flag{Name: "seed", Usage: "`N`: seed of --samples and --smoothed"},
		groupsFlag(", for heads that were fitted with --groups"),
		&cli.Float64Flag{Name: "alpha", Usage: "`SHARE`: share of in-domain inputs that may be flagged by mistake, instead of what fit was given"},
	}
	return &cli.Command{
		Name:      "predict",
		Usage:     "write predictions with their intervals, scores, p-values and flags",
		UsageText: "attach predict M.attach --x INPUTS [-o OUT.csv]",
		Description: "Writes one row per input: `input`, its name or, from 0, its number (.npz has no names; .csv puts ' before a name that a spreadsheet would take for a formula, one that begins with = + - @, a tab or a new line), and then\n\n" +
			"of a classifier `class`, `class_name` where folders or --classes of the fit named classes, and `confidence`; of a regressor `prediction`, the model's own, and `median`, `lower` and `upper`, the head's. " +
			"The interval is conformalized; an endless bound, null in JSON, says that the calibration rows are too few " +
			"for the level, that --side asks for the other, or that features are so large that the head's arithmetic overflows: the row is then flagged, with the endless score inf, null in JSON. A target is covered if `lower` ≤ target ≤ `upper`, which an empty interval of --smoothed has the other way round. --samples adds `sample1`… (`samples`, inputs×targets×N, in .npz; lists in .jsonl).\n\n" +
			"Of both, `ood_score` (higher: more uncertain), `p_value`, the share of in-domain inputs that score at least as high, and `flag`, which says that this is at most --alpha.\n\n" +
			"Coverage and p-values hold for rows like the calibration rows; where those were split off the rows fitted on and the network " +
			"was trained on them, the promise is weaker. Images are prepared as they were for the fit.",
		Flags:  concat(flags, inputFlags(), []cli.Flag{batchFlag()}, runtimeFlags()),
		Action: predict,
	}
}

func predict(c *cli.Context) (err error) {
	args, err := positional(c, "M.attach")
	if err != nil {
		return err
	}
	if err := required(c, "x"); err != nil {
		return err
	}
	if err := distinct(c, "x", "model", "preprocess", "weights"); err != nil {
		return err
	}
	if c.Bool("features") {
		if err := refuse(c, "with --features", append(rowFlags(), "model")...); err != nil {
			return err
		}
	}
	if err := checkTableName(c.String("o")); err != nil {
		return err
	}
	if err := refuseLabels(c); err != nil {
		return err
	}
	r, err := newReading(c)
	if err != nil {
		return err
	}
	r.options.SkipTargets = len(r.classes) == 0
	levels, err := parseFractions("quantiles", c.String("quantiles"))
	if err != nil {
		return err
	}
	for _, flag := range []string{"level", "alpha"} {
		if v := c.Float64(flag); c.IsSet(flag) && !(v > 0 && v < 1) {
			return usagef("--%s is %v; it must be between 0 and 1", flag, v)
		}
	}
	choice, err := intervalOptions(c)
	if err != nil {
		return err
	}
	o, err := featurizeOptions(c)
	if err != nil {
		return err
	}
	b, err := attach.Open(args[0])
	if err != nil {
		return err
	}
	if !c.Bool("features") {
		if b.Base.SHA256 == "" {
			err = refuse(c, "for heads that were fitted on features alone", append(rowFlags(), "model")...)
		} else {
			err = refuse(c, "where the model is run", "weights")
		}
		if err != nil {
			return err
		}
	}
	switch grouped := b.Calibration.Groups != nil; {
	case grouped && !c.IsSet("groups"):
		return usagef("%s was calibrated by group; say with --groups where the rows' groups are", args[0])
	case !grouped:
		if err := refuse(c, "for heads that were fitted without it", "groups"); err != nil {
			return err
		}
	}
	if len(b.Calibration.Quantiles) == 0 {
		if err := refuse(c, "for heads without intervals, such as a classifier's", "level", "quantiles", "side", "joint", "smoothed", "samples", "seed"); err != nil {
			return err
		}
	}
	if b.Detector == nil {
		if err := refuse(c, "for heads without a detector", "alpha"); err != nil {
			return err
		}
	}
	choice.Levels, choice.Level, choice.Alpha = levels, c.Float64("level"), c.Float64("alpha")
	predictor, err := b.Predictor(choice)
	if err != nil {
		return err
	}

	stop, err := useRuntimeBLAS(c.Context, o)
	if err != nil {
		return err
	}
	defer stop()

	var out io.Writer = c.App.Writer
	path := c.String("o")
	commit := func() error { return nil }
	if path != "-" {
		f, err := atomicfile.Create(c.Context, path)
		if err != nil {
			return err
		}
		defer f.Abort()
		out, commit = f, f.Commit
	}
	table := newTableWriter(path, out)

	rows, err := openPredictRows(c, r, b, o)
	if err != nil {
		return err
	}
	defer rows.close()
	p := newProgress(c.App.ErrWriter, "predict")
	defer p.end()
	done := 0
	write := func(block []attach.Prediction) error {
		columns := append(rows.names(done, done+len(block)), predictionColumns(block, choice, len(b.Base.Classes) > 0)...)
		done += len(block)
		p.set(done, rows.n)
		return table.write(len(block), columns)
	}
	block := make([]attach.Prediction, 0, blockPredictions)
	for prediction, err := range predictor.Stream(c.Context, rows.blocks()) {
		if err != nil {
			return inFile(c.String("x"), err)
		}
		if block = append(block, prediction); len(block) < cap(block) {
			continue
		}
		if err := write(block); err != nil {
			return err
		}
		block = block[:0]
	}
	if len(block) > 0 {
		if err := write(block); err != nil {
			return err
		}
	}
	if err := table.close(); err != nil {
		return err
	}
	if err := commit(); err != nil {
		return err
	}
	noteEndless(c.App.ErrWriter, b, choice.Level, rows.groups)
	noteSilent(c.App.ErrWriter, b, choice.Alpha)
	if b.Calibration.HeldOut == attach.SplitOff {
		printf(c.App.ErrWriter, "note: %s\n", b.Calibration.Promise())
	}
	return nil
}

// blockPredictions is how many rows are written at a time.
const blockPredictions = 1024

// intervalOptions reads what intervals and samples are asked for.
func intervalOptions(c *cli.Context) (attach.PredictOptions, error) {
	o := attach.PredictOptions{Joint: c.Bool("joint"), Smoothed: c.Bool("smoothed"), Samples: c.Int("samples"), Seed: c.Uint64("seed")}
	switch side := c.String("side"); side {
	case "both":
	case string(calibrate.Lower), string(calibrate.Upper):
		if o.Joint {
			return o, usagef("--side %s and --joint exclude each other", side)
		}
		o.Side = calibrate.Side(side)
	default:
		return o, usagef("--side is %q; it must be both, lower or upper", side)
	}
	if c.IsSet("samples") && (o.Samples < 1 || o.Samples > attach.MaxSamples) {
		return o, usagef("--samples is %d; it must be at least 1 and at most %d", o.Samples, attach.MaxSamples)
	}
	if o.Samples == 0 && !o.Smoothed {
		return o, refuse(c, "without --samples or --smoothed", "seed")
	}
	return o, nil
}

// predictRows is what predict runs on: a model's features or precomputed ones.
type predictRows struct {
	n       int
	names   func(start, end int) []column
	batches iter.Seq2[ood.Batch, error]
	groups  []string
	network ood.Network // for a detector that runs it, or nil
	close   func()
}

// blocks are the batches with what is known of their rows beside them.
func (r *predictRows) blocks() iter.Seq2[attach.Rows, error] {
	return func(yield func(attach.Rows, error) bool) {
		done := 0
		for batch, err := range r.batches {
			block := attach.Rows{Batch: batch, Network: r.network}
			if r.groups != nil && err == nil {
				block.Groups = r.groups[done : done+batch.Len()]
			}
			done += batch.Len()
			if !yield(block, err) {
				return
			}
		}
	}
}

func openPredictRows(c *cli.Context, r *reading, b *attach.Bundle, o featurize.Options) (*predictRows, error) {
	if c.Bool("features") || b.Base.SHA256 == "" {
		return precomputedRows(c, c.String("x"), b.Base)
	}
	path, err := b.ModelPath(c.String("model"))
	if err != nil {
		return nil, err
	}
	if err := keeps("o", c.String("o"), []source{{path, c.Args().First()}}); err != nil {
		return nil, err
	}
	o.Feature, o.Output = b.Base.Feature, b.Base.Output
	for _, l := range b.Base.Layers {
		o.Layers = append(o.Layers, l.Tensor)
	}
	model, err := featurize.Open(c.Context, path, o)
	if errors.Is(err, fs.ErrNotExist) && c.String("model") == "" {
		return nil, fmt.Errorf("the model that it was fitted for is not at %s any more; say where it is with --model", path)
	}
	if err != nil {
		// Another model may well lack the tensors that are asked of it.
		if sha, shaErr := featurize.SHA256(c.Context, path); shaErr == nil {
			if err := b.Check(sha); err != nil {
				return nil, fmt.Errorf("%s: %w", path, err)
			}
		}
		return nil, err
	}
	rows, err := modelPredictRows(c, r, b, path, model)
	if err != nil {
		model.Close()
		return nil, err
	}
	return rows, nil
}

func modelPredictRows(c *cli.Context, r *reading, b *attach.Bundle, path string, model *featurize.Model) (*predictRows, error) {
	if err := b.Check(model.SHA256()); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	r.fitTo(model)
	r.hint, r.columns = "pass --features to predict from them", b.Base.Columns
	if b.Preprocess != nil && r.raw == nil {
		if err := r.setPreprocess(b.Preprocess); err != nil {
			return nil, fmt.Errorf("%s: its preprocessing is %w", c.Args().First(), err)
		}
	}
	set, err := r.open(c.Context, c.String("x"), "", r.classes)
	if err != nil {
		return nil, err
	}
	rows := &predictRows{
		n:       set.Len(),
		names:   func(start, end int) []column { return []column{inputColumn(set, start, end)} },
		batches: model.Features(c.Context, modelRows(c.Context, set)),
		groups:  set.Groups(),
		close:   func() { model.Close() },
	}
	if b.RunsNetwork() {
		rows.batches, rows.network = networkBatches(c.Context, model, set), model.Network()
	}
	return rows, nil
}

func precomputedRows(c *cli.Context, path string, base attach.Base) (*predictRows, error) {
	want := inputs.Widths{Says: "the bundle was fitted on", Widths: base.Widths()}
	if len(base.Layers) == 0 {
		want.Skip = ood.NeedLayers
	}
	last, err := loadWeights(c, want)
	if err != nil {
		return nil, err
	}
	all, err := openLayerFeatures(c, path, last, want)
	if err != nil {
		return nil, err
	}
	groups, err := featureGroups(c, path, all.Len())
	if err != nil {
		return nil, err
	}
	all.Labels = nil // those of inputs to predict may be of no class
	const block = 1024
	return &predictRows{
		n:      all.Len(),
		groups: groups,
		names:  func(start, end int) []column { return []column{numbers(start, end)} },
		batches: func(yield func(ood.Batch, error) bool) {
			for start := 0; start < all.Len(); start += block {
				if !yield(all.Slice(start, min(start+block, all.Len())), nil) {
					return
				}
			}
		},
		close: func() {},
	}, nil
}

// inputColumn names rows by their file or, where they are none, by their number
// in the file that they come from.
func inputColumn(set *inputs.Set, start, end int) column {
	if set.File(0) == "" {
		rows := make([]int64, 0, end-start)
		for i := start; i < end; i++ {
			rows = append(rows, int64(set.Row(i)))
		}
		return column{"input", 1, rows}
	}
	files := make([]string, 0, end-start)
	for i := start; i < end; i++ {
		files = append(files, set.File(i))
	}
	return column{"input", 1, files}
}

func numbers(start, end int) column {
	rows := make([]int64, 0, end-start)
	for i := start; i < end; i++ {
		rows = append(rows, int64(i))
	}
	return column{"input", 1, rows}
}

func each[T any](all []attach.Prediction, get func(attach.Prediction) T) []T {
	out := make([]T, len(all))
	for i, p := range all {
		out[i] = get(p)
	}
	return out
}

func float32s(values []float64) []float32 {
	out := make([]float32, len(values))
	for i, v := range values {
		out[i] = float32(v)
	}
	return out
}

// predictionColumns are the columns of what is predicted for rows, at least one;
// named says that classes have names.
func predictionColumns(all []attach.Prediction, o attach.PredictOptions, named bool) []column {
	var columns []column
	if all[0].Class >= 0 {
		columns = append(columns, column{"class", 1, each(all, func(p attach.Prediction) int64 { return int64(p.Class) })})
		if named {
			columns = append(columns, column{"class_name", 1, each(all, func(p attach.Prediction) string { return p.Name })})
		}
		columns = append(columns, column{"confidence", 1, each(all, func(p attach.Prediction) float64 { return p.Confidence })})
	}
	targets := len(all[0].Targets)
	target := func(name string, get func(attach.Target) float64) {
		if targets > 0 && !math.IsNaN(get(all[0].Targets[0])) {
			data := make([]float64, 0, len(all)*targets)
			for _, p := range all {
				for _, t := range p.Targets {
					data = append(data, get(t))
				}
			}
			columns = append(columns, column{name, targets, data})
		}
	}
	target("prediction", func(t attach.Target) float64 { return t.Value })
	target("median", func(t attach.Target) float64 { return t.Median })
	ends := len(columns)
	target("lower", func(t attach.Target) float64 { return t.Lower })
	target("upper", func(t attach.Target) float64 { return t.Upper })
	if o.Smoothed {
		for i := range columns[ends:] {
			end := &columns[ends+i]
			end.data = float32s(end.data.([]float64))
		}
	}
	for l, level := range o.Levels {
		target(fmt.Sprintf("q%g", level), func(t attach.Target) float64 { return t.Quantiles[l] })
	}
	if o.Samples > 0 {
		samples := make([]float64, 0, len(all)*targets*o.Samples)
		for _, p := range all {
			for _, t := range p.Targets {
				samples = append(samples, t.Samples...)
			}
		}
		columns = append(columns, column{"samples", targets * o.Samples, draws{samples, o.Samples}})
	}
	if !math.IsNaN(all[0].Score) {
		columns = append(columns,
			column{"ood_score", 1, each(all, func(p attach.Prediction) float64 { return p.Score })},
			column{"p_value", 1, each(all, func(p attach.Prediction) float64 { return p.PValue })},
			column{"flag", 1, each(all, func(p attach.Prediction) bool { return p.Flag })})
	}
	return columns
}
