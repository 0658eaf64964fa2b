package serve

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/featurize"
)

// TestParse checks that all parts of a REST request are parsed.
func TestParse(t *testing.T) {
	var r request
	raw := binary.LittleEndian.AppendUint32(nil, math.Float32bits(1.5))
	err := r.parse([]byte(` {"id": "a\u00e9", "unknown": [{"x": null}], "parameters": {"alpha": ".01", "level": 0.8, "quantiles": ".1,.9", "timeout": 5000, "binary_data_output": true},
		"inputs": [{"name": "x", "shape": [1, 3], "datatype": "FP32", "data": [[1, -2.5e1, 3]]}, {"name": "y", "datatype": "FP32", "shape": [1], "parameters": {"binary_data_size": 4}}],
		"outputs": [{"name": "flag", "parameters": {"binary_data": false}}]} `), raw)
	if err != nil {
		t.Fatal(err)
	}
	if r.id != "aé" || r.alpha != .01 || r.level != .8 || !slices.Equal(r.levels, []float64{.1, .9}) || r.timeout.Milliseconds() != 5 || !r.binaryOutput || len(r.outputs) != 1 || r.outputs[0] != (requestedOutput{"flag", jsonFormat}) {
		t.Errorf("read as %+v", r)
	}
	for i, want := range [][]float32{{1, -25, 3}, {1.5}} {
		got, err := r.inputs[i].floats(nil)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s is %v, want %v, error %v", r.inputs[i].name, got, want, err)
		}
	}
}

