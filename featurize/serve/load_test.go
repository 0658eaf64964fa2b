package serve

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/featurize"
	"github.com/attach-uncertainty/attach/internal/onnx"
	"github.com/attach-uncertainty/attach/internal/onnx/ort"
	"github.com/attach-uncertainty/attach/ood"
)

// network describes an ONNX model for benchmarks.
type network struct {
	path  string
	shape []int // shape of a row
	rows  int   // number of rows of noise to fit on
}

// noise returns rows of random numbers for the model.
func (n network) noise(rows int, seed uint64) ood.InputBlock {
	r := rand.New(rand.NewPCG(seed, 0))
	x := make([]float32, elementCount(append([]int{rows}, n.shape...)))
	for i := range x {
		x[i] = float32(r.NormFloat64())
	}
	return ood.BlockOf(append([]int{rows}, n.shape...), x)
}

// fit fits the default detector and prediction sets on noise. It returns the path of
// the .attach file.
func (n network) fit(tb testing.TB) string {
	ctx := context.Background()
	m, err := featurize.Open(ctx, n.path, featurize.Options{EarlierLayers: featurize.DefaultEarlierLayers})
	if err != nil {
		tb.Fatal(err)
	}
	defer m.Close()
	in := attach.FitOptions{Base: m.Base(attach.Classification), Last: m.Last()}
	for i, to := range []*ood.Batch{&in.Batch, &in.Cal} {
		if *to, err = m.Network().Forward(ctx, n.noise(n.rows, uint64(i))); err != nil {
			tb.Fatal(err)
		}
		for row := range n.rows {
			to.Labels = append(to.Labels, row%to.Logits.Cols)
		}
	}
	b, err := attach.Fit(ctx, in)
	if err != nil {
		tb.Fatal(err)
	}
	path := filepath.Join(tb.TempDir(), "noise.attach")
	if err := b.Save(ctx, path); err != nil {
		tb.Fatal(err)
	}
	return path
}

