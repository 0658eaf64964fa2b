package baselines

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas32"
	"gonum.org/v1/gonum/floats"

	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/numeric/softmax"
	"github.com/attach-uncertainty/attach/internal/onnx/graph"
	"github.com/attach-uncertainty/attach/ood"
)

var weiperMethod = ood.Method{
	Name: "weiper",
	Doc: "WeiPer+KLD: how far the histograms of a row's features and logits differ from those of the training rows. Try it for a classifier if scores may be " +
		"slow: each row is multiplied with `repeats` copies of the last layer. The score is the symmetric Kullback–Leibler divergence between the histogram of " +
		"a row's features and that of all training features, plus weight times the same for logits, minus confidence times the mean of the largest softmax. In " +
		"each copy of the last layer, noise with a random direction and norm distance·‖w‖ is added to each weight vector w, drawn by the seed. Histograms have " +
		"`bins` bins between the smallest and the largest value on the training rows. A row's histograms are smoothed over `smoothing` and `smoothing_logits` " +
		"bins.",
	Ref:   "Granz, Heurich & Landgraf 2024, arXiv:2405.17164",
	Needs: ood.Needs{Features: true, Logits: true, Weights: true},
	Memory: func(t ood.Training, p ood.Params) float64 {
		return 12 * p.Float("repeats") * float64(t.Logits.Cols) * float64(t.Features.Cols+weiperRows)
	},
	Params: []ood.Param{
		{Name: "repeats", Default: 100, Takes: "count,most=1000"}, {Name: "distance", Default: 1.8, Takes: "least=0,most=1000"},
		{Name: "bins", Default: 100, Takes: "count,most=10000"},
		{Name: "smoothing", Default: 4, Takes: "count,most=10000"}, {Name: "smoothing_logits", Default: 15, Takes: "count,most=10000"},
		{Name: "weight", Default: 2.5, Takes: "least=0"}, {Name: "confidence", Default: .1, Takes: "least=0"},
	},
	Sweep: []ood.Params{
		{"distance": 1.8}, {"distance": 2.4}, {"distance": 1.8, "weight": .1}, {"distance": 1.8, "weight": 1.}, {"distance": 1.8, "confidence": 1.},
		{"distance": 1.8, "confidence": 5.}, {"distance": 1.8, "smoothing": 20., "smoothing_logits": 40.},
	},
	Fit: fitWeiPer,
	New: func() any { return &weiper{} },
}

type weiper struct {
	lastLayer
	Seed       uint64  `state:"seed"`
	Repeats    int     `state:"repeats,least=1"`
	Distance   float64 `state:"distance,least=0"`
	Share      float64 `state:"share,least=0"` // parameter "weight": the weight of the divergence of the logits
	Confidence float64 `state:"confidence,least=0"`

	Features histogram `state:"features"`
	Logits   histogram `state:"logits"`

	perturbed blas32.General // weights of all copies of the last layer, repeats·c × h
}

// These floors are added to the fraction in each bin, so that its logarithm is finite. The
// authors use different floors for features and for logits.
const (
	featuresFloor = .01
	logitsFloor   = .025
)

// weiperRows is the largest number of rows that are multiplied by the perturbed weights at
// once.
const weiperRows = 64

func fitWeiPer(ctx context.Context, t ood.Training, p ood.Params) (any, error) {
	s := &weiper{
		lastLayer: newLastLayer(ctx, t), Seed: t.Seed, Repeats: p.Int("repeats"), Distance: p.Float("distance"), Share: p.Float("weight"),
		Confidence: p.Float("confidence"), Features: newHistogram(p.Int("bins"), p.Int("smoothing")), Logits: newHistogram(p.Int("bins"), p.Int("smoothing_logits")),
	}
	if err := s.Restored(); err != nil {
		return nil, err
	}
	each := func(visit func(h *histogram, v []float32)) error {
		for first := 0; first < t.Len(); first += weiperRows {
			if err := ctx.Err(); err != nil {
				return err
			}
			x := rows.Slice(t.Features, first, min(first+weiperRows, t.Len()))
			z := s.logitsOf(x)
			for i := range x.Rows {
				visit(&s.Features, row(x, i))
				visit(&s.Logits, row(z, i))
			}
		}
		return nil
	}
	if err := each((*histogram).widen); err != nil {
		return nil, err
	}
	fractions := make([]float64, p.Int("bins"))
	err := each(func(h *histogram, v []float32) {
		h.count(fractions, v)
		floats.AddScaled(h.Mean, 1/float64(t.Len()), fractions)
	})
	return s, err
}

