package audit

import (
	"context"
	"iter"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/parquet-go/parquet-go"
	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/calibrate"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/numeric/duplicates"
	"github.com/attach-uncertainty/attach/internal/numeric/quantile"
	"github.com/attach-uncertainty/attach/schema"
)

// Rows gives access to the audited rows of an open shard.
type Rows struct {
	N   int // number of rows in the shard
	Len int // number of audited rows
	// Name returns the key of audited row i, its folder, and its row number in the shard.
	Name func(i int) (key, folder string, number int)
	// Batches yields batches of audited rows with the outputs of the model. The argument
	// from is the index of the first row to yield. An audit can resume at the first row of
	// a batch. Scores must then be the same as without an interruption.
	Batches func(ctx context.Context, from int) iter.Seq2[Batch, error]
}

// Batch is a batch of audited rows with the outputs of the model.
type Batch struct {
	attach.Rows
	Sketches [][]byte // one element per row; nil if the rows are features
	// Values holds the values of the columns if Identity.Profiled is set.
	Values schema.Values
}

// Scorer scores rows with a .attach file.
type Scorer struct {
	Identity
	// PartTime limits the time to score one part. If it is 0, only the number of rows ends
	// a part, so that equal rows give equal parts.
	PartTime time.Duration
	// Fitted reads the rows of the fit and their keys. It is called only if Identity.Fitted
	// is set, and never again after it succeeded.
	Fitted            func(ctx context.Context) (features blas32.General, keys []string, err error)
	bundle            *attach.Bundle
	predictor         *attach.Predictor
	calibrationWidths [][]float64     // per target, the sorted interval widths of the calibration rows
	labelScores       [][]float64     // per target, the sorted scores of the targets of the calibration rows
	groupedIntervals  bool            // whether intervals are calibrated by group
	samples           hashSamples     // hashes of fit and calibration rows
	matcher           *schema.Matcher // nil unless Identity.Profiled is set

	mutex     sync.Mutex // protects reference and keys
	reference *duplicates.Reference
	keys      []string // keys of the rows in reference
}

// readFitted reads the rows of the fit, unless they have been read.
func (s *Scorer) readFitted(ctx context.Context) error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.reference != nil {
		return nil
	}
	features, keys, err := s.Fitted(ctx)
	if err == nil {
		s.reference, err = duplicates.New(ctx, features)
	}
	s.keys = keys
	return err
}

// NearestFitRows returns, for each row of x, the index of the fit row with the nearest features
// and its key. The index is -1 if x is not finite.
func (s *Scorer) NearestFitRows(ctx context.Context, x blas32.General) (rows []int, keys []string, err error) {
	if err := s.readFitted(ctx); err != nil {
		return nil, nil, err
	}
	nearest, err := s.reference.Nearest(ctx, x, 1)
	rows, keys = make([]int, len(nearest)), make([]string, len(nearest))
	for i, list := range nearest {
		if rows[i] = -1; len(list) > 0 {
			rows[i], keys[i] = list[0], s.keys[list[0]]
		}
	}
	return rows, keys, err
}

// nearFitRows returns, for each row of x, the key of a fit row with nearly the same
// features. The key is empty if there is no such fit row.
func (s *Scorer) nearFitRows(ctx context.Context, x blas32.General) ([]string, error) {
	if err := s.readFitted(ctx); err != nil {
		return nil, err
	}
	nearest, err := s.reference.Like(ctx, x)
	if err != nil {
		return nil, err
	}
	keys := make([]string, len(nearest))
	for i, k := range nearest {
		if k >= 0 {
			keys[i] = s.keys[k]
		}
	}
	return keys, nil
}

// NewScorer returns a Scorer that uses the .attach file b. The Scorer's Identity is a copy of
// id with facts about b, such as the number of calibration rows. The .attach file must have
// a detector.
func NewScorer(b *attach.Bundle, id Identity) (*Scorer, error) {
	s := &Scorer{Identity: id, PartTime: partTime, bundle: b}
	o := attach.PredictOptions{Alpha: id.Alpha}
	c := b.Calibration
	s.Task, s.Calibration, s.HeldOut, s.Model = b.Base.Task, len(c.OOD), c.HeldOut, b.Base.SHA256
	s.groupedIntervals, s.samples, s.Reused = c.Groups != nil, samplesOf(c), c.Reused
	if len(c.Predicted) > 0 {
		s.Predicted = make([]int, max(2, b.Base.Outputs))
		for _, class := range c.Predicted {
			s.Predicted[class]++
		}
	}
	if s.Profiled = b.Profile != nil && !id.Reading.FromFeatures; s.Profiled {
		s.matcher = b.Profile.Matcher()
	}
	if s.Alpha == 0 {
		s.Alpha = c.Alpha
	}
	if len(c.Quantiles) > 0 && !s.groupedIntervals {
		s.Interval = c.NInterval
		if s.Level == 0 {
			s.Level = c.Level
		}
		o.Level = s.Level
		o.Levels = []float64{(1 - s.Level) / 2, 1 - (1-s.Level)/2}
		for k, q := range c.Quantiles {
			name := ""
			if k < len(b.Base.Targets) {
				name = b.Base.Targets[k]
			}
			s.Targets = append(s.Targets, name)
			s.calibrationWidths = append(s.calibrationWidths, intervalWidths(q, o.Levels))
		}
	} else {
		s.Level = 0
	}
	if err := s.checkLabelErrors(); err != nil {
		return nil, err
	}
	s.labelOptions(&o)
	var err error
	if s.predictor, err = b.Predictor(o); err != nil {
		return nil, err
	}
	s.setLabelParts(o)
	return s, nil
}