// bareHandler returns a handler that responds with the model's logits. It batches requests like a
// Server but does no other work, so it is the baseline of BenchmarkLoad.
func (n network) bareHandler(tb testing.TB) http.Handler {
	ctx := context.Background()
	rt, err := ort.Open(ctx, ort.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	graph, err := onnx.Load(n.path)
	if err != nil {
		tb.Fatal(err)
	}
	session, err := rt.NewSession(ctx, ort.Model{Proto: graph.Model, Dir: filepath.Dir(n.path)}, nil, nil)
	if err != nil {
		tb.Fatal(err)
	}
	b := &batcher{maxRows: 64, maxQueue: 1024}
	b.start(func(batch []*job) {
		x := join(batch).Tensors[0]
		dims := make([]int64, len(x.Shape))
		for i, d := range x.Shape {
			dims[i] = int64(d)
		}
		in, err := ort.NewTensor(dims, x.Data)
		if err != nil {
			panic(err)
		}
		defer in.Close()
		out, err := session.Run(ctx, []*ort.Tensor{in})
		if err != nil {
			panic(err)
		}
		defer out[0].Close()
		logits := out[0].Float32s()
		for i, j := range batch {
			each := len(logits) / len(batch)
			j.groups = []string{fmt.Sprint(logits[i*each : (i+1)*each])}
		}
	})
	tb.Cleanup(func() {
		b.close()
		session.Close()
		rt.Close()
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		header, _ := strconv.Atoi(r.Header.Get(headerLength))
		data := make([]float32, (len(body)-header)/4)
		for i := range data {
			data[i] = math.Float32frombits(binary.LittleEndian.Uint32(body[header+4*i:]))
		}
		j := &job{ctx: r.Context(), block: ood.BlockOf(append([]int{1}, n.shape...), data), done: make(chan struct{}, 1)}
		if b.submit(j) == nil {
			io.WriteString(w, j.groups[0])
		}
	})
}

// BenchmarkLoad compares a Server with the bare handler under load, in alternating rounds.
// It reports the median over all rounds of the request rate and of latencies.
func BenchmarkLoad(b *testing.B) {
	networks := []network{{"../../testmodels/digits_resnet.onnx", []int{1, 24, 24}, 400}}
	if os.Getenv("ATTACH_DATA") != "" && testing.Verbose() {
		networks = append(networks,
			network{os.Getenv("ATTACH_DATA") + "/../models/cifar10_resnet20.onnx", []int{3, 32, 32}, 400},
			network{os.Getenv("ATTACH_DATA") + "/../models/cifar10_preact18.onnx", []int{3, 32, 32}, 200})
	}
	for _, n := range networks {
		s := New(Options{})
		if err := s.Load(context.Background(), "m", "", n.fit(b)); err != nil {
			b.Fatal(err)
		}
		defer s.Close()
		header := fmt.Sprintf(`{"inputs": [{"name": %q, "datatype": "FP32", "shape": [1, %d, %d, %d], "parameters": {"binary_data_size": %d}}]}`,
			s.entries[0].current.inputs[0].Name, n.shape[0], n.shape[1], n.shape[2], 4*rowWidth(append([]int{1}, n.shape...)))
		body := []byte(header)
		for _, v := range n.noise(1, 7).Tensors[0].Data {
			body = binary.LittleEndian.AppendUint32(body, math.Float32bits(v))
		}
		handlers := []http.Handler{n.bareHandler(b), s}
		for _, clients := range []int{1, 8, 64} {
			b.Run(fmt.Sprintf("%s/clients=%d", filepath.Base(n.path), clients), func(b *testing.B) {
				var rates, ratios, p50, p99 [2][]float64
				for range rounds {
					for i, handler := range handlers {
						rate, median50, tail99 := load(b, handler, clients, body, len(header))
						rates[i], p50[i], p99[i] = append(rates[i], rate), append(p50[i], median50), append(p99[i], tail99)
					}
					last := len(rates[0]) - 1
					ratios[0] = append(ratios[0], rates[1][last]/rates[0][last])
				}
				for i, name := range []string{"bare", "attach"} {
					b.ReportMetric(median(rates[i]), name+"-req/s")
					b.ReportMetric(median(p50[i]), name+"-p50-ms")
					b.ReportMetric(median(p99[i]), name+"-p99-ms")
				}
				b.ReportMetric(median(ratios[0]), "ratio")
			})
		}
	}
}

// rounds is the number of measurements for each handler.
const rounds = 9

func median(list []float64) float64 {
	list = slices.Sorted(slices.Values(list))
	return list[len(list)/2]
}

// load lets several clients send b.N requests in total. It returns the requests per second,
// and the median and the 99th percentile of latencies in milliseconds.
func load(b *testing.B, handler http.Handler, clients int, body []byte, header int) (rate, p50, p99 float64) {
	server := httptest.NewServer(handler)
	defer server.Close()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: clients}}
	defer client.CloseIdleConnections()
	var mu sync.Mutex
	var all []time.Duration
	var group sync.WaitGroup
	start := time.Now()
	for k := range clients {
		group.Go(func() {
			var latencies []time.Duration
			for i := k; i < b.N; i += clients {
				r, err := http.NewRequest("POST", server.URL+"/v2/models/m/infer", bytes.NewReader(body))
				if err != nil {
					panic(err)
				}
				r.Header.Set(headerLength, strconv.Itoa(header))
				sent := time.Now()
				w, err := client.Do(r)
				if err != nil {
					b.Error(err)
					return
				}
				io.Copy(io.Discard, w.Body)
				w.Body.Close()
				if w.StatusCode != 200 {
					b.Errorf("status %d", w.StatusCode)
					return
				}
				latencies = append(latencies, time.Since(sent))
			}
			mu.Lock()
			all = append(all, latencies...)
			mu.Unlock()
		})
	}
	group.Wait()
	elapsed := time.Since(start).Seconds()
	slices.Sort(all)
	ms := func(i int) float64 { return float64(all[i].Microseconds()) / 1000 }
	return float64(len(all)) / elapsed, ms(len(all) / 2), ms(len(all) * 99 / 100)
}

// BenchmarkInfer measures a request without HTTP. The remaining allocations are for the
// response and in the binding of ONNX Runtime.
func BenchmarkInfer(b *testing.B) {
	n := network{"../../testmodels/digits_resnet.onnx", []int{1, 24, 24}, 400}
	s := New(Options{})
	if err := s.Load(context.Background(), "m", "", n.fit(b)); err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	for _, rows := range []int{1, 32} {
		b.Run(fmt.Sprintf("rows=%d", rows), func(b *testing.B) {
			text := []byte(fmt.Sprintf(`{"inputs": [{"name": %q, "datatype": "FP32", "shape": [%d, 1, 24, 24], "parameters": {"binary_data_size": %d}}]}`, s.entries[0].current.inputs[0].Name, rows, 4*rows*24*24))
			raw := make([]byte, 4*rows*24*24)
			ctx := context.Background()
			b.ReportAllocs()
			for b.Loop() {
				c := s.calls.Get().(*call)
				if err := c.parse(text, raw); err != nil {
					b.Fatal(err)
				}
				if err := s.infer(ctx, c, s.entries[0], func(m *model) error { c.writeResponse(s.entries[0], m); return nil }); err != nil {
					b.Fatal(err)
				}
				s.putCall(c)
			}
		})
	}
}
