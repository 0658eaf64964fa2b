package selection

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/ood"
)

// identity is a network that returns its inputs as features and the first two inputs as
// logits.
type identity struct {
	ood.Network
	err  error
	rows *int
}

func (n identity) Forward(_ context.Context, x ood.InputBlock) (ood.Batch, error) {
	*n.rows += x.Len()
	in := x.Tensors[0].Data
	w := len(in) / x.Len()
	b := ood.Batch{Features: blas32.General{Rows: x.Len(), Cols: w, Stride: w, Data: slices.Clone(in)}}
	b.Logits = blas32.General{Rows: x.Len(), Cols: 2, Stride: 2}
	for i := range x.Len() {
		b.Logits.Data = append(b.Logits.Data, in[i*w], in[i*w+1])
	}
	return b, n.err
}

// networkRows returns n rows of the given shape (channels first) as inputs and as features.
// Channels differ in mean and spread. It also returns a counter of the rows that the network
// runs on.
func networkRows(n int, shape ...int) (ood.Training, *int) {
	rng := rand.New(rand.NewPCG(1, 2))
	width := 1
	for _, d := range shape {
		width *= d
	}
	data := make([]float32, n*width)
	for i := range data {
		k := i % width / (width / shape[0])
		data[i] = float32(100*k) + float32(1+9*k)*float32(rng.Float64())
	}
	rows := new(int)
	net := identity{rows: rows}
	full := append([]int{n}, shape...)
	b, _ := net.Forward(context.Background(), ood.BlockOf(full, data))
	*rows = 0
	b.Labels = make([]int, n)
	b.Inputs, b.Network = ood.BlockOf(full, data), net
	return ood.Training{Batch: b, Seed: 3}, rows
}

// makeCorruptedRows returns in-distribution rows, and corrupted copies of them that serve as
// out-of-distribution rows.
func makeCorruptedRows(t *testing.T, training ood.Training) (in, out ood.Batch) {
	t.Helper()
	before := slices.Clone(training.Features.Data)
	tasks := mustMakeTasks(t, corruptedInputs, training)
	if !slices.Equal(training.Features.Data, before) {
		t.Error("the rows to select with were changed")
	}
	in, out = tasks[0].in, tasks[0].out
	if in.Len() != out.Len() || in.Len() != training.Len()/5 {
		t.Fatalf("%d rows in-domain and %d corrupted of %d", in.Len(), out.Len(), training.Len())
	}
	return in, out
}

func TestCorruptedImages(t *testing.T) {
	const height, width = 9, 12 // grids of 2×2 and 4×4 patches leave pixels over
	training, forwardRows := networkRows(2000, 2, height, width)
	in, out := makeCorruptedRows(t, training)
	if *forwardRows != in.Len() {
		t.Errorf("the network ran on %d rows, and %d were to be corrupted", *forwardRows, in.Len())
	}
	originals, corrupted := rowsOf(in.Features), rowsOf(out.Features)
	kinds := map[string]int{}
	for i := range originals {
		kinds[corruptionKind(t, originals[i], corrupted[i], height, width)]++
		if out.Logits.Data[2*i+1] != corrupted[i][1] {
			t.Fatalf("row %d: logits are not those of the corrupted input", i)
		}
	}
	for kind, fraction := range map[string]float64{"patches 2": .25, "patches 4": .25, "noise 0.25": 1. / 6, "noise 0.5": 1. / 6, "noise 1": 1. / 6} {
		if got := float64(kinds[kind]) / float64(len(originals)); math.Abs(got-fraction) > .07 {
			t.Errorf("%s: %.3f of the rows, want about %.3f (%v)", kind, got, fraction, kinds)
		}
	}
}

// corruptionKind infers how an image was corrupted.
func corruptionKind(t *testing.T, original, corrupted []float32, height, width int) string {
	t.Helper()
	pixelAt := func(row []float32, k, y, x int) float32 { return row[(k*height+y)*width+x] }
	for _, grid := range []int{2, 4} {
		h, w := height/grid, width/grid
		patches := func(row []float32) (list [][]float32) {
			for p := range grid * grid {
				var patch []float32
				for k := range 2 {
					for y := range h {
						for x := range w {
							patch = append(patch, pixelAt(row, k, p/grid*h+y, p%grid*w+x))
						}
					}
				}
				list = append(list, patch)
			}
			slices.SortFunc(list, slices.Compare)
			return list
		}
		if slices.EqualFunc(patches(original), patches(corrupted), slices.Equal) && pixelAt(original, 0, height-1, 0) == pixelAt(corrupted, 0, height-1, 0) {
			if grid == 2 {
				return "patches 2"
			}
			return "patches 4"
		}
	}
	// The uniform channels have standard deviations 1/√12 and 10/√12. Clipping changes
	// noise near the ends of the range, so measure it only near the middle.
	var scales [2]float64
	for k := range 2 {
		size := 1 + 9*float64(k)
		n := 0.
		for j := range height * width {
			d := float64(corrupted[k*height*width+j] - original[k*height*width+j])
			if v := float64(corrupted[k*height*width+j]); v < 100*float64(k)-1e-3 || v > 100*float64(k)+size+1e-3 {
				t.Fatalf("%v is outside the range of channel %d", v, k)
			}
			if mid := float64(original[k*height*width+j]) - 100*float64(k) - size/2; math.Abs(mid) < size/8 {
				n++
				scales[k] += math.Min(math.Abs(d)/size*math.Sqrt(12), 1.2)
			}
		}
		scales[k] /= n
	}
	// The mean of |d| is √(2/π) of the standard deviation, minus the effect of clipping.
	switch s := (scales[0] + scales[1]) / 2 * math.Sqrt(math.Pi/2); {
	case math.Abs(scales[0]-scales[1]) > .45:
		t.Errorf("noise of %v of the spread of one channel and %v of the other", scales[0], scales[1])
	case s < .36:
		return "noise 0.25"
	case s < .67:
		return "noise 0.5"
	}
	return "noise 1"
}

// TestCorruptedChannelsLast checks that patches are permuted in the same way with channels
// last as with channels first.
func TestCorruptedChannelsLast(t *testing.T) {
	training, _ := networkRows(200, 3, 8, 8)
	_, channelsFirst := makeCorruptedRows(t, training)
	channelsLast := training
	x := training.Features
	reordered := blas32.General{Rows: x.Rows, Cols: x.Cols, Stride: x.Cols, Data: make([]float32, len(x.Data))}
	for i := range x.Rows {
		for j := range x.Cols {
			reordered.Data[i*x.Cols+j%64*3+j/64] = x.Data[i*x.Cols+j]
		}
	}
	channelsLast.Features, channelsLast.Inputs = reordered, ood.BlockOf([]int{200, 8, 8, 3}, reordered.Data)
	_, out := makeCorruptedRows(t, channelsLast)
	identicalCount := 0
	for i := range out.Len() {
		a, b := rowsOf(channelsFirst.Features)[i], rowsOf(out.Features)[i]
		identical := true
		for j := range a {
			identical = identical && a[j] == b[j%64*3+j/64]
		}
		if identical {
			identicalCount++
		}
	}
	// Noise is drawn value by value in memory order, so only images with permuted patches
	// are identical.
	if identicalCount < out.Len()/3 || identicalCount > 2*out.Len()/3 {
		t.Errorf("%d of %d images are the same with channels last, want the half that patches of are permuted", identicalCount, out.Len())
	}
}