// Matcher returns the matcher that Batch.Values come from, or nil if Identity.Profiled is not
// set.
func (s *Scorer) Matcher() *schema.Matcher { return s.matcher }

// intervalWidths returns the sorted interval widths of the calibration rows. A width is the
// distance between the quantiles at levels[0] and levels[1].
func intervalWidths(q calibrate.QuantileCalibration, levels []float64) []float64 {
	n := len(q.Levels)
	list := make([]float64, len(q.Y))
	for i := range list {
		row := q.Grid[i*n : (i+1)*n]
		list[i] = float64(quantile.Interpolate(q.Levels, row, levels[1])) - float64(quantile.Interpolate(q.Levels, row, levels[0]))
	}
	slices.Sort(list)
	return list
}

const (
	// partRows and partTime limit the rows of a part and the time to score it. If an audit
	// is killed, the next run repeats at most one part of each Scoring.
	partRows = 1 << 15
	partTime = 20 * time.Second
)

// Scoring collects scored rows in parts. A part may contain rows of several small shards.
// Scoring is not safe for concurrent use.
type Scoring struct {
	scorer  *Scorer
	save    func(*Part) error
	part    *Part // the unfinished part, or nil
	started time.Time
}

// Begin returns a Scoring that calls the function save with each finished part. Call Flush
// to finish the last part.
func (s *Scorer) Begin(save func(*Part) error) *Scoring { return &Scoring{scorer: s, save: save} }

// Flush saves the scored rows that are not saved yet.
func (c *Scoring) Flush() error {
	part := c.part
	if c.part = nil; part == nil {
		return nil
	}
	if err := part.close(); err != nil {
		return err
	}
	return c.save(part)
}

// Rows scores the rows [from, to) of a shard. If a row cannot be read, Rows keeps the
// batches before the error, except the last one. That batch may be incomplete because of
// the error, and the scores of some models depend on the size of the batch.
func (c *Scoring) Rows(ctx context.Context, shard string, r Rows, from, to int, progress func(rows int)) error {
	next, pending := from, Batch{}
	for batch, err := range r.Batches(ctx, from) {
		if err != nil {
			return err
		}
		if n := pending.Len(); n > 0 {
			if err := c.add(ctx, shard, r, next, pending, progress); err != nil {
				return err
			}
			next += n
		}
		if pending = batch; next+pending.Len() < to {
			continue
		}
		if next+pending.Len() > to { // the other rows belong to the next part
			pending = firstRows(pending, to-next)
		}
		break
	}
	if pending.Len() == 0 {
		return nil
	}
	return c.add(ctx, shard, r, next, pending, progress)
}

// add scores a batch into the current part, and saves the part if it is full.
func (c *Scoring) add(ctx context.Context, shard string, r Rows, at int, batch Batch, progress func(rows int)) error {
	if c.part == nil {
		c.part, c.started = newPart(c.scorer.Identity, c.scorer.bundle.Profile), time.Now()
	}
	p := c.part
	if err := c.scorer.add(ctx, p, shard, r, at, batch); err != nil {
		if p.rows == 0 || p.incomplete {
			c.part = nil
		}
		return err
	}
	if progress != nil {
		progress(batch.Len())
	}
	if p.rows < partRows && (c.scorer.PartTime == 0 || time.Since(c.started) < c.scorer.PartTime) {
		return nil
	}
	return c.Flush()
}

// firstRows returns the first n rows of a batch.
func firstRows(b Batch, n int) Batch {
	idx := make([]int, n)
	for i := range idx {
		idx[i] = i
	}
	if b.Batch = b.Batch.Select(idx); b.Sketches != nil {
		b.Sketches = b.Sketches[:n]
	}
	if b.Values.Len() > 0 {
		b.Values = b.Values.Slice(0, n)
	}
	if b.Groups != nil {
		b.Groups = b.Groups[:n]
	}
	if b.Targets.Rows > 0 {
		b.Targets = rows.Slice(b.Targets, 0, n)
	}
	return b
}

