package pictures

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gonum.org/v1/gonum/blas/blas32"
	"gonum.org/v1/gonum/stat"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/calibrate"
	"github.com/attach-uncertainty/attach/featurize"
	"github.com/attach-uncertainty/attach/internal/data/inputs"
	"github.com/attach-uncertainty/attach/internal/numeric/hypothesis"
	"github.com/attach-uncertainty/attach/ood"
	"github.com/attach-uncertainty/attach/preprocess"
	"github.com/attach-uncertainty/attach/reproduce/experiment"
	"github.com/attach-uncertainty/attach/testmodels"
)

// Measured holds all measurements of the test models that the pictures show.
type Measured struct {
	Alpha float64 `json:"alpha"`
	// Calibration counts calibration rows. Digits and Letters count test rows.
	// FlaggedDigits and FlaggedLetters count test rows with a p-value of at most Alpha.
	Calibration    int `json:"calibration"`
	Digits         int `json:"digits"`
	Letters        int `json:"letters"`
	FlaggedDigits  int `json:"flagged_digits"`
	FlaggedLetters int `json:"flagged_letters"`
	// Hero holds three digits and three letters.
	Hero []Example `json:"hero"`
	// DigitPValues and LetterPValues are histograms of p-values with 20 bins.
	DigitPValues  []int `json:"digit_p_values"`
	LetterPValues []int `json:"letter_p_values"`
	// Luck holds false-alarm rates for different numbers of calibration rows.
	Luck  []Luck  `json:"luck"`
	Drift []Drift `json:"drift"`
	Audit Audit   `json:"audit"`
	Toy   Toy     `json:"toy"`
	// Easy and Hard are digits with prediction sets at SetLevel.
	SetLevel   float64 `json:"set_level"`
	Easy, Hard Example
	Verdicts   []Verdict `json:"verdicts"`
}

// Example is an input with its prediction.
type Example struct {
	Pixels     []byte    `json:"pixels"`
	Class      int       `json:"class"`
	Confidence float64   `json:"confidence"`
	PValue     float64   `json:"p_value"`
	Flag       bool      `json:"flag"`
	Label      int       `json:"label"`
	Logits     []float64 `json:"logits,omitempty"`
	Set        []int     `json:"set,omitempty"`
}

// Luck holds the false-alarm rate of each random calibration set with the given number of
// rows.
type Luck struct {
	Rows  int       `json:"rows"`
	Rates []float64 `json:"rates"`
}

// Drift holds the evidence after every tenth row of a stream. In the second half of the
// stream, the fraction Share of the rows is letters.
type Drift struct {
	Share    float64   `json:"share"`
	Evidence []float64 `json:"evidence"`
	Alarm    int       `json:"alarm"` // first row with evidence of at least 100, or 0 without alarm
}

// Audit holds the results of an audit of all test rows.
type Audit struct {
	Rows             int     `json:"rows"`
	Flagged          int     `json:"flagged"`
	FlaggedDigits    int     `json:"flagged_digits"`
	Outliers         int     `json:"outliers"` // lower bound on the number of outliers, with 95 % confidence
	Discoveries      int     `json:"discoveries"`
	DiscoveredDigits int     `json:"discovered_digits"`
	FDP              float64 `json:"fdp"` // upper bound on the fraction of false discoveries, with 95 % confidence
}

// Toy holds data and predictions of a regressor with one input.
type Toy struct {
	X, Y                 []float64 // every fifth of the rows used for fitting
	At                   []float64 // inputs of the predictions
	Median, Lower, Upper []float64
	PValue               []float64
}

// Verdict is the result of testing one guarantee. Low and High bound the true rate with a
// 95 % Clopper–Pearson interval.
type Verdict struct {
	Name      string  `json:"name"`
	Asked     float64 `json:"asked"`
	Hits      int     `json:"hits"`
	Rows      int     `json:"rows"`
	Low, High float64
}

