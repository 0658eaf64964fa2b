package attach_test

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"math"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/internal/data/npy"
	"github.com/attach-uncertainty/attach/internal/data/rows"
)

// seal corrects the checksum of the manifest, and the manifest entries of the named arrays.
func seal(content map[string][]byte, arrays ...string) {
	m := content["manifest.json"]
	for _, name := range arrays {
		if start, end := findArrayEntry(m, name); end > start {
			if entry := arrayEntry(name, content[name]); entry != nil {
				m = slices.Concat(m[:start], entry, m[end:])
			}
		}
	}
	content["manifest.json"] = m
	content["manifest.sha256"] = []byte(sha256Hex(m) + "  manifest.json\n")
}

// findArrayEntry returns the range of bytes of the manifest m in which the named array is
// described. The range is empty if there is no such array.
func findArrayEntry(m []byte, name string) (start, end int) {
	start = bytes.Index(m, []byte("{\n      \"name\": \""+name+"\","))
	if start < 0 {
		return 0, 0
	}
	const last = "\n    }"
	length := bytes.Index(m[start:], []byte(last))
	return start, start + length + len(last)
}

// arrayEntry returns the manifest entry of an array, or nil if the bytes are not a .npy file.
func arrayEntry(name string, array []byte) []byte {
	a, err := npy.Read(bytes.NewReader(array), int64(len(array)))
	if err != nil {
		return nil
	}
	dtype := map[bool]string{}
	_, f32 := a.Data.([]float32)
	_, f64 := a.Data.([]float64)
	_, i64 := a.Data.([]int64)
	dtype[f32], dtype[f64], dtype[i64] = "float32", "float64", "int64"
	entry, err := json.MarshalIndent(struct {
		Name   string `json:"name"`
		DType  string `json:"dtype"`
		Shape  []int  `json:"shape"`
		Bytes  int    `json:"bytes"`
		SHA256 string `json:"sha256"`
	}{name, dtype[true], a.Shape, len(array), sha256Hex(array)}, "    ", "  ")
	if err != nil {
		return nil
	}
	return entry
}

// resealed returns a golden file with one change and corrected checksums.
func resealed(t testing.TB, file string, change func(content map[string][]byte)) []byte {
	t.Helper()
	golden, err := os.ReadFile("testdata/" + file + ".attach")
	if err != nil {
		t.Fatal(err)
	}
	return resealedBytes(t, golden, change)
}

func resealedBytes(t testing.TB, file []byte, change func(content map[string][]byte)) []byte {
	t.Helper()
	_, content := unpack(t, file)
	before := maps.Clone(content)
	change(content)
	if maps.EqualFunc(before, content, bytes.Equal) {
		t.Fatal("nothing was changed")
	}
	seal(content, slices.Collect(maps.Keys(content))...)
	return pack(t, slices.Sorted(maps.Keys(content)), content, zip.Store)
}

// replaceText returns a change that replaces text of the manifest.
func replaceText(old, new string) func(map[string][]byte) {
	return func(content map[string][]byte) {
		content["manifest.json"] = []byte(strings.Replace(string(content["manifest.json"]), old, new, 1))
	}
}

// replaceArray returns a change that replaces an array, if the file has it.
func replaceArray(name string, data any, shape ...int) func(map[string][]byte) {
	return func(content map[string][]byte) {
		if content[name] == nil {
			return
		}
		var b bytes.Buffer
		if err := npy.Write(&b, rows.Array{Shape: shape, Data: data}); err != nil {
			panic(err)
		}
		content[name] = b.Bytes()
	}
}

// editArray returns a change that edits the entries of an array.
func editArray(name string, change func(a rows.Array)) func(map[string][]byte) {
	return func(content map[string][]byte) {
		a, err := npy.Read(bytes.NewReader(content[name]), int64(len(content[name])))
		if err != nil {
			return
		}
		change(a)
		replaceArray(name, a.Data, a.Shape...)(content)
	}
}

