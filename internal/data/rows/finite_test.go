package rows

import (
	"math"
	"testing"
)

func TestFirstNotFinite(t *testing.T) {
	data := make([]float32, 9001)
	for i := range data {
		data[i] = -float32(i) * 1e30
	}
	if i := FirstNotFinite(data); i != -1 {
		t.Errorf("finite numbers: %d", i)
	}
	for _, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		for _, at := range []int{0, 1, 2, 3, 4095, 4096, 8999, 9000} {
			old := data[at]
			data[at] = float32(v)
			if i := FirstNotFinite(data); i != at {
				t.Errorf("%v at %d is found at %d", v, at, i)
			}
			data[at] = old
		}
	}
}

func BenchmarkFirstNotFinite(b *testing.B) {
	data := make([]float32, 64*3*224*224)
	b.SetBytes(int64(4 * len(data)))
	for b.Loop() {
		FirstNotFinite(data)
	}
}
