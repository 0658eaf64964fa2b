package serve_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"gonum.org/v1/gonum/blas/blas32"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/calibrate"
	"github.com/attach-uncertainty/attach/featurize"
	"github.com/attach-uncertainty/attach/featurize/serve"
	"github.com/attach-uncertainty/attach/internal/attachtest"
	"github.com/attach-uncertainty/attach/internal/data/inputs"
	"github.com/attach-uncertainty/attach/internal/inference"
	"github.com/attach-uncertainty/attach/ood"
	"github.com/attach-uncertainty/attach/preprocess"
)

// toyBundle returns a .attach file for the toy regressor with calibrated intervals.
var toyBundle = sync.OnceValues(func() (*attach.Bundle, error) {
	ctx := context.Background()
	model, err := featurize.Open(ctx, "../../testmodels/toy_regressor.onnx", featurize.Options{})
	if err != nil {
		return nil, err
	}
	defer model.Close()
	method, _ := attach.MethodByName("quantile-forest")
	o := attach.FitOptions{
		Base: model.Base(attach.Regression), Last: model.Last(), SkipDetector: true,
		IntervalModel: method, IntervalParams: ood.Params{"n_estimators": 5, "min_samples_leaf": 20},
	}
	read := func(file string) (ood.Batch, blas32.General, error) {
		set, err := inputs.Open(ctx, "../../testmodels/"+file, inputs.Options{})
		if err != nil {
			return ood.Batch{}, blas32.General{}, err
		}
		b, err := model.All(ctx, set.Blocks(ctx, 64), set.Len(), nil)
		return b, set.Targets, err
	}
	if o.Batch, o.Targets, err = read("toy_fit.npz"); err != nil {
		return nil, err
	}
	if o.Cal, o.CalTargets, err = read("toy_cal.npz"); err != nil {
		return nil, err
	}
	return attach.Fit(ctx, o)
})

// toyServer starts a server for the toy regressor. It returns the server, the URL of the model and
// the path of the .attach file.
func toyServer(t *testing.T, o serve.Options) (s *serve.Server, url, path string) {
	t.Helper()
	b, err := toyBundle()
	if err != nil {
		t.Fatal(err)
	}
	return serveToy(t, b, o)
}

func serveToy(t *testing.T, b *attach.Bundle, o serve.Options) (s *serve.Server, url, path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "toy.attach")
	if err := b.Save(t.Context(), path); err != nil {
		t.Fatal(err)
	}
	s = serve.New(o)
	if err := s.Load(t.Context(), "toy", "", path); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(s)
	t.Cleanup(func() {
		server.Close()
		s.Close()
	})
	return s, server.URL + "/v2/models/toy", path
}

// adaptive are the options of a server with adaptive intervals.
func adaptive(method string) serve.Options {
	return serve.Options{Adapt: &calibrate.AdaptiveOptions{Method: method, Window: 100}}
}

// toyRequest returns a request for the toy regressor with an id.
func toyRequest(id string, x ...float64) string {
	data := strings.ReplaceAll(fmt.Sprint(x), " ", ",")
	return fmt.Sprintf(`{"id": %q, "inputs": [{"name": "x", "datatype": "FP32", "shape": [%d, 1], "data": %s}]}`, id, len(x), data)
}

// feedbackRequest returns a request with the targets of all rows.
func feedbackRequest(id string, y ...float64) string {
	data := strings.ReplaceAll(fmt.Sprint(y), " ", ",")
	return fmt.Sprintf(`{"id": %q, "inputs": [{"name": "target", "datatype": "FP64", "shape": [%d], "data": %s}]}`, id, len(y), data)
}

// mustPost sends a request that must succeed.
func mustPost(t *testing.T, url, body string) response {
	t.Helper()
	code, a := postJSON(t, url, body)
	if code != http.StatusOK {
		t.Fatalf("%.200s: status %d, %s", body, code, a.Error)
	}
	return a
}