// inOrder returns a change that applies several changes in order.
func inOrder(changes ...func(map[string][]byte)) func(map[string][]byte) {
	return func(content map[string][]byte) {
		for _, c := range changes {
			c(content)
		}
	}
}

// addArray returns a change that copies the array original to a new array name, in the file
// and in its manifest.
func addArray(name string, original string) func(map[string][]byte) {
	return func(content map[string][]byte) {
		content[name] = content[original]
		m := content["manifest.json"]
		start, end := findArrayEntry(m, original)
		if end == start {
			panic("there is no array " + original)
		}
		more := bytes.Replace(m[start:end], []byte(original), []byte(name), 1)
		content["manifest.json"] = slices.Concat(m[:end], []byte(",\n    "), more, m[end:])
	}
}

// removeArray removes an array from the file and from its manifest. The array must not be the
// last of the manifest.
func removeArray(content map[string][]byte, name string) {
	m := content["manifest.json"]
	start, end := findArrayEntry(m, name)
	content["manifest.json"] = slices.Concat(m[:start], m[end+len(",\n    "):])
	delete(content, name)
}

// TestResealed checks that Read rejects files that no fit writes, even with corrected
// checksums. It also checks that a resealed file without a change is read.
func TestResealed(t *testing.T) {
	const (
		class, layers, regression, forest, groups = "v1_classification", "v1_layers", "v1_regression", "v1_forest", "v1_groups"

		ood, quantiles, targets, codes = "calibration/ood.npy", "calibration/quantiles.npy", "calibration/targets.npy", "calibration/groups.npy"
	)
	for _, file := range []string{class, layers, regression, forest, groups} {
		content := resealed(t, file, func(c map[string][]byte) { c["manifest.sha256"] = nil })
		if _, err := read(content); err != nil {
			t.Errorf("%s, sealed again: %v", file, err)
		}
	}
	nan := func(a rows.Array) {
		switch v := a.Data.(type) {
		case []float64:
			v[0] -= v[0]
			v[0] /= v[0]
		case []float32:
			v[0] -= v[0]
			v[0] /= v[0]
		}
	}
	swap := func(a rows.Array) {
		if v, ok := a.Data.([]float64); ok {
			v[0], v[1] = v[1], v[0]
		} else if v, ok := a.Data.([]float32); ok {
			v[0], v[1] = v[1], v[0]
		}
	}
	for _, tt := range []struct {
		name, file string
		change     func(map[string][]byte)
		message    string
	}{
		{"no scores", class, replaceArray(ood, []float64{}, 0), "0 scores of calibration rows, but there must be 12"},
		{"fewer scores", class, replaceArray(ood, []float64{1, 2}, 2), "2 scores"},
		{"other count", class, replaceText(`"n_cal": 12`, `"n_cal": 11`), "12 scores of calibration rows, but there must be 11"},
		{"no rows", class, replaceText(`"n_fit": 48`, `"n_fit": 0`), "0 fit rows and 12 calibration rows"},
		{"half a row", class, replaceText(`"n_fit": 48`, `"n_fit": 47.5`), "manifest.json"},
		{"more rows than can be", class, replaceText(`"n_fit": 48`, `"n_fit": 1e400`), "manifest.json"},
		{"negative seed", class, replaceText(`"seed": 3`, `"seed": -3`), "manifest.json"},
		{"one label less", class, replaceArray("calibration/labels.npy", make([]int64, 11), 11), "labels, probabilities and ranks of 11"},
		{"label beyond the last", class, editArray("calibration/labels.npy", func(a rows.Array) { a.Data.([]int64)[0] = 3 }), "label 3 of 3"},
		{"label below 0", class, editArray("calibration/labels.npy", func(a rows.Array) { a.Data.([]int64)[0] = -1 }), "labels of the calibration rows contain -1"},
		{"labels of float64", class, replaceArray("calibration/labels.npy", make([]float64, 12), 12), "labels are []float64"},
		{"rank beyond the last", class, editArray("calibration/ranks.npy", func(a rows.Array) { a.Data.([]int64)[0] = 3 }), "rank 3"},
		{"probability of 2", class, editArray("calibration/true.npy", func(a rows.Array) { a.Data.([]float64)[0] = 2 }), "which no softmax gives"},
		{"negative probability", class, editArray("calibration/above.npy", func(a rows.Array) { a.Data.([]float64)[0] = -1 }), "which no softmax gives"},
		{"NaN probability", class, editArray("calibration/top.npy", nan), "contains NaN"},
		{"no probabilities", class, func(c map[string][]byte) { removeArray(c, "calibration/top.npy") }, "\"top\" is missing"},
		{"labels of a sigmoid", class, inOrder(replaceText(",\n    \"temperature\": 0.7569902890124319", ""), replaceText("\"d\"\n    ]", "\"d\"\n    ],\n    \"sigmoid\": true")), "it has labels of calibration rows, but the model has no softmax"},
		{"NaN score", class, editArray(ood, nan), "contains NaN"},
		{"scores of float32", class, replaceArray(ood, make([]float32, 12), 12), "float64"},
		{"scores as a column", class, replaceArray(ood, make([]float64, 12), 12, 1), "of shape [12 1]"},
		{"NaN in the detector", class, editArray("detector/certificates.npy", nan), "contains NaN"},
		{"scores without a detector", groups, replaceText(detectorOf(groups), ""), "scores of calibration rows"},
		{"another detector's state", layers, replaceText(`"method": "fused-layers"`, `"method": "knn"`), "knn"},
		{"a detector that reads no layers", class, replaceText(`"task": "classification",`, "\"task\": \"classification\",\n    \"layers\": [\n      {\n        \"width\": 3\n      }\n    ],"), "its parts do not fit together: the detector reads 0 earlier layers, but the manifest names 1"},
		{"one layer less", layers, replaceText("      {\n        \"tensor\": \"relu1\",\n        \"width\": 3\n      },\n", ""), "do not fit together"},
		{"other layer", layers, replaceText("\"width\": 3\n", "\"width\": 4\n"), "do not fit together"},
		{"layers and a half", layers, replaceText(`"parts.1.fitted.layers": 2`, `"parts.1.fitted.layers": 2.5`), "number of its parts"},
		{"parameter nobody has", class, replaceText(`"params": {`, "\"params\": {\n      \"a\": 1,"), `unknown parameter "a"`},
		{"parameter that is a list", class, replaceText(`"lambda": 0`, `"lambda": [0]`), `"lambda"`},
		{"state nobody reads", class, replaceText(`"state": {`, "\"state\": {\n      \"a\": 1,"), `parameter "a" belongs to nothing`},
		{"array nobody reads", class, addArray("detector/zeros.npy", "detector/certificates.npy"), `array "zeros" belongs to nothing`},
		{"calibration nobody reads", class, addArray("calibration/zeros.npy", ood), "manifest.json"},
		{"quantile head nobody has", class, addArray("quantiles/mean.npy", "detector/certificates.npy"), "manifest.json"},
		{"key nobody reads", class, replaceText(`"alpha": 0.05`, "\"alpha\": 0.05,\n    \"beta\": 0.05"), `line 47 of manifest.json is "    \"beta\": 0.05,", but a fit writes "    \"level\": 0.9,"`},
		{"key twice", class, replaceText(`"alpha": 0.05`, "\"alpha\": 0.01,\n    \"alpha\": 0.05"), "manifest.json"},
		{"key in capitals", class, replaceText(`"alpha"`, `"Alpha"`), "manifest.json"},
		{"null", class, replaceText(`"alpha": 0.05`, `"alpha": null`), "alpha 0"},
		{"text behind", class, func(c map[string][]byte) { c["manifest.json"] = append(c["manifest.json"], "{}"...) }, "manifest.json"},
		{"deep", class, replaceText(`"layout"`, `"deep": `+strings.Repeat("[", 20000)+strings.Repeat("]", 20000)+`, "layout"`), "manifest.json"},
		{"odd layout", class, replaceText(`"nchw"`, `"hwcn"`), `"hwcn"`},
		{"odd sha256", class, replaceText(`"sha256": "0123`, `"sha256": "\u001b[2J`), "sha256"},
		{"odd rows", class, replaceText(`"held_out": "split"`, `"held_out": "stolen"`), "stolen"},
		{"odd temperature", class, replaceText(`"temperature": 0.7`, `"temperature": 70000.7`), "temperature"},
		{"negative temperature", class, replaceText(`"temperature": 0`, `"temperature": -0`), "temperature"},
		{"temperature of a regressor", groups, replaceText(`"level": 0.9`, "\"level\": 0.9,\n    \"temperature\": 2"), "temperature"},
		{"alpha of 0", class, replaceText(`"alpha": 0.05`, `"alpha": 0`), "alpha 0"},
		{"more classes than outputs", class, replaceText(`"d"`+"\n", "\"d\",\n      \"e\"\n"), "4 class names for 3 outputs"},
		{"other outputs", class, replaceText(`"outputs_width": 3`, `"outputs_width": 2`), "3 class names for 2 outputs"},
		{"classes of a regressor", groups, replaceText(`"task": "regression",`, "\"task\": \"regression\",\n    \"classes\": [\"a\"],"), "a regressor has 1 class names"},
		{"preprocessing that is a list", class, replaceText(`"preprocess": {`, `"preprocess": [1], "p": {`), "the preprocessing is not a JSON object"},
		{"preprocessing that is deep", class, replaceText(`"preprocess": {`, `"preprocess": {"a": `+strings.Repeat("[", 9000)+strings.Repeat("]", 9000)+`,`), "9001 brackets"},
		{"preprocessing that is null", class, replaceText(`"preprocess": {`, `"preprocess": null, "p": {`), "the preprocessing is not a JSON object"},
		{"other module", class, replaceText(`attach-uncertainty/attach"`, `attach-uncertainty/detach"`), "detach"},

		{"no targets", regression, inOrder(replaceArray(targets, []float32{}, 0, 20), replaceArray(quantiles, []float32{}, 0, 20, 31)), "quantiles of 0 targets"},
		{"no rows of targets", regression, inOrder(replaceArray(targets, []float32{}, 2, 0), replaceArray(quantiles, []float32{}, 2, 0, 31)), "0 targets of calibration rows, but there must be 20"},
		{"one target", regression, inOrder(replaceArray(targets, make([]float32, 20), 1, 20), replaceArray(quantiles, make([]float32, 620), 1, 20, 31)), "1 targets"},
		{"a head of other targets", regression, replaceText(`"outputs_width": 2`, `"outputs_width": 1`), "the calibration has quantiles of 2 targets, but the model has 1 outputs"},
		{"crossing quantiles", regression, editArray(quantiles, swap), "calibration row 0 has crossing quantiles or an infinite target"},
		{"NaN quantile", regression, editArray(quantiles, nan), "contains NaN"},
		{"NaN target", regression, editArray(targets, nan), "contains NaN"},
		{"calibration row 3 has crossing quantiles or an infinite target", regression, editArray(targets, func(a rows.Array) { a.Data.([]float32)[3] = float32(math.Inf(1)) }), "calibration row 3 has crossing quantiles or an infinite target"},
		{"levels that fall", regression, replaceText("0.001,\n      0.0025", "0.0025,\n      0.001"), "levels must increase"},
		{"level of 1", regression, replaceText("0.999\n", "1\n"), "levels must increase"},
		{"one level less", regression, replaceText(",\n      0.999\n", "\n"), "30 levels"},
		{"layers and a half of the head", regression, replaceText(`"networks.0.layers": 1`, `"networks.0.layers": 1.5`), "number of its parts"},
		{"NaN in the head", regression, editArray("quantiles/networks.0.layers.0.weight.npy", nan), "contains NaN"},
		{"no head", regression, replaceText(`"quantiles": {`, `"quartiles": {`), "the calibration has quantiles of 2 targets, but the interval model predicts others"},
		{"a head under another name", forest, replaceText(`"method": "quantile-forest"`, `"method": "sqr"`), "sqr"},
		{"trees and a half", forest, replaceText(`"targets": 2`, `"targets": 1.5`), "number of its parts"},
		{"group nobody has", groups, replaceText("\"plus\"\n", "\"plus\",\n      \"zero\"\n"), `line 97 of manifest.json is "      \"plus\",", but a fit writes "      \"plus\""`},
		{"groups that are not sorted", groups, replaceText("\"minus\",\n      \"plus\"", "\"plus\",\n      \"minus\""), "manifest.json"},
		{"group beyond the last", groups, editArray(codes, func(a rows.Array) { a.Data.([]int64)[0] = 2 }), "calibration row 0 has group 2 of 2"},
		{"group below 0", groups, editArray(codes, func(a rows.Array) { a.Data.([]int64)[0] = -1 }), "calibration row 0 has group -1 of 2"},
		{"one group less", groups, replaceArray(codes, make([]int64, 19), 19), "groups of 20 calibration rows"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := read(resealed(t, tt.file, tt.change))
			if !errors.Is(err, attach.ErrDamaged) && !errors.Is(err, attach.ErrUnknownMethod) {
				t.Fatalf("error is %v, want %v", err, attach.ErrDamaged)
			}
			if !strings.Contains(err.Error(), tt.message) || strings.ContainsAny(err.Error(), "\n\x1b") || len(err.Error()) > 400 {
				t.Errorf("error is %q, want one line that says %q", err, tt.message)
			}
		})
	}
}