// TestParseRefuses checks that a malformed request gives an error of one line that names
// the problem.
func TestParseRefuses(t *testing.T) {
	input := func(s string) string { return `{"inputs": [{"name": "x", ` + s + `}]}` }
	for body, words := range map[string]string{
		``:                              "the text ends, expected an object",
		`[]`:                            "byte 0 is '[', expected an object",
		`{"inputs": [`:                  "the text ends, expected an object",
		`{"inputs": []} x`:              "expected the end",
		`{"unknown": "a\`:               "ends, expected a quotation mark",
		`{"inputs": [{"name": "a\x"}]}`: "byte 24 is 'x', expected an escaped character",
		"{\"id\": \"a\nb\"}":            "byte 9 is '\\n', expected a character of a string",
		`{"parameters": {"sets": ""}}`:  "parameter sets is empty",
		input(`"datatype": "FP32", "shape": [4611686018427387904], "data": [1]`):                      "[4611686018427387904]",
		`{"parameters": {"alpha": 2}}`:                                                                "between 0 and 1",
		`{"parameters": {"alpha": "NaN"}}`:                                                            "between 0 and 1",
		`{"parameters": {"alpah": 0.1}}`:                                                              `no parameter "alpah"; it has alpha`,
		`{"parameters": {"quantiles": ".1,.1"}}`:                                                      "twice",
		`{"parameters": {"timeout": -1}}`:                                                             "microseconds",
		input(`"datatype": "FP32", "shape": [1]`):                                                     "neither data nor",
		input(`"datatype": "FP31", "shape": [1], "data": [1]`):                                        "FP31",
		input(`"datatype": "FP32", "shape": [], "data": 1`):                                           "0 axes",
		input(`"datatype": "FP32", "shape": [-1], "data": [1]`):                                       "not be negative",
		input(`"datatype": "FP32", "shape": [1.5], "data": [1]`):                                      "64-bit integer",
		input(`"datatype": "FP32", "shape": [99999999, 99999999], "data": [1]`):                       "too large",
		input(`"datatype": "FP32", "shape": [9223372036854775807], "data": [1]`):                      "too large",
		input(`"datatype": "FP32", "shape": [99999999999999999999], "data": [1]`):                     "64-bit integer",
		input(`"datatype": "FP32", "shape": [1], "parameters": {"binary_data_size": 4}`):              "0 bytes are left",
		input(`"datatype": "FP32", "shape": [1], "parameters": {"binary_data_size": -4}`):             "must not be negative",
		input(`"datatype": "FP32", "shape": [1], "data": [1], "parameters": {"binary_data_size": 4}`): "both data and",
		input(`"datatype": "FP32", "shape": [1], "data": ` + strings.Repeat("[", 1000)):               "nested too deeply",
	} {
		var r request
		err := r.parse(slices.Clip([]byte(body)), nil)
		if err == nil || !strings.Contains(err.Error(), words) || strings.Contains(err.Error(), "\n") || statusOf(err) != 400 {
			t.Errorf("%.100s: error %v, want one with %q", body, err, words)
		}
	}
	for _, c := range []struct{ datatype, data, words string }{
		{"FP32", `[1, 2`, "the text ends"}, {"FP32", `[1]`, "1 elements"}, {"FP32", `[1, 2, 3]`, "3 elements"}, {"INT8", `[1, null]`, "expected a number"},
		{"FP32", `[1, NaN]`, "expected a number"}, {"FP32", `[1, 1e39]`, "too large for float32"}, {"FP32", `{"a": 1}`, "expected an array"}, {"FP32", `[1, "2"]`, "expected a number"},
		{"INT8", `[1, 128]`, "is not a value of INT8"}, {"INT8", `[1, 1.5]`, "is not a value of INT8"}, {"UINT8", `[-1, 1]`, "is not a value of UINT8"}, {"INT64", `[1, 16777217]`, "outside"}, {"BOOL", `[true, 2]`, "expected true or false"},
	} {
		x := tensor{name: "x", datatype: c.datatype, shape: []int{2}, text: []byte(c.data)}
		if err := x.validate(); err != nil {
			t.Fatal(err)
		}
		if _, err := x.floats(nil); err == nil || !strings.Contains(err.Error(), c.words) || statusOf(err) != 400 {
			t.Errorf("%s %s: error %v, want one with %q", c.datatype, c.data, err, c.words)
		}
	}
}

// TestNull checks that null in JSON is read as NaN, which means a missing value.
func TestNull(t *testing.T) {
	x := tensor{name: "x", datatype: "FP64", shape: []int{2}, text: []byte(`[1,null]`)}
	if err := x.validate(); err != nil {
		t.Fatal(err)
	}
	got, err := x.floats(nil)
	if err != nil || len(got) != 2 || got[0] != 1 || got[1] == got[1] {
		t.Errorf("%v, error %v, want 1 and NaN", got, err)
	}
}

// TestPredictorWaits checks that a request waits for a new predictor until its deadline. It
// must not wait for a predictor that exists.
func TestPredictorWaits(t *testing.T) {
	existing := new(attach.Predictor)
	m := &model{predictors: map[predictorKey]*attach.Predictor{{level: .9}: existing}, buildSlot: make(chan struct{}, 1)}
	m.buildSlot <- struct{}{} // simulates another request that is making a predictor
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if p, err := m.predictor(ctx, &request{level: .9}); p != existing || err != nil {
		t.Errorf("existing predictor: %v, error %v", p, err)
	}
	if _, err := m.predictor(ctx, &request{level: .8}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("new predictor: error %v", err)
	}
}

// TestTextsReserveMemory checks that memory is reserved for texts, even if they are empty.
func TestTextsReserveMemory(t *testing.T) {
	s := New(Options{MaxBodySize: 1 << 10})
	defer s.Close()
	c := s.newCall()
	m := &model{bundle: &attach.Bundle{}, attached: &featurize.Attached{}, inputs: []attach.Input{{Name: "words", DType: "string", Shape: []int{-1, -1}}}}
	x := tensor{name: "words", datatype: "BYTES", shape: []int{1, 2000}, raw: make([]byte, 4*2000)}
	if err := x.validate(); err != nil {
		t.Fatal(err)
	}
	if err := m.readTensor(c, &x); statusOf(err) != http.StatusRequestEntityTooLarge {
		t.Errorf("error %v for 2000 texts in the memory of 1024", err)
	}
}

// TestLoadAfterClose checks that a file is not served if the server is closed before the
// file is open.
func TestLoadAfterClose(t *testing.T) {
	path := network{path: filepath.Join("..", "..", "testmodels", "digits_vgg.onnx"), shape: []int{1, 24, 24}, rows: 100}.fit(t)
	s := New(Options{})
	e, _ := s.addEntry("digits", "1")
	s.Close()
	if err := s.load(t.Context(), e, path, true); !errors.Is(err, errClosed) || e.isLoaded() {
		t.Errorf("error %v, ready %v", err, e.isLoaded())
	}
}

// FuzzREST checks that requests are read in the same way as by encoding/json, and that
// invalid JSON is rejected.
func FuzzREST(f *testing.F) {
	for _, seed := range []string{
		`{"id": "a", "inputs": [{"name": "x", "datatype": "FP32", "shape": [2, 1], "data": [[1], [2.5e0]]}]}`,
		`{"inputs": [{"name": "\u00e9\ud83d\ude00", "datatype": "BYTES", "shape": [1], "data": ["YQ=="]}], "outputs": [{"name": "p_value", "parameters": {"binary_data": true}}]}`,
		`{"parameters": {"alpha": 0.1, "level": ".9", "quantiles": ".1,.2"}, "inputs": [{"name": "x", "datatype": "INT8", "shape": [3], "parameters": {"binary_data_size": 3}}]}abc`,
		`{"id": null, "parameters": null, "outputs": null, "inputs": [{"name": "x", "datatype": "FP32", "shape": [1], "data": [1], "parameters": null}]}`,
		`{"parameters": {"alpha": null}, "inputs": [{"name": "x", "datatype": "INT8", "shape": [3], "data": null, "parameters": {"binary_data_size": 3}}], "outputs": [{"name": "flag", "parameters": null}]}abc`,
		`{"inputs": [{"name": "x", "datatype": "FP32", "shape": [1], "data": [1], "parameters": {"binary_data_size": null}}], "outputs": [{"name": null}]}`,
		`{"inputs": [{"name": "b", "datatype": "BOOL", "shape": [2], "data": [true, false]}]}`,
		`{"id": "a", "parameters": {"cancel": true}, "inputs": [{"name": "row", "datatype": "INT64", "shape": [1], "data": [1]}, {"name": "target", "datatype": "FP64", "shape": [1, 1], "data": [[1e40]]}]}`,
	} {
		f.Add([]byte(seed), strings.LastIndex(seed, "}")+1)
	}
	f.Fuzz(checkREST)
}

// checkREST is the body of FuzzREST. The argument header is the number of bytes of JSON at the
// beginning of body. The rest of body is binary data.
func checkREST(t *testing.T, body []byte, header int) {
	header = min(max(header, 0), len(body))
	var r request
	if err := r.parse(body[:header:header], body[header:]); err != nil {
		if strings.Contains(err.Error(), "not valid JSON for inference") && isRequest(body[:header]) {
			t.Fatalf("%q is refused, but encoding/json reads it: %v", body[:header], err)
		}
		return
	}
	var fields map[string]json.RawMessage
	var want []map[string]json.RawMessage
	if !json.Valid(body[:header]) {
		t.Fatalf("%q is not JSON", body[:header])
	}
	// If a request contains the key "inputs" twice, the parser reads both lists, and the
	// model rejects them later.
	same := json.Unmarshal(body[:header], &fields) == nil && json.Unmarshal(fields["inputs"], &want) == nil && len(want) == len(r.inputs)
	for i := range r.inputs {
		x := &r.inputs[i]
		numbers, err := x.floats(nil)
		if err == nil && len(numbers) != x.elements {
			t.Fatalf("%d numbers of %d", len(numbers), x.elements)
		}
		if err == nil && x.text != nil {
			var nested any
			d := json.NewDecoder(bytes.NewReader(x.text))
			d.UseNumber()
			if d.Decode(&nested) != nil {
				t.Fatalf("%q is not JSON", x.text)
			}
			if flat := flatten(nil, nested); !slices.Equal(flat, numbers) {
				t.Fatalf("%q is read as %v, want %v", x.text, numbers, flat)
			}
		}
		n := 0
		if x.eachBytes(true, func([]byte) error { n++; return nil }) == nil && n != x.elements {
			t.Fatalf("%d elements of %d", n, x.elements)
		}
		var name string
		if same && json.Unmarshal(want[i]["name"], &name) == nil && name != x.name {
			t.Fatalf("name %q, want %q", x.name, name)
		}
	}
}

// isRequest reports whether encoding/json accepts text as a request. It is false if text has
// null in an array, or many elements or levels, because the parser may reject such texts.
func isRequest(text []byte) bool {
	type tensor struct {
		Name, Datatype string
		Shape          []int64
		Parameters     struct {
			Size int64 `json:"binary_data_size"`
		}
	}
	var r *struct {
		ID              string
		Parameters      map[string]json.RawMessage
		Inputs, Outputs []tensor
	}
	return json.Unmarshal(text, &r) == nil && r != nil && !nullElement.Match(text) && bytes.Count(text, []byte(",")) < maxAxes && bytes.Count(text, []byte("["))+bytes.Count(text, []byte("{")) < maxAxes
}

var nullElement = regexp.MustCompile(`[\[,]\s*null`)

// flatten appends the numbers in nested arrays to dst. It appends 1 for true and 0 for
// false.
func flatten(dst []float32, v any) []float32 {
	switch v := v.(type) {
	case []any:
		for _, x := range v {
			dst = flatten(dst, x)
		}
	case json.Number:
		x, _ := strconv.ParseFloat(string(v), 32)
		dst = append(dst, float32(x))
	case bool:
		if v {
			return append(dst, 1)
		}
		dst = append(dst, 0)
	}
	return dst
}

// FuzzBinary checks that an accepted binary tensor has as many elements as its shape
// requires, and uses all of its bytes.
func FuzzBinary(f *testing.F) {
	for i, datatype := range []string{"BOOL", "INT8", "UINT8", "INT16", "UINT16", "FP16", "INT32", "UINT32", "FP32", "INT64", "UINT64", "FP64", "BYTES"} {
		f.Add(i, 2, 1, make([]byte, 16))
		f.Add(i, 1, 1, append([]byte{4, 0, 0, 0}, datatype[:4]...))
	}
	f.Fuzz(checkBinary)
}

// checkBinary is the body of FuzzBinary. datatype is an index into a list of datatypes.
func checkBinary(t *testing.T, datatype, rows, columns int, raw []byte) {
	datatypes := []string{"BOOL", "INT8", "UINT8", "INT16", "UINT16", "FP16", "INT32", "UINT32", "FP32", "INT64", "UINT64", "FP64", "BYTES"}
	x := tensor{name: "x", datatype: datatypes[uint(datatype)%uint(len(datatypes))], shape: []int{rows, columns}, raw: raw}
	if x.raw == nil {
		x.raw = []byte{}
	}
	if x.validate() != nil {
		return
	}
	if x.datatype == "BYTES" {
		n, total := 0, 0
		if x.eachBytes(false, func(b []byte) error { n, total = n+1, total+4+len(b); return nil }) == nil && (n != x.elements || total != len(raw)) {
			t.Fatalf("%d elements of %d bytes, want %d of %d", n, total, x.elements, len(raw))
		}
		return
	}
	got, err := x.floats(nil)
	if err == nil && (len(got) != x.elements || x.elements*elementSize(x.datatype) != len(raw)) {
		t.Fatalf("%d numbers of %d bytes of %s of shape %v", len(got), len(raw), x.datatype, x.shape)
	}
	if err == nil && x.datatype == "FP32" {
		for i, v := range got {
			if math.Float32bits(v) != binary.LittleEndian.Uint32(raw[4*i:]) {
				t.Fatalf("number %d is %v", i, v)
			}
		}
	}
}

// TestThrottle checks that at most one message per second is logged, with the number of
// events since the last message.
func TestThrottle(t *testing.T) {
	var l throttle
	start := time.Now()
	var got []int
	for _, after := range []time.Duration{0, 1, 999 * time.Millisecond, time.Second, 1500 * time.Millisecond, 2 * time.Second} {
		got = append(got, l.record(start.Add(after)))
	}
	if want := []int{1, 0, 0, 3, 0, 2}; !slices.Equal(got, want) {
		t.Errorf("lines of %v events, want %v", got, want)
	}
}