// metricsOf returns the values of the metrics of a server by name, without those with buckets.
func metricsOf(t *testing.T, s *serve.Server) map[string]float64 {
	t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(s.Collector())
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]float64{}
	for _, f := range families {
		for _, m := range f.Metric {
			values[f.GetName()] += m.GetGauge().GetValue() + m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return values
}

// TestAdaptsIntervals sends a series whose targets jump, and its targets late and out of order. It
// checks that the server gives the intervals that calibrate.Adaptive gives with all quantiles of
// the file, and that they cover the jump while fixed intervals do not.
func TestAdaptsIntervals(t *testing.T) {
	b, err := toyBundle()
	if err != nil {
		t.Fatal(err)
	}
	model, err := featurize.OpenFor(t.Context(), b, "../../testmodels/toy_regressor.onnx", featurize.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer model.Close()
	levels := b.Calibration.Quantiles[0].Levels
	predictor, err := b.Predictor(attach.PredictOptions{Levels: levels})
	if err != nil {
		t.Fatal(err)
	}
	intervals := predictor.Intervals("")
	const n = 160
	rng := rand.New(rand.NewPCG(1, 2))
	x, y := make([]float32, n), make([]float64, n)
	for i := range x {
		x[i] = float32(1 + 2*rng.Float64())
	}
	run, err := model.Run(t.Context(), ood.BlockOf([]int{n, 1}, x))
	if err != nil {
		t.Fatal(err)
	}
	predictions, err := predictor.Predict(t.Context(), run)
	if err != nil {
		t.Fatal(err)
	}
	quantiles := make([][][]float32, n)
	for i, p := range predictions {
		y[i] = float64(float32(p.Targets[0].Value + 0.3*rng.NormFloat64()*math.Pow(8, float64(i/40%2))))
		quantiles[i] = [][]float32{nil}
		for _, v := range p.Targets[0].Quantiles {
			quantiles[i][0] = append(quantiles[i][0], float32(v))
		}
	}
	for _, method := range []string{"aci", "dtaci", "pid"} {
		s, url, _ := toyServer(t, adaptive(method))
		want, err := calibrate.NewAdaptive(intervals.CalibrationScores()[0], calibrate.AdaptiveOptions{Method: method, Alpha: 1 - b.Calibration.Level, Window: 100})
		if err != nil {
			t.Fatal(err)
		}
		var waiting []int
		covered, fixed := 0, 0
		for i, p := range predictions {
			_, threshold, err := want.Next(fmt.Sprint(i))
			if err != nil {
				t.Fatal(err)
			}
			lower, upper := make([]float64, 1), make([]float64, 1)
			intervals.PredictMargins(lower, upper, quantiles[i], []float64{threshold})
			a := mustPost(t, url+"/infer", toyRequest(fmt.Sprint(i), float64(x[i])))
			if lo, hi := numberOr(a.data("lower")[0], math.Inf(-1)), numberOr(a.data("upper")[0], math.Inf(1)); lo != lower[0] || hi != upper[0] {
				t.Fatalf("%s, row %d: the interval is [%v, %v], want [%v, %v]", method, i, lo, hi, lower[0], upper[0])
			}
			if lower[0] <= y[i] && y[i] <= upper[0] {
				covered++
			}
			if target := p.Targets[0]; target.Lower <= y[i] && y[i] <= target.Upper {
				fixed++
			}
			waiting = append(waiting, i)
			rng.Shuffle(len(waiting), func(i, j int) { waiting[i], waiting[j] = waiting[j], waiting[i] })
			for len(waiting) > 5 {
				k := waiting[0]
				waiting = waiting[1:]
				wantCovered, err := want.Feedback(fmt.Sprint(k), intervals.Scores(quantiles[k], []float32{float32(y[k])})[0])
				if err != nil {
					t.Fatal(err)
				}
				a := mustPost(t, url+"/feedback", feedbackRequest(fmt.Sprint(k), y[k]))
				if !slices.Equal(a.data("covered"), []any{wantCovered}) {
					t.Fatalf("%s, row %d: covered is %v, want %v", method, k, a.data("covered"), wantCovered)
				}
			}
		}
		if c, f := float64(covered)/n, float64(fixed)/n; c < .8 || f > .7 {
			t.Errorf("%s: adaptive intervals cover %.3f, fixed ones %.3f", method, c, f)
		}
		m := metricsOf(t, s)
		if m["attach_waiting_rows"] != 5 || m["attach_targets_total"] != n-5 || m["attach_missed_targets_total"] < 10 || m["attach_feedback_lag_seconds"] != n-5 || m["attach_feedback_requests_total"] != n-5 || m["attach_target_drift_evidence"] < 100 {
			t.Errorf("%s: the metrics are %v", method, m)
		}
	}
}

// numberOr returns a number of a response, or what null stands for.
func numberOr(v any, null float64) float64 {
	if f, ok := v.(float64); ok {
		return f
	}
	return null
}

// TestFeedbackRefuses checks that feedback which does not fit a waiting row is an error of one
// line, and changes nothing.
func TestFeedbackRefuses(t *testing.T) {
	s, url, _ := toyServer(t, adaptive("aci"))
	mustPost(t, url+"/infer", toyRequest("a", 1, 2, 3))
	mustPost(t, url+"/feedback", `{"id": "a", "inputs": [{"name": "row", "datatype": "INT64", "shape": [1], "data": [2]}, {"name": "target", "datatype": "FP32", "shape": [1, 1], "data": [0.5]}]}`)
	row := func(list string, n int) string {
		return fmt.Sprintf(`{"name": "row", "datatype": "INT64", "shape": [%d], "data": [%s]}`, n, list)
	}
	target := func(list string, shape string) string {
		return fmt.Sprintf(`{"name": "target", "datatype": "FP64", "shape": [%s], "data": [%s]}`, shape, list)
	}
	feedback := func(inputs ...string) string {
		return `{"id": "a", "inputs": [` + strings.Join(inputs, ",") + `]}`
	}
	before := metricsOf(t, s)
	for _, c := range []struct {
		path, body string
		status     int
		words      string
	}{
		{"/feedback", feedbackRequest("b", 1), 404, `no request with the id "b" waits for targets`},
		{"/feedback", feedbackRequest("", 1), 400, "the id is missing"},
		{"/feedback", feedbackRequest("a", 1, 2, 3), 409, `row 2 of the request "a" no longer waits`},
		{"/feedback", feedback(row("2", 1), target("1", "1")), 409, "no longer waits"},
		{"/feedback", feedback(row("3", 1), target("1", "1")), 400, "there is no row 3"},
		{"/feedback", feedback(row("-1", 1), target("1", "1")), 400, "there is no row -1"},
		{"/feedback", feedback(row("0, 0", 2), target("1, 2", "2")), 400, "row 0 is given twice"},
		{"/feedback", feedback(row("0, 1", 2), target("1", "1")), 400, "has 1 rows, but row has 2"},
		{"/feedback", feedback(row("0", 1), target("1, 2", "1, 2")), 400, "shape [1 2], but each row has 1 targets"},
		{"/feedback", feedback(row("0", 1), row("0", 1), target("1", "1")), 400, `the input "row" of INT64`},
		{"/feedback", feedback(row("0", 1), `{"name": "target", "datatype": "BYTES", "shape": [1], "data": ["1"]}`), 400, `the input "target" of BYTES`},
		{"/feedback", feedback(row("0", 1), target("null", "1")), 400, "is NaN: it must be a finite number"},
		{"/feedback", feedback(row("0", 1), target("1e40", "1")), 400, "too large for float32"},
		{"/feedback", feedback(row("0", 1)), 400, "the input target is missing"},
		{"/feedback", `{"id": "a", "parameters": {"cancel": true}, "inputs": [` + target("1", "1") + `]}`, 400, "cancels rows, but has the input target"},
		{"/feedback", `{"id": "a", "parameters": {"level": 0.5}, "inputs": [` + target("1", "1") + `]}`, 400, "no other parameters"},
		{"/feedback", `{"id": "a", "inputs": [`, 400, "not valid JSON"},
		{"/infer", toyRequest("a", 1), 409, `the id "a" already waits`},
		{"/infer", toyRequest(strings.Repeat("a", 257), 1), 400, "257 bytes"},
		{"/infer", strings.Replace(toyRequest("c", 1), "{", `{"parameters": {"level": 0.5},`, 1), 400, "level is 0.5, but adaptive intervals have the level of the server, 0.9"},
		{"/infer", strings.Replace(toyRequest("c", 1), "{", `{"parameters": {"cancel": true},`, 1), 400, "cancel is for feedback"},
	} {
		code, a := postJSON(t, url+c.path, c.body)
		if code != c.status || !strings.Contains(a.Error, c.words) || strings.Contains(a.Error, "\n") {
			t.Errorf("%s %s: status %d, error %q, want %d with %q", c.path, c.body, code, a.Error, c.status, c.words)
		}
	}
	after := metricsOf(t, s)
	for _, name := range []string{"attach_waiting_rows", "attach_targets_total", "attach_adaptive_level", "attach_adaptive_threshold"} {
		if before[name] != after[name] || before["attach_waiting_rows"] != 2 {
			t.Errorf("%s was %v and is %v", name, before[name], after[name])
		}
	}
	if r, err := http.Get(url + "/feedback"); err != nil || r.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("GET: %v, %v", r, err)
	}
	// The other rows still take their targets, in any order, and can be cancelled.
	mustPost(t, url+"/feedback", feedback(row("0", 1), target("1", "1")))
	if a := mustPost(t, url+"/feedback", `{"id": "a", "parameters": {"cancel": true}}`); len(a.Outputs) != 0 || a.ID != "a" {
		t.Errorf("a cancelled row: %+v", a)
	}
	if code, a := postJSON(t, url+"/feedback", feedbackRequest("a", 1)); code != http.StatusNotFound {
		t.Errorf("after the last target: status %d, %s", code, a.Error)
	}
	mustPost(t, url+"/infer", toyRequest("a", 1)) // an id can be used again
}

// TestResponseHasLevel checks that a response has the level of its intervals, that requests
// without an id get the same level and do not wait, and that quantiles are those of the request.
func TestResponseHasLevel(t *testing.T) {
	s, url, _ := toyServer(t, adaptive("aci"))
	_, plainURL, _ := toyServer(t, serve.Options{})
	for range 3 {
		mustPost(t, url+"/infer", toyRequest("a", 1))
		mustPost(t, url+"/feedback", feedbackRequest("a", 100))
	}
	body := `{"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 1], "data": [1.5]}], "parameters": {"level": 0.9, "quantiles": "0.2,0.5"}}`
	a, plain := mustPost(t, url+"/infer", body), mustPost(t, plainURL+"/infer", body)
	// Three misses lower the level of miscoverage by 3·0.005·0.9.
	if want := 0.9 + 3*0.005*0.9; math.Abs(a.Parameters["level"]-want) > 1e-9 || plain.Parameters != nil {
		t.Errorf("the level is %v, want %v; without adaptive intervals, the parameters are %v", a.Parameters["level"], want, plain.Parameters)
	}
	if !slices.Equal(a.data("quantiles"), plain.data("quantiles")) || len(a.data("quantiles")) != 2 || a.data("median")[0] != plain.data("median")[0] {
		t.Errorf("quantiles %v and median %v, want %v and %v", a.data("quantiles"), a.data("median"), plain.data("quantiles"), plain.data("median"))
	}
	if n := metricsOf(t, s)["attach_waiting_rows"]; n != 0 {
		t.Errorf("%v rows wait", n)
	}
}

// TestSeveralTargets checks that each target adapts on its own, and that a row about whose targets
// nothing is known has infinite intervals and takes its targets, but does not count.
func TestSeveralTargets(t *testing.T) {
	const path = "../../testmodels/odd/three_targets.onnx"
	model, err := featurize.Open(t.Context(), path, featurize.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer model.Close()
	method, _ := attach.MethodByName("sqr") // its quantiles of large inputs are large
	o := attach.FitOptions{
		Base: model.Base(attach.Regression), Last: model.Last(), SkipDetector: true,
		IntervalModel: method, Trainer: attachtest.LinearTrainer{Slope: 1, Spread: 1},
	}
	rng := rand.New(rand.NewPCG(3, 3))
	x := make([]float32, 300*6)
	for i := range x {
		x[i] = float32(rng.NormFloat64())
	}
	run, err := model.Network().Forward(t.Context(), ood.BlockOf([]int{300, 6}, x))
	if err != nil {
		t.Fatal(err)
	}
	o.Batch, o.Targets = run, run.Logits
	b, err := attach.Fit(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	s, url, _ := serveToy(t, b, adaptive("aci"))
	ones, huge := strings.Repeat("1,", 6), strings.TrimSuffix(strings.Repeat("-1e30,", 6), ",")
	a := mustPost(t, url+"/infer", `{"id": "a", "inputs": [{"name": "x", "datatype": "FP32", "shape": [2, 6], "data": [`+ones+huge+`]}]}`)
	if lower := a.data("lower"); len(lower) != 6 || lower[0] == nil || lower[3] != nil || len(a.Parameters) != 6 || a.Parameters["level_2"] != 0.9 {
		t.Fatalf("the lower ends are %v, the parameters %v", lower, a.Parameters)
	}
	feedback := `{"id": "a", "inputs": [{"name": "target", "datatype": "FP32", "shape": [SHAPE], "data": [-1e6, 0, 0, -1e6, -1e6, -1e6]}]}`
	for _, shape := range []string{"6", "3, 2", "6, 1"} {
		if code, a := postJSON(t, url+"/feedback", strings.Replace(feedback, "SHAPE", shape, 1)); code != http.StatusBadRequest || !strings.Contains(a.Error, "each row has 3 targets") {
			t.Errorf("shape [%s]: status %d, %s", shape, code, a.Error)
		}
	}
	a = mustPost(t, url+"/feedback", strings.Replace(feedback, "SHAPE", "2, 3", 1))
	if covered := a.data("covered"); len(covered) != 6 || covered[0] != false || covered[3] != true || !slices.Equal(a.Outputs[0].Shape, []int{2, 3}) {
		t.Errorf("covered is %v of %v", covered, a.Outputs[0].Shape)
	}
	if m := metricsOf(t, s); m["attach_targets_total"] != 3 || m["attach_waiting_rows"] != 0 {
		t.Errorf("the metrics are %v", m)
	}
	a = mustPost(t, url+"/infer", `{"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 6], "data": [`+strings.TrimSuffix(ones, ",")+`]}]}`)
	if a.Parameters["level_0"] <= 0.9 || a.Parameters["level_1"] >= 0.9 {
		t.Errorf("after a miss of the first target and none of the second, the parameters are %v", a.Parameters)
	}
}

// TestDefaultWindow checks that the default window is 20/(1−level) despite rounding.
func TestDefaultWindow(t *testing.T) {
	toy, err := toyBundle()
	if err != nil {
		t.Fatal(err)
	}
	b := *toy
	b.Calibration.Level = .9
	s, _, _ := serveToy(t, &b, serve.Options{Adapt: &calibrate.AdaptiveOptions{}})
	if state, err := mustAdaptation(t, s).MarshalBinary(); err != nil || !strings.Contains(string(state), `"Window":200,`) {
		t.Errorf("error %v, the state %.300s", err, state)
	}
}

// TestAdaptsScore checks for each interval score of a file that the adaptive intervals begin like
// the other intervals of the file, if the window has all calibration rows.
func TestAdaptsScore(t *testing.T) {
	toy, err := toyBundle()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[any]bool{}
	for _, score := range []string{"cqr", "cqr-r", "cqr-m", "cir", "rcp"} {
		b := *toy
		b.Calibration.IntervalScore = score
		_, plainURL, _ := serveToy(t, &b, serve.Options{})
		plain := mustPost(t, plainURL+"/infer", toyRequest("", 1.5, 2.5))
		_, url, _ := serveToy(t, &b, serve.Options{Adapt: &calibrate.AdaptiveOptions{Window: b.Calibration.NCal}})
		adaptive := mustPost(t, url+"/infer", toyRequest("", 1.5, 2.5))
		for _, end := range []string{"lower", "upper"} {
			if got, want := adaptive.data(end), plain.data(end); !slices.Equal(got, want) {
				t.Errorf("%s: %s is %v, want %v", score, end, got, want)
			}
		}
		seen[plain.data("lower")[0]] = true
	}
	if len(seen) < 5 {
		t.Errorf("only %d of 5 scores give different intervals, so the test shows little", len(seen))
	}
}

// TestAdaptsSets checks that the adaptive sets of a classifier begin like its other sets, and cover
// labels that are often wrong, while other sets do not. It also checks which labels are refused.
func TestAdaptsSets(t *testing.T) {
	_, plainURL, path := digitsServer(t, serve.Options{})
	s := serve.New(serve.Options{Adapt: &calibrate.AdaptiveOptions{Window: 300, Steps: []float64{0.02}}})
	defer s.Close()
	if err := s.Load(t.Context(), "digits", "", path); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(s)
	defer server.Close()
	url := server.URL + "/v2/models/digits"
	plainURL += "/v2/models/digits"
	raw, err := os.ReadFile("../../testmodels/digits.preprocess.json")
	if err != nil {
		t.Fatal(err)
	}
	p, err := preprocess.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	set, err := inputs.Open(t.Context(), "../../testmodels/digits_test.npz", inputs.Options{Preprocess: p})
	if err != nil {
		t.Fatal(err)
	}
	const rows = 20
	rng := rand.New(rand.NewPCG(8, 8))
	covered, coveredPlain, n := 0, 0, 0
	for i := range 12 {
		block, err := set.Block(t.Context(), intRange(i*rows, (i+1)*rows))
		if err != nil {
			t.Fatal(err)
		}
		data := strings.ReplaceAll(fmt.Sprint(block.Tensors[0].Data), " ", ",")
		body := fmt.Sprintf(`{"id": "%d", "inputs": [{"name": "input", "datatype": "FP32", "shape": [%d, 1, 24, 24], "data": %s}], "outputs": [{"name": "set"}]}`, i, rows, data)
		a, plain := mustPost(t, url+"/infer", body), mustPost(t, plainURL+"/infer", body)
		if i == 0 && (fmt.Sprint(a.Outputs) != fmt.Sprint(plain.Outputs) || a.Parameters["level"] != 0.9 || math.Abs(a.Parameters["threshold"]+30.5/301) > 1e-6) {
			// With 300 calibration rows, p-values are k/301, and above 0.1 from k = 31 on.
			t.Fatalf("the first sets are %v at %v, want %v", a.Outputs, a.Parameters, plain.Outputs)
		}
		labels := set.Labels[i*rows : (i+1)*rows]
		for k := range labels {
			if i < 4 && k%12 == 0 { // so few that sets stay small
				labels[k] = (labels[k] + 1) % 10
			} else if i >= 4 && rng.IntN(3) == 0 {
				labels[k] = rng.IntN(10)
			}
		}
		text := strings.ReplaceAll(fmt.Sprint(labels), " ", ",")
		f := mustPost(t, url+"/feedback", fmt.Sprintf(`{"id": "%d", "inputs": [{"name": "label", "datatype": "INT64", "shape": [%d], "data": %s}]}`, i, rows, text))
		for k, label := range labels {
			in := func(a response) bool {
				width := a.Outputs[0].Shape[1]
				return slices.Contains(a.data("set")[k*width:(k+1)*width], any(float64(label)))
			}
			if f.data("covered")[k] != in(a) {
				t.Fatalf("row %d: covered is %v, the label %d, the sets %v", k, f.data("covered")[k], label, a.Outputs)
			}
			if i < 6 {
				continue
			}
			if n++; in(a) {
				covered++
			}
			if in(plain) {
				coveredPlain++
			}
		}
	}
	if c, p := float64(covered)/float64(n), float64(coveredPlain)/float64(n); c < 0.85 || p > 0.8 {
		t.Errorf("adaptive sets cover %.3f, others %.3f", c, p)
	}
	mustPost(t, url+"/infer", tensorRequest(1, 0, `"id": "a", "outputs": [{"name": "flag"}], `)) // also without the output
	for body, words := range map[string]string{
		`{"id": "a", "inputs": [{"name": "label", "datatype": "INT64", "shape": [1], "data": [10]}]}`:  "the index of one of 10 classes",
		`{"id": "a", "inputs": [{"name": "label", "datatype": "INT64", "shape": [1], "data": [-1]}]}`:  "the index of one of 10 classes",
		`{"id": "a", "inputs": [{"name": "label", "datatype": "FP32", "shape": [1], "data": [0.5]}]}`:  "the index of one of 10 classes",
		`{"id": "a", "inputs": [{"name": "label", "datatype": "FP32", "shape": [1], "data": [1e30]}]}`: "the index of one of 10 classes",
		`{"id": "a", "inputs": [{"name": "target", "datatype": "INT64", "shape": [1], "data": [1]}]}`:  "one input label",
	} {
		if code, a := postJSON(t, url+"/feedback", body); code != http.StatusBadRequest || !strings.Contains(a.Error, words) {
			t.Errorf("%s: status %d, %s", body, code, a.Error)
		}
	}
	if code, a := postJSON(t, url+"/infer", tensorRequest(1, 0, `"parameters": {"sets": "aps"}, `)); code != http.StatusBadRequest || !strings.Contains(a.Error, "the score lac") {
		t.Errorf("other sets: status %d, %s", code, a.Error)
	}
	mustPost(t, url+"/feedback", `{"id": "a", "inputs": [{"name": "label", "datatype": "INT64", "shape": [1], "data": [1]}]}`)
}

// intRange returns the integers from begin to end−1.
func intRange(begin, end int) (list []int) {
	for i := begin; i < end; i++ {
		list = append(list, i)
	}
	return list
}

// TestPendingLimits checks that only the most recent rows wait, and not for longer than the limit,
// and that the error for later targets says so.
func TestPendingLimits(t *testing.T) {
	o := adaptive("aci")
	o.MaxPending = 4
	s, url, _ := toyServer(t, o)
	for _, id := range []string{"a", "b", "c"} {
		mustPost(t, url+"/infer", toyRequest(id, 1, 2))
	}
	if code, a := postJSON(t, url+"/feedback", feedbackRequest("a", 1, 2)); code != http.StatusNotFound || !strings.Contains(a.Error, "only the last 4 rows wait") {
		t.Errorf("a dropped request: status %d, %s", code, a.Error)
	}
	mustPost(t, url+"/feedback", feedbackRequest("b", 1, 2))
	if code, a := postJSON(t, url+"/infer", toyRequest("d", 1, 2, 1, 2, 1)); code != http.StatusRequestEntityTooLarge || !strings.Contains(a.Error, "at most 4 rows may wait") {
		t.Errorf("five rows: status %d, %s", code, a.Error)
	}
	if m := metricsOf(t, s); m["attach_dropped_rows_total"] != 2 || m["attach_waiting_rows"] != 2 {
		t.Errorf("the metrics are %v", m)
	}
	o.MaxPending, o.PendingTimeout = 0, 50*time.Millisecond
	s, url, _ = toyServer(t, o)
	mustPost(t, url+"/infer", toyRequest("a", 1))
	time.Sleep(60 * time.Millisecond)
	if code, a := postJSON(t, url+"/feedback", feedbackRequest("a", 1)); code != http.StatusNotFound || !strings.Contains(a.Error, "for at most 50ms") {
		t.Errorf("late targets: status %d, %s", code, a.Error)
	}
	mustPost(t, url+"/infer", toyRequest("a", 1)) // the id can be used again
	if m := metricsOf(t, s); m["attach_dropped_rows_total"] != 1 {
		t.Errorf("the metrics are %v", m)
	}
}

// TestRestoresBeforeRequests checks that a model takes requests only when its state is restored.
// The rows of an earlier request would be lost.
func TestRestoresBeforeRequests(t *testing.T) {
	first, url, path := toyServer(t, adaptive("aci"))
	mustPost(t, url+"/infer", toyRequest("kept", 1))
	state, err := mustAdaptation(t, first).MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	o := adaptive("aci")
	var next *serve.Server
	restored := 0
	o.Restore = func(name, version string, monitor *calibrate.Monitor, a *serve.Adaptation) error {
		restored++
		if _, err := next.Adaptation(name, version); name != "toy" || version != "1" || monitor != nil || err == nil {
			t.Errorf("the model %s/%s with the monitor %v is served before its state is restored", name, version, monitor)
		}
		return a.UnmarshalBinary(state)
	}
	next = serve.New(o)
	t.Cleanup(next.Close)
	for range 2 { // a reload keeps the state and does not restore it
		if err := next.Load(t.Context(), "toy", "", path); err != nil {
			t.Fatal(err)
		}
	}
	if covered, err := mustAdaptation(t, next).Feedback("kept", nil, []float32{3}); len(covered) != 1 || err != nil || restored != 1 {
		t.Errorf("the state is restored %d times, and feedback returns %v, %v", restored, covered, err)
	}
	o.Restore = func(string, string, *calibrate.Monitor, *serve.Adaptation) error { return io.ErrUnexpectedEOF }
	other := serve.New(o)
	t.Cleanup(other.Close)
	if err := other.Load(t.Context(), "toy", "", path); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("with a state that cannot be restored, Load returns %v", err)
	}
}

// TestAdaptationState checks that a server continues from a saved state with the rows that wait,
// and that a state of other options, another level or damage is an error that changes nothing.
func TestAdaptationState(t *testing.T) {
	for _, method := range []string{"aci", "dtaci", "pid"} {
		s, url, _ := toyServer(t, adaptive(method))
		other, otherURL, _ := toyServer(t, adaptive(method))
		for i := range 20 {
			mustPost(t, url+"/infer", toyRequest(fmt.Sprint(i), 1, 2, 3))
			if i%3 == 0 {
				mustPost(t, url+"/feedback", feedbackRequest(fmt.Sprint(i), 3, 3, 3))
			}
		}
		mustPost(t, url+"/feedback", `{"id": "1", "inputs": [{"name": "row", "datatype": "INT32", "shape": [1], "data": [1]}, {"name": "target", "datatype": "FP32", "shape": [1], "data": [9]}]}`)
		a, b := mustAdaptation(t, s), mustAdaptation(t, other)
		state, err := a.MarshalBinary()
		if err != nil {
			t.Fatal(err)
		}
		if err := b.UnmarshalBinary(state); err != nil {
			t.Fatal(err)
		}
		if again, err := b.MarshalBinary(); err != nil || !bytes.Equal(again, state) {
			t.Errorf("%s: %v, the state %s\nis saved again as %s", method, err, state, again)
		}
		for i := range 20 {
			for _, url := range []string{url, otherURL} {
				if i%3 == 1 {
					code, a := postJSON(t, url+"/feedback", fmt.Sprintf(`{"id": "%d", "inputs": [{"name": "row", "datatype": "INT32", "shape": [1], "data": [0]}, {"name": "target", "datatype": "FP32", "shape": [1], "data": [9]}]}`, i))
					if code != http.StatusOK {
						t.Fatal(code, a.Error)
					}
				}
			}
			x, y := mustPost(t, url+"/infer", toyRequest("", 1.5)), mustPost(t, otherURL+"/infer", toyRequest("", 1.5))
			if fmt.Sprint(x.Parameters, x.Outputs) != fmt.Sprint(y.Parameters, y.Outputs) {
				t.Fatalf("%s, step %d: %v, want %v", method, i, y, x)
			}
		}
		good, err := b.MarshalBinary()
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct{ from, to, words string }{
			{`"version":1`, `"version":2,"new":0`, "version 2, and this program reads version 1"}, {`"model":"`, `"model":"0`, "another model"},
			{`"calibration":"`, `"calibration":"0`, "other calibration rows"}, {`"Window":100`, `"Window":99`, "another method, step or window"},
			{`"Alpha":0.0`, `"Alpha":0.5`, "the level 0.4"}, {`"id":"1"`, `"id":"2"`, `the id "2" is empty or there twice`}, {`"rows":3`, `"rows":4`, "4 rows and 48 bytes"},
			{`"done":[0`, `"done":[3`, "row 3 of the request"}, {`"next_row":60`, `"next_row":6`, "begins at row"}, {`{"`, `["`, "not the state of adaptive intervals, or damaged"},
		} {
			damaged := strings.Replace(string(good), c.from, c.to, 1)
			if damaged == string(good) {
				t.Fatalf("%s: the state has no %s: %s", method, c.from, good)
			}
			if err := b.UnmarshalBinary([]byte(damaged)); err == nil || !strings.Contains(err.Error(), c.words) {
				t.Errorf("%s: %s instead of %s: error %v, want one with %q", method, c.to, c.from, err, c.words)
			}
		}
		if after, err := b.MarshalBinary(); err != nil || !bytes.Equal(after, good) {
			t.Errorf("%s: a refused state changed the state, error %v", method, err)
		}
	}
}

func mustAdaptation(t *testing.T, s *serve.Server) *serve.Adaptation {
	t.Helper()
	a, err := s.Adaptation("toy", "")
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// TestAdaptationReload checks that a reload keeps adaptive intervals and waiting rows, unless the
// calibration rows change.
func TestAdaptationReload(t *testing.T) {
	var log bytes.Buffer
	o := adaptive("aci")
	o.Log = slog.New(slog.NewJSONHandler(&log, nil))
	s, url, path := toyServer(t, o)
	mustPost(t, url+"/infer", toyRequest("a", 1))
	mustPost(t, url+"/infer", toyRequest("b", 1))
	if err := s.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	mustPost(t, url+"/feedback", feedbackRequest("a", 1))
	b, err := attach.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := range b.Calibration.Quantiles[0].Y {
		b.Calibration.Quantiles[0].Y[i]++
	}
	if err := cmp.Or(b.Save(t.Context(), path), s.Reload(t.Context())); err != nil {
		t.Fatal(err)
	}
	if code, a := postJSON(t, url+"/feedback", feedbackRequest("b", 1)); code != http.StatusNotFound || strings.Count(log.String(), "adaptive intervals start again") != 1 {
		t.Errorf("with other calibration rows: status %d, %s; the log is %s", code, a.Error, &log)
	}
}

// TestAdaptRefusesFiles checks that files without intervals, or with intervals that cannot adapt,
// are refused when they are loaded, and that feedback without adaptive intervals is an error.
func TestAdaptRefusesFiles(t *testing.T) {
	_, url, path := toyServer(t, serve.Options{})
	if code, a := postJSON(t, url+"/feedback", feedbackRequest("a", 1)); code != http.StatusBadRequest || !strings.Contains(a.Error, "does not adapt its intervals") {
		t.Errorf("without adaptive intervals: status %d, %s", code, a.Error)
	}
	b, err := digitsBundle()
	if err != nil {
		t.Fatal(err)
	}
	unlabelled := *b
	unlabelled.Calibration.TrueClasses = calibrate.ClassCalibration{}
	digits := filepath.Join(t.TempDir(), "digits.attach")
	if err := unlabelled.Save(t.Context(), digits); err != nil {
		t.Fatal(err)
	}
	toy, err := attach.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	toy.Calibration.IntervalScore = "ridge"
	ridge := filepath.Join(filepath.Dir(path), "ridge.attach")
	if err := toy.Save(t.Context(), ridge); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		path    string
		options calibrate.AdaptiveOptions
		words   string
	}{
		{ridge, calibrate.AdaptiveOptions{}, "the score ridge cannot adapt"},
		{digits, calibrate.AdaptiveOptions{}, "the file has neither"},
		{path, calibrate.AdaptiveOptions{Alpha: .1}, "the level of the file determines it"},
		{path, calibrate.AdaptiveOptions{Window: 8}, "it needs at least 9"},
		{path, calibrate.AdaptiveOptions{Method: "best"}, `unknown method "best"`},
	} {
		s := serve.New(serve.Options{Adapt: &c.options})
		if err := s.Load(t.Context(), "m", "", c.path); err == nil || !strings.Contains(err.Error(), c.words) {
			t.Errorf("%+v: error %v, want one with %q", c.options, err, c.words)
		}
		s.Close()
	}
}

// TestConcurrentFeedback checks that concurrent requests and feedback lose no row, and that the
// warning about a large step is logged once.
func TestConcurrentFeedback(t *testing.T) {
	var log bytes.Buffer
	o := adaptive("aci")
	o.Log = slog.New(slog.NewJSONHandler(&log, nil))
	s, url, _ := toyServer(t, o)
	var clients sync.WaitGroup
	for k := range 6 {
		clients.Go(func() {
			for i := range 15 {
				id := fmt.Sprintf("%d-%d", k, i)
				if code, a := postJSON(t, url+"/infer", toyRequest(id, 1, 2)); code != http.StatusOK {
					t.Errorf("status %d, %s", code, a.Error)
				}
				if i >= 5 {
					var both sync.WaitGroup
					var codes [2]int
					for j := range codes { // one of two clients with the same targets succeeds
						both.Go(func() {
							codes[j], _ = postJSON(t, url+"/feedback", feedbackRequest(fmt.Sprintf("%d-%d", k, i-5), 1, 2))
						})
					}
					both.Wait()
					if min(codes[0], codes[1]) != http.StatusOK || max(codes[0], codes[1]) != http.StatusNotFound {
						t.Errorf("statuses %v", codes)
					}
				}
				if _, err := mustAdaptation(t, s).MarshalBinary(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	clients.Wait()
	m := metricsOf(t, s)
	if m["attach_waiting_rows"] != 6*5*2 || m["attach_targets_total"] != 6*10*2 || m["attach_dropped_rows_total"] != 0 {
		t.Errorf("the metrics are %v", m)
	}
	if n := strings.Count(log.String(), "the step of adaptive intervals is large"); n != 1 {
		t.Errorf("the step is mentioned %d times: %s", n, &log)
	}
}

// TestFeedbackGRPC checks feedback over gRPC, with typed and raw contents.
func TestFeedbackGRPC(t *testing.T) {
	s, _, _ := toyServer(t, adaptive("aci"))
	g := grpc.NewServer()
	s.Register(g)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go g.Serve(l)
	defer g.Stop()
	c, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	call := func(method string, in *inference.ModelInferRequest) (*inference.ModelInferResponse, error) {
		in.ModelName, in.Id = "toy", "a"
		var out inference.ModelInferResponse
		return &out, c.Invoke(t.Context(), "/inference.GRPCInferenceService/"+method, in, &out)
	}
	tensor := func(name string, rows int64, v ...float32) []*inference.ModelInferRequest_InferInputTensor {
		return []*inference.ModelInferRequest_InferInputTensor{{Name: name, Datatype: "FP32", Shape: []int64{rows, 1}, Contents: &inference.InferTensorContents{Fp32Contents: v}}}
	}
	raw := binary.LittleEndian.AppendUint32(nil, math.Float32bits(1e6))
	for _, feedback := range []*inference.ModelInferRequest{
		{Inputs: tensor("target", 1, 1e6)},
		{Inputs: []*inference.ModelInferRequest_InferInputTensor{{Name: "target", Datatype: "FP32", Shape: []int64{1}}}, RawInputContents: [][]byte{raw}},
	} {
		out, err := call("ModelInfer", &inference.ModelInferRequest{Inputs: tensor("x", 1, 1)})
		if err != nil || out.Parameters["level"].GetDoubleParam() < .9 {
			t.Fatalf("%v, error %v", out, err)
		}
		if _, err := call("ModelInfer", &inference.ModelInferRequest{Inputs: tensor("x", 1, 1)}); status.Code(err) != codes.AlreadyExists {
			t.Errorf("the same id: error %v", err)
		}
		out, err = call("ModelFeedback", feedback)
		if err != nil || out.Id != "a" || len(out.Outputs) != 1 || out.Outputs[0].Name != "covered" || !slices.Equal(out.Outputs[0].Contents.BoolContents, []bool{false}) {
			t.Errorf("%v, error %v", out, err)
		}
	}
	if _, err := call("ModelFeedback", &inference.ModelInferRequest{Inputs: tensor("target", 1, 1)}); status.Code(err) != codes.NotFound {
		t.Errorf("targets of no row: error %v", err)
	}
}

// BenchmarkPending measures a request for predictions and its feedback while few or many other
// rows wait for their targets. It also reports the memory of a waiting row, and the time and the
// size of a saved state.
func BenchmarkPending(b *testing.B) {
	bundle, err := toyBundle()
	if err != nil {
		b.Fatal(err)
	}
	path := filepath.Join(b.TempDir(), "toy.attach")
	if err := bundle.Save(b.Context(), path); err != nil {
		b.Fatal(err)
	}
	for _, method := range []string{"", "aci", "dtaci", "pid"} {
		for _, pending := range []int{0, 99_000} {
			o := serve.Options{}
			if method != "" {
				o = adaptive(method)
			} else if pending > 0 {
				continue
			}
			b.Run(fmt.Sprintf("%s/pending=%d", cmp.Or(method, "fixed"), pending), func(b *testing.B) {
				s := serve.New(o)
				defer s.Close()
				if err := s.Load(b.Context(), "toy", "", path); err != nil {
					b.Fatal(err)
				}
				post := func(path, body string) {
					w := httptest.NewRecorder()
					s.ServeHTTP(w, httptest.NewRequest("POST", "/v2/models/toy"+path, strings.NewReader(body)))
					if w.Code != http.StatusOK {
						b.Fatal(w.Body)
					}
				}
				before := heapBytes()
				for i := range pending {
					post("/infer", toyRequest(fmt.Sprint("pending ", i), 1))
				}
				if bytes := float64(heapBytes() - before); pending > 0 {
					defer func() { b.ReportMetric(bytes/float64(pending), "B/row") }()
				}
				if a, err := s.Adaptation("toy", ""); err == nil {
					start := time.Now()
					state, err := a.MarshalBinary()
					if err != nil {
						b.Fatal(err)
					}
					milliseconds, megabytes := float64(time.Since(start).Milliseconds()), float64(len(state))/1e6
					defer func() {
						b.ReportMetric(milliseconds, "ms/save")
						b.ReportMetric(megabytes, "MB/save")
					}()
				}
				for b.Loop() {
					post("/infer", toyRequest("a", 1))
					if method != "" {
						post("/feedback", feedbackRequest("a", 1))
					}
				}
			})
		}
	}
}

// heapBytes returns the number of bytes on the heap that are in use.
func heapBytes() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