// detectorOf returns the part of the manifest of a golden file that describes the detector.
func detectorOf(file string) string {
	b, err := os.ReadFile("testdata/" + file + ".attach")
	if err != nil {
		return ""
	}
	return regexp.MustCompile(`(?s)  "detector": \{\n.*?\n  \},\n`).FindString(string(b))
}

// TestResealedNumbers checks two edited numbers in the state of a detector. An enormous number
// of passes must be rejected, because it would need too much memory. A tiny temperature must
// not give NaN scores, and rows with infinite scores must be flagged.
func TestResealedNumbers(t *testing.T) {
	in := classifier(40)
	in.Last = sumLayer(3, 8)
	in.Detector = method("bald-features")
	passes := edit(t, mustWrite(t, mustFit(t, in)), true, "      \"passes\": 100,\n      \"score\": \"mutual-information\",\n      \"seed\"", "      \"passes\": 4294967295,\n      \"score\": \"mutual-information\",\n      \"seed\"")
	if _, err := read(passes); !errors.Is(err, attach.ErrDamaged) || !strings.Contains(err.Error(), `"passes" must be below 100001`) {
		t.Errorf("error is %v, want %v", err, attach.ErrDamaged)
	}
	in.Detector = method("energy")
	b, err := read(edit(t, mustWrite(t, mustFit(t, in)), true, "      \"temperature\": 1,\n      \"width of", "      \"temperature\": 5e-324,\n      \"width of"))
	if err != nil {
		t.Fatal(err)
	}
	p, err := predict(b, attach.Rows{Batch: in.Batch}, attach.PredictOptions{Alpha: .2})
	if err != nil {
		t.Fatal(err)
	}
	for i, row := range p {
		if math.IsNaN(row.Score) || math.IsInf(row.Score, 1) && !row.Flag {
			t.Errorf("row %d has the score %v, and flag %v", i, row.Score, row.Flag)
		}
	}
}