// batch holds the rows of a file with the model's features and outputs.
type batch struct {
	ood.Batch
	set *inputs.Set
}

// modelRows reads rows from files and runs a model on them.
type modelRows struct {
	model          *featurize.Model
	dir            string
	preprocessJSON []byte
	options        inputs.Options
}

func openModelRows(ctx context.Context, dir, name, feature string, s *experiment.Settings) (*modelRows, error) {
	model, err := featurize.Open(ctx, filepath.Join(dir, name+".onnx"), featurize.Options{Runtime: featurize.Runtime{Library: s.Library}, Feature: feature, EarlierLayers: featurize.DefaultEarlierLayers})
	if err != nil {
		return nil, err
	}
	b := &modelRows{model: model, dir: dir, options: inputs.Options{Layout: model.Info().Layout}}
	if strings.HasPrefix(name, "digits") {
		if b.preprocessJSON, err = os.ReadFile(filepath.Join(dir, "digits.preprocess.json")); err != nil {
			return nil, err
		}
		if b.options.Preprocess, err = preprocess.Parse(b.preprocessJSON); err != nil {
			return nil, err
		}
	}
	return b, nil
}

func (b *modelRows) read(ctx context.Context, name string) (d batch, err error) {
	if d.set, err = inputs.Open(ctx, filepath.Join(b.dir, name+".npz"), b.options); err != nil {
		return d, err
	}
	d.Batch, err = b.model.All(ctx, d.set.Blocks(ctx, 64), d.set.Len(), nil)
	d.Batch.Labels = d.set.Labels
	return d, err
}

// measure fits the default detector and intervals to the test models and measures
// everything in Measured.
func measure(ctx context.Context, s *experiment.Settings) (m Measured, err error) {
	dir, err := os.MkdirTemp("", "pictures")
	if err != nil {
		return m, err
	}
	defer os.RemoveAll(dir)
	if err := os.CopyFS(dir, testmodels.FS); err != nil {
		return m, err
	}
	if err := m.measureDigits(ctx, dir, s); err != nil {
		return m, fmt.Errorf("digits: %w", err)
	}
	if err := m.measureToy(ctx, dir, s); err != nil {
		return m, fmt.Errorf("toy: %w", err)
	}
	return m, nil
}

