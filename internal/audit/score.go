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
)

// Rows are the audited rows of a shard that is open.
type Rows struct {
	N   int // rows of the shard
	Len int // rows that are audited
	// Name is the key of audited row i, where it lies, and its number in the shard.
	Name func(i int) (key, folder string, number int)
	// Batches are the audited rows from one on, as the network makes them. What a row
	// scores must not depend on where they begin, if that is where a batch ended.
	Batches func(ctx context.Context, from int) iter.Seq2[Batch, error]
}

// Batch is rows as the network makes them.
type Batch struct {
	attach.Rows
	Contents []Content // of each row, or nil of features
}

// Scorer scores rows.
type Scorer struct {
	Identity
	// PartTime ends a part that takes longer. Where it is 0 parts depend on rows alone.
	PartTime time.Duration
	// Fitted reads the rows fitted on, where Identity says that there are such; it is
	// called once. Keys are theirs.
	Fitted    func(ctx context.Context) (features blas32.General, keys []string, err error)
	bundle    *attach.Bundle
	predictor *attach.Predictor
	widths    [][]float64 // of the calibration rows' intervals, sorted, a target each
	grouped   bool        // intervals are calibrated by group
	samples   samples     // of rows that were used before

	reading   sync.Mutex // of the rows fitted on
	reference *duplicates.Reference
	keys      []string // of the reference
}

// like is the key of the row fitted on that each row of x is nearly the same as, or
// empty.
func (s *Scorer) like(ctx context.Context, x blas32.General) ([]string, error) {
	s.reading.Lock()
	if s.reference == nil {
		features, keys, err := s.Fitted(ctx)
		if err == nil {
			s.reference, err = duplicates.New(ctx, features)
		}
		if s.keys = keys; err != nil {
			s.reading.Unlock()
			return nil, err
		}
	}
	s.reading.Unlock()
	found, err := s.reference.Like(ctx, x)
	if err != nil {
		return nil, err
	}
	keys := make([]string, len(found))
	for i, k := range found {
		if k >= 0 {
			keys[i] = s.keys[k]
		}
	}
	return keys, nil
}

// NewScorer prepares for scoring with a bundle. Options are completed with what
// id says and the bundle's own. A bundle without a detector cannot audit.
func NewScorer(b *attach.Bundle, id Identity) (*Scorer, error) {
	s := &Scorer{Identity: id, PartTime: partTime, bundle: b}
	o := attach.PredictOptions{Alpha: id.Alpha}
	c := b.Calibration
	s.Task, s.Calibration, s.HeldOut, s.Model = b.Base.Task, len(c.OOD), c.HeldOut, b.Base.SHA256
	s.grouped, s.samples, s.Reused = c.Groups != nil, samplesOf(c), c.Reused
	if len(c.Predicted) > 0 {
		s.Predicted = make([]int, max(2, b.Base.Outputs))
		for _, class := range c.Predicted {
			s.Predicted[class]++
		}
	}
	if s.Alpha == 0 {
		s.Alpha = c.Alpha
	}
	if len(c.Quantiles) > 0 && !s.grouped {
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
			s.widths = append(s.widths, widths(q, o.Levels))
		}
	} else {
		s.Level = 0
	}
	var err error
	s.predictor, err = b.Predictor(o)
	return s, err
}

// widths are those between two quantiles of the calibration rows, sorted.
func widths(q calibrate.QuantileCalibration, levels []float64) []float64 {
	n := len(q.Levels)
	all := make([]float64, len(q.Y))
	for i := range all {
		row := q.Grid[i*n : (i+1)*n]
		all[i] = float64(quantile.Interpolate(q.Levels, row, levels[1])) - float64(quantile.Interpolate(q.Levels, row, levels[0]))
	}
	slices.Sort(all)
	return all
}

const (
	// partRows and partTime bound a part: so much is scored again after a kill.
	partRows = 1 << 15
	partTime = 20 * time.Second
)

// Scoring makes parts of rows as these are scored, of several shards where they are
// small. It is not safe for concurrent use.
type Scoring struct {
	s     *Scorer
	save  func(*Part) error
	part  *Part // being made, or nil
	began time.Time
}

// Begin scores rows into parts, each of which is handed to save. Flush ends the last.
func (s *Scorer) Begin(save func(*Part) error) *Scoring { return &Scoring{s: s, save: save} }

// Flush saves the rows that were scored and not saved yet.
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