// Restored draws the perturbed weights again from the seed. They are not saved, because
// they are much larger than the rest of the state. Restored returns an error if they would
// need too much memory.
func (s *weiper) Restored() error {
	c, h := s.Weight.Rows, s.Weight.Cols
	if numbers := float64(s.Repeats) * float64(c) * float64(h); 4*numbers > rows.MostMemory {
		return fmt.Errorf("%d copies of %d×%d weights need more than %d GB", s.Repeats, c, h, rows.MostMemory>>30)
	}
	s.perturbed = rows.New(s.Repeats*c, h)
	r := rand.New(rand.NewPCG(s.Seed, 0))
	noise := make([]float64, h)
	for k := range s.perturbed.Rows {
		for j := range noise {
			noise[j] = normal(r)
		}
		w := row(s.Weight, k%c)
		scale := s.Distance * norm(w) / floats.Norm(noise, 2)
		to := row(s.perturbed, k)
		for j, v := range w {
			to[j] = v + float32(scale*noise[j])
		}
	}
	return nil
}

// logitsOf returns the logits of every copy of the last layer for the rows of x.
func (s *weiper) logitsOf(x blas32.General) blas32.General {
	z := rows.New(x.Rows, s.perturbed.Rows)
	for i := range z.Rows {
		for k := range row(z, i) {
			row(z, i)[k] = float32(s.Bias[k%len(s.Bias)])
		}
	}
	blas32.Gemm(blas.NoTrans, blas.Trans, 1, x, s.perturbed, 1, z)
	return z
}

func (s *weiper) Score(ctx context.Context, dst []float64, b ood.Batch) error {
	fractions, smooth := make([]float64, len(s.Features.Mean)), make([]float64, len(s.Features.Mean))
	c := len(s.Bias)
	for first := 0; first < b.Features.Rows; first += weiperRows {
		if err := ctx.Err(); err != nil {
			return err
		}
		x := rows.Slice(b.Features, first, min(first+weiperRows, b.Features.Rows))
		z := s.logitsOf(x)
		for i := range x.Rows {
			nanIfOverflow(row(z, i))
			var largest float64
			for r := range s.Repeats {
				largest += softmax.New(row(z, i)[r*c:(r+1)*c], 1).Largest() / float64(s.Repeats)
			}
			s.Features.count(fractions, row(x, i))
			dst[first+i] = s.Features.divergence(fractions, smooth, featuresFloor) - s.Confidence*largest
			s.Logits.count(fractions, row(z, i))
			dst[first+i] += s.Share * s.Logits.divergence(fractions, smooth, logitsFloor)
		}
	}
	return nil
}

func (s *weiper) ScoreGraph(graph.Batch) (graph.Tensor, error) {
	return graph.Tensor{}, graph.Refuse("it counts %s of a row into a histogram", rows.Count(s.perturbed.Rows, "logit"))
}

// histogram has bins of equal width for numbers in [Low, High).
type histogram struct {
	Low       float64   `state:"low"`
	High      float64   `state:"high"`
	Mean      []float64 `state:"mean[bins],least=0"` // fraction of numbers in each bin, averaged over the training rows
	Smoothing int       `state:"smoothing,least=1"`
}

func newHistogram(bins, smoothing int) histogram {
	return histogram{math.Inf(1), math.Inf(-1), make([]float64, bins), smoothing}
}

// widen extends the range to include the numbers in v.
func (h *histogram) widen(v []float32) {
	for _, x := range v {
		// Like the authors, add 1e-8 to the largest number, in float32.
		h.Low, h.High = min(h.Low, float64(x)), max(h.High, float64(x+1e-8))
	}
}

// count writes the fraction of the numbers v in each bin. Numbers outside the range are in
// no bin.
func (h *histogram) count(fractions []float64, v []float32) {
	clear(fractions)
	for _, x := range v {
		place := (float64(x) - h.Low) / (h.High - h.Low) * float64(len(fractions))
		if place >= 0 && place < float64(len(fractions)) {
			fractions[int(place)] += 1 / float64(len(v))
		}
	}
}

// divergence returns the symmetric Kullback–Leibler divergence between the mean fractions
// and the smoothed fractions of a row. It adds floor to all fractions. The buffer smooth
// has one element per bin.
func (h *histogram) divergence(fractions, smooth []float64, floor float64) float64 {
	last := len(fractions) - 1
	for i := range smooth {
		smooth[i] = floor
		for j := range h.Smoothing {
			smooth[i] += fractions[min(max(i-(h.Smoothing-1)/2+j, 0), last)] / float64(h.Smoothing)
		}
	}
	p, q := floats.Sum(h.Mean)+floor*float64(len(h.Mean)), floats.Sum(smooth)
	var sum float64
	for i, v := range smooth {
		mean := (h.Mean[i] + floor) / p
		sum += (mean - v/q) * math.Log(mean/(v/q))
	}
	return sum
}