func (m *Measured) measureDigits(ctx context.Context, dir string, s *experiment.Settings) error {
	b, err := openModelRows(ctx, dir, "digits_resnet", "", s)
	if err != nil {
		return err
	}
	defer b.model.Close()
	var rows [4]batch
	for i, name := range []string{"digits_fit", "digits_cal", "digits_test", "letters"} {
		if rows[i], err = b.read(ctx, name); err != nil {
			return err
		}
	}
	fitRows, cal, test, letters := rows[0], rows[1], rows[2], rows[3]
	bundle, err := attach.Fit(ctx, attach.FitOptions{
		Base: b.model.Base(attach.Classification), Preprocess: b.preprocessJSON, Layout: b.options.Layout, Batch: fitRows.Batch, Cal: cal.Batch, Last: b.model.Last(), Trainer: s.Trainer,
	})
	if err != nil {
		return err
	}
	m.Alpha, m.SetLevel = bundle.Calibration.Alpha, .99
	predictor, err := bundle.Predictor(attach.PredictOptions{Sets: "lac", Level: m.SetLevel})
	if err != nil {
		return err
	}
	predict := func(d batch) ([]attach.Prediction, error) { return predictor.Predict(ctx, attach.Rows{Batch: d.Batch}) }
	digitPredictions, err := predict(test)
	if err != nil {
		return err
	}
	letterPredictions, err := predict(letters)
	if err != nil {
		return err
	}
	calPredictions, err := predict(cal)
	if err != nil {
		return err
	}
	m.Calibration, m.Digits, m.Letters = len(calPredictions), len(digitPredictions), len(letterPredictions)
	m.DigitPValues, m.FlaggedDigits = histogram(digitPredictions)
	m.LetterPValues, m.FlaggedLetters = histogram(letterPredictions)

	example := func(d batch, predictions []attach.Prediction, i int) (Example, error) {
		pixels, err := greyPixels(d.set, i)
		p := predictions[i]
		e := Example{Pixels: pixels, Class: p.Class, Confidence: p.Confidence, PValue: p.PValue, Flag: p.Flag, Label: -1, Set: p.Set}
		if d.Labels != nil {
			e.Label = d.Labels[i]
		}
		for _, v := range d.Logits.Data[i*d.Logits.Stride:][:d.Logits.Cols] {
			e.Logits = append(e.Logits, math.Round(float64(v)*1e4)/1e4)
		}
		return e, err
	}
	// Select three digits that pass, and three letters that are flagged although the model
	// is confident. Take the first examples with little noise from different classes.
	for _, part := range []struct {
		d           batch
		predictions []attach.Prediction
		flag        bool
	}{{test, digitPredictions, false}, {letters, letterPredictions, true}} {
		count, seen := 0, map[int]bool{}
		for i, p := range part.predictions {
			if count == 3 {
				break
			}
			letter := part.flag && part.d.Labels != nil && seen[100+part.d.Labels[i]]
			if p.Flag != part.flag || p.Flag && p.PValue > .03 || p.Confidence < .95 || p.Confidence > .9994 || seen[p.Class] || letter || !part.flag && p.Class != part.d.Labels[i] {
				continue
			}
			e, err := example(part.d, part.predictions, i)
			if err != nil {
				return err
			}
			if edgeNoise(e.Pixels) > 16 {
				continue
			}
			seen[p.Class] = true
			if part.d.Labels != nil {
				seen[100+part.d.Labels[i]] = true
			}
			m.Hero = append(m.Hero, e)
			count++
		}
	}
	// Hard is the first digit whose set contains the true class and has the largest size of
	// all sets. Easy is the first digit with little noise and a set of one class.
	largest := 0
	for _, p := range digitPredictions {
		largest = max(largest, len(p.Set))
	}
	for i, p := range digitPredictions {
		if m.Easy.Pixels == nil && len(p.Set) == 1 {
			e, err := example(test, digitPredictions, i)
			if err != nil {
				return err
			}
			if edgeNoise(e.Pixels) <= 16 {
				m.Easy = e
			}
		}
		if m.Hard.Pixels == nil && len(p.Set) == largest && slices.Contains(p.Set, test.Labels[i]) {
			if m.Hard, err = example(test, digitPredictions, i); err != nil {
				return err
			}
		}
	}

	scores := func(predictions []attach.Prediction) (s []float64) {
		for _, p := range predictions {
			s = append(s, p.Score)
		}
		return s
	}
	m.measureLuck(slices.Concat(scores(calPredictions), scores(digitPredictions)))
	if err := m.measureDrift(scores(calPredictions), scores(digitPredictions), scores(letterPredictions)); err != nil {
		return err
	}
	if err := m.measureAudit(digitPredictions, letterPredictions); err != nil {
		return err
	}
	covered := 0
	for i, p := range digitPredictions {
		if slices.Contains(p.Set, test.Labels[i]) {
			covered++
		}
	}
	m.addVerdict("false alarms, digits", m.Alpha, m.FlaggedDigits, m.Digits)
	m.addVerdict("coverage of sets, digits", m.SetLevel, covered, m.Digits)
	return nil
}

func (m *Measured) addVerdict(name string, target float64, hits, rows int) {
	low, high := hypothesis.Interval(hits, rows, .95)
	m.Verdicts = append(m.Verdicts, Verdict{name, target, hits, rows, low, high})
}

func histogram(predictions []attach.Prediction) (counts []int, flagged int) {
	counts = make([]int, 20)
	for _, p := range predictions {
		counts[min(int(math.Ceil(p.PValue*20-1e-9))-1, 19)]++
		if p.Flag {
			flagged++
		}
	}
	return counts, flagged
}