// add scores a batch and adds the results to part. The argument at is the index of the first
// row of the batch among the audited rows.
func (s *Scorer) add(ctx context.Context, part *Part, shard string, r Rows, at int, batch Batch) error {
	targets, groups := batch.Targets, batch.Groups
	if !s.groupedIntervals { // Predict accepts groups only if intervals are calibrated by group
		batch.Groups = nil
	}
	batch.First = at
	predictions, err := s.predictor.Predict(ctx, batch.Rows)
	if err != nil {
		return err
	}
	var nearFit []string
	if s.Identity.Fitted != "" {
		if nearFit, err = s.nearFitRows(ctx, batch.Features); err != nil {
			return err
		}
	}
	last := len(part.Ranges) - 1
	if last < 0 || part.Ranges[last].Shard != shard || part.Ranges[last].End != at {
		part.Ranges, last = append(part.Ranges, Range{Shard: shard, Rows: r.N, Audited: r.Len, Start: at, End: at}), last+1
	}
	part.incomplete = true
	var reasons [][]schema.Reason
	if s.Profiled {
		reasons = part.Counts.Add(s.matcher, batch.Values)
	}
	labels := s.givenLabels(batch, predictions)
	w, current, hashes := part.w, &part.Ranges[last], hashes(batch.Batch)
	used := part.Used.add(s.samples, batch.Batch)
	for i, p := range predictions {
		key, folder, number := r.Name(at + i)
		var sketch []byte
		if batch.Sketches != nil {
			sketch = batch.Sketches[i]
		}
		w.addText(key)
		w.addText(current.Shard)
		w.addInteger(number)
		w.addText(folder)
		w.addText(hashes[i].String())
		w.addBytes(sketch)
		w.addText(used[i])
		if s.Reading.Groups != "" {
			w.addText(groups[i])
		}
		if nearFit != nil {
			w.addText(nearFit[i])
		}
		var reasonTexts []string
		if s.Profiled {
			var rowReasons []schema.Reason
			if reasons != nil {
				rowReasons = reasons[i]
			}
			w.addText(schema.Group(rowReasons))
			for _, r := range rowReasons[:min(maxReasons, len(rowReasons))] {
				reasonTexts = append(reasonTexts, r.String())
			}
		}
		if s.Task == attach.Classification {
			w.addInteger(p.Class)
			w.addText(p.Name)
			w.addNumber(p.Confidence)
		}
		label := givenLabel{} // the most suspicious one of the row
		if labels != nil {
			label = labels[i]
			if err := s.addLabel(part, label); err != nil {
				return err
			}
		}
		for k := range s.Targets {
			t := p.Targets[k]
			w.addNumber(t.Value)
			w.addNumber(t.Lower)
			w.addNumber(t.Upper)
			width := calibrate.Conformal{Scores: s.calibrationWidths[k]}.PValue(t.Quantiles[1] - t.Quantiles[0])
			w.addNumber(width)
			if err := part.widths[k].Add(width); err != nil {
				return err
			}
			y := math.NaN() // unknown
			if targets.Rows > 0 {
				y = float64(targets.Data[i*targets.Stride+k])
			}
			w.addNumber(y)
			if s.LabelErrorsBy != "" {
				target, err := s.addTarget(part, k, t.Quantiles[0], t.Quantiles[1], y)
				if err != nil {
					return err
				}
				if k == 0 || target.p < label.p || math.IsNaN(label.p) {
					label = target
				}
			}
		}
		w.addNumber(p.Score)
		w.addNumber(p.PValue)
		w.add(parquet.BooleanValue(false)) // discoveries are known only after all rows are scored
		if err := part.ranks.Add(p.PValue); err != nil {
			return err
		}
		current.Digest += rowDigest(at+i, rows.Row(batch.Features, i))
		if math.IsNaN(label.p) {
			label = givenLabel{}
		}
		part.Retained.add(retainedRow{Key: key, Shard: current.Shard, At: at + i, Score: floatBits(p.Score), LabelP: floatBits(label.p), LabelScore: floatBits(label.score), SampleHash: sampleHash(key), Reasons: reasonTexts}, func() floatList {
			return slices.Clone(floatList(rows.Row(batch.Features, i)))
		}, func() floatList { return batch.Values.Numbers(i) })
		if err := w.endRow(); err != nil {
			return err
		}
	}
	current.End = at + len(predictions)
	part.rows += len(predictions)
	part.incomplete = false
	return nil
}