// Rows scores rows of a shard from one up to, not including, another. Where they cannot
// be read those before are kept, but for the last batch: it may have been cut short, and
// what a row scores may depend on its batch.
func (c *Scoring) Rows(ctx context.Context, shard string, r Rows, from, to int, progress func(rows int)) error {
	at, have := from, Batch{}
	for batch, err := range r.Batches(ctx, from) {
		if err != nil {
			return err
		}
		if n := have.Len(); n > 0 {
			if err := c.add(ctx, shard, r, at, have, progress); err != nil {
				return err
			}
			at += n
		}
		if have = batch; at+have.Len() < to {
			continue
		}
		if at+have.Len() > to { // rows of another part follow
			have = cut(have, to-at)
		}
		break
	}
	if have.Len() == 0 {
		return nil
	}
	return c.add(ctx, shard, r, at, have, progress)
}

// add scores a batch into the part that is being made, and saves it where it is full.
func (c *Scoring) add(ctx context.Context, shard string, r Rows, at int, batch Batch, progress func(rows int)) error {
	if c.part == nil {
		c.part, c.began = newPart(c.s.Identity, c.s.bundle.GapCounter()), time.Now()
	}
	p := c.part
	if err := c.s.add(ctx, p, shard, r, at, batch); err != nil {
		if p.rows == 0 || p.torn {
			c.part = nil
		}
		return err
	}
	if progress != nil {
		progress(batch.Len())
	}
	if p.rows < partRows && (c.s.PartTime == 0 || time.Since(c.began) < c.s.PartTime) {
		return nil
	}
	return c.Flush()
}

// cut is the first rows of a batch.
func cut(b Batch, n int) Batch {
	idx := make([]int, n)
	for i := range idx {
		idx[i] = i
	}
	if b.Batch = b.Batch.Select(idx); b.Contents != nil {
		b.Contents = b.Contents[:n]
	}
	if b.Groups != nil {
		b.Groups = b.Groups[:n]
	}
	if b.Targets.Rows > 0 {
		b.Targets = rows.Slice(b.Targets, 0, n)
	}
	return b
}

// add scores a batch of rows, the first of which is at.
func (s *Scorer) add(ctx context.Context, part *Part, shard string, r Rows, at int, batch Batch) error {
	targets, groups := batch.Targets, batch.Groups
	if !s.grouped { // predictions know of groups only where intervals are by group
		batch.Groups = nil
	}
	batch.First = at
	all, err := s.predictor.Predict(ctx, batch.Rows)
	if err != nil {
		return err
	}
	var like []string
	if s.Identity.Fitted != "" {
		if like, err = s.like(ctx, batch.Features); err != nil {
			return err
		}
	}
	last := len(part.Ranges) - 1
	if last < 0 || part.Ranges[last].Shard != shard || part.Ranges[last].End != at {
		part.Ranges, last = append(part.Ranges, Range{Shard: shard, Rows: r.N, Of: r.Len, Start: at, End: at}), last+1
	}
	part.torn = true
	w, of, hashes := part.w, &part.Ranges[last], hashes(batch.Batch)
	for i, p := range all {
		key, folder, number := r.Name(at + i)
		hash, content := hashes[i].String(), Content(nil)
		if batch.Contents != nil {
			content = batch.Contents[i]
		}
		w.text(key)
		w.text(of.Shard)
		w.whole(number)
		w.text(folder)
		w.text(hash)
		if s.Reading.Groups != "" {
			w.text(groups[i])
		}
		if like != nil {
			w.text(like[i])
		}
		if s.Task == attach.Classification {
			w.whole(p.Class)
			w.text(p.Name)
			w.number(p.Confidence)
		}
		for k := range s.Targets {
			t := p.Targets[k]
			w.number(t.Value)
			w.number(t.Lower)
			w.number(t.Upper)
			width := calibrate.Conformal{Scores: s.widths[k]}.PValue(t.Quantiles[1] - t.Quantiles[0])
			w.number(width)
			if err := part.widths[k].Add(width); err != nil {
				return err
			}
			y := math.NaN() // not known
			if targets.Rows > 0 {
				y = float64(targets.Data[i*targets.Stride+k])
			}
			w.number(y)
		}
		w.number(p.Score)
		w.number(p.PValue)
		w.add(parquet.BooleanValue(false)) // until all rows are known
		if err := part.ranks.Add(p.PValue); err != nil {
			return err
		}
		of.Digest += digest(at+i, rows.Row(batch.Features, i))
		part.Kept.add(keptRow{Key: key, Shard: of.Shard, At: at + i, Score: floatBits(p.Score), Drawn: draw(key), Hash: hash, Content: content}, func() floats {
			return slices.Clone(floats(rows.Row(batch.Features, i)))
		})
		if err := w.end(); err != nil {
			return err
		}
	}
	part.gaps.Add(batch.Rows)
	part.Used.add(s.samples, batch.Batch)
	of.End = at + len(all)
	part.rows += len(all)
	part.torn = false
	return nil
}