// greyPixels returns the pixels of an image, scaled to 0–255.
func greyPixels(set *inputs.Set, i int) ([]byte, error) {
	x, err := set.Subset([]int{i}).All(context.Background())
	if err != nil {
		return nil, err
	}
	low, high := slices.Min(x.Data), slices.Max(x.Data)
	low, high = min(low, -1), max(high, 1)
	pixels := make([]byte, len(x.Data))
	for k, v := range x.Data {
		pixels[k] = byte(math.Round(float64((v - low) / (high - low) * 255)))
	}
	return pixels, nil
}

// edgeNoise returns the standard deviation of the pixels at the edge of an image.
func edgeNoise(grey []byte) float64 {
	var edge []float64
	for i, v := range grey {
		if x, y := i%digitSize, i/digitSize; min(x, y) == 0 || max(x, y) == digitSize-1 {
			edge = append(edge, float64(v))
		}
	}
	return stat.StdDev(edge, nil)
}

// measureLuck draws random calibration sets from all held-out digits and measures the
// false-alarm rate on the remaining digits.
func (m *Measured) measureLuck(scores []float64) {
	const draws = 120
	rng := rand.New(rand.NewPCG(1, 0))
	for _, n := range []int{20, 50, 100, 200, 500, 1000} {
		l := Luck{Rows: n}
		for range draws {
			rng.Shuffle(len(scores), func(i, j int) { scores[i], scores[j] = scores[j], scores[i] })
			c, err := calibrate.NewConformal(scores[:n])
			if err != nil {
				panic(err)
			}
			flagged := 0
			for _, s := range scores[n:] {
				if c.PValue(s) <= m.Alpha {
					flagged++
				}
			}
			l.Rates = append(l.Rates, math.Round(1e4*float64(flagged)/float64(len(scores)-n))/1e4)
		}
		m.Luck = append(m.Luck, l)
	}
}

// measureDrift runs monitors on streams of test digits. In the second half of a stream,
// letters replace some digits.
func (m *Measured) measureDrift(cal, digits, letters []float64) error {
	for _, fraction := range []float64{0, .05, .2} {
		rng := rand.New(rand.NewPCG(2, 0))
		stream := slices.Clone(digits)
		rng.Shuffle(len(stream), func(i, j int) { stream[i], stream[j] = stream[j], stream[i] })
		monitor, err := calibrate.NewMonitor(cal, 1)
		if err != nil {
			return err
		}
		d := Drift{Share: fraction}
		for i, score := range stream {
			if i >= len(stream)/2 && rng.Float64() < fraction {
				score = letters[rng.IntN(len(letters))]
			}
			if err := monitor.Add(score); err != nil {
				return err
			}
			if d.Alarm == 0 && monitor.Alarm(.01) {
				d.Alarm = i + 1
			}
			if i%10 == 9 {
				e := monitor.Evidence()
				scale := math.Pow(10, 3-math.Ceil(math.Log10(e)))
				d.Evidence = append(d.Evidence, math.Round(e*scale)/scale)
			}
		}
		m.Drift = append(m.Drift, d)
	}
	return nil
}

func (m *Measured) measureAudit(digits, letters []attach.Prediction) error {
	// Bounds may fail with probability 5 %. Like attach audit, spend half of it on all rows
	// and half on the two files.
	const delta = .05
	ranks, outliers := calibrate.NewRanks(m.Calibration), 0
	for _, file := range [][]attach.Prediction{digits, letters} {
		fileRanks := calibrate.NewRanks(m.Calibration)
		for _, p := range file {
			if err := fileRanks.Add(p.PValue); err != nil {
				return err
			}
		}
		bounds, err := fileRanks.OutlierBounds(delta / 4)
		if err != nil {
			return err
		}
		outliers += bounds.Outliers(fileRanks)
		if err := ranks.Merge(fileRanks); err != nil {
			return err
		}
	}
	discoveries, err := ranks.Discoveries(calibrate.DiscoveryOptions{FDR: .1})
	if err != nil {
		return err
	}
	bounds, err := ranks.OutlierBounds(delta / 2)
	if err != nil {
		return err
	}
	m.Audit = Audit{
		Rows: ranks.Rows(), Flagged: m.FlaggedDigits + m.FlaggedLetters, FlaggedDigits: m.FlaggedDigits,
		Outliers: outliers, Discoveries: discoveries.Count, FDP: bounds.FDP(ranks, discoveries.PValue),
	}
	for _, p := range digits {
		if p.PValue <= discoveries.PValue {
			m.Audit.DiscoveredDigits++
		}
	}
	return nil
}

func (m *Measured) measureToy(ctx context.Context, dir string, s *experiment.Settings) error {
	b, err := openModelRows(ctx, dir, "toy_regressor", "/3/Relu_output_0", s) // the heads of the paper read the last layer
	if err != nil {
		return err
	}
	defer b.model.Close()
	var rows [3]batch
	for i, name := range []string{"toy_fit", "toy_cal", "toy_test"} {
		if rows[i], err = b.read(ctx, name); err != nil {
			return err
		}
	}
	fitRows, cal, test := rows[0], rows[1], rows[2]
	bundle, err := attach.Fit(ctx, attach.FitOptions{
		Base: b.model.Base(attach.Regression), Batch: fitRows.Batch, Targets: fitRows.set.Targets, Cal: cal.Batch, CalTargets: cal.set.Targets,
		Last: b.model.Last(), Trainer: s.Trainer,
	})
	if err != nil {
		return err
	}
	predictor, err := bundle.Predictor(attach.PredictOptions{})
	if err != nil {
		return err
	}
	const from, to, points = -4.5, 4.5, 361
	grid := make([]float32, points)
	for i := range grid {
		grid[i] = float32(from + (to-from)*float64(i)/(points-1))
	}
	block, err := b.model.Network().Forward(ctx, ood.BlockOf([]int{points, 1}, grid))
	if err != nil {
		return err
	}
	predictions, err := predictor.Predict(ctx, attach.Rows{Batch: block})
	if err != nil {
		return err
	}
	round4 := func(x float64) float64 { return math.Round(x*1e4) / 1e4 }
	for i, p := range predictions {
		y := p.Targets[0]
		m.Toy.At = append(m.Toy.At, round4(float64(grid[i])))
		m.Toy.Median, m.Toy.Lower, m.Toy.Upper = append(m.Toy.Median, round4(y.Median)), append(m.Toy.Lower, round4(y.Lower)), append(m.Toy.Upper, round4(y.Upper))
		m.Toy.PValue = append(m.Toy.PValue, round4(p.PValue))
	}
	x, err := fitRows.set.All(ctx)
	if err != nil {
		return err
	}
	for i := 0; i < x.Rows; i += 5 {
		m.Toy.X, m.Toy.Y = append(m.Toy.X, round4(float64(x.Data[i*x.Stride]))), append(m.Toy.Y, round4(targetValue(fitRows.set.Targets, i)))
	}
	testPredictions, err := predictor.Predict(ctx, attach.Rows{Batch: test.Batch})
	if err != nil {
		return err
	}
	flagged, covered := 0, 0
	for i, p := range testPredictions {
		if p.Flag {
			flagged++
		}
		if y := targetValue(test.set.Targets, i); p.Targets[0].Lower <= y && y <= p.Targets[0].Upper {
			covered++
		}
	}
	m.addVerdict("false alarms, toy", bundle.Calibration.Alpha, flagged, len(testPredictions))
	m.addVerdict("coverage of intervals, toy", bundle.Calibration.Level, covered, len(testPredictions))
	return nil
}

func targetValue(y blas32.General, i int) float64 { return float64(y.Data[i*y.Stride]) }
