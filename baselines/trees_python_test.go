package baselines_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"gonum.org/v1/gonum/blas/blas32"
	"gonum.org/v1/gonum/stat"

	"github.com/attach-uncertainty/attach/internal/fitting"
	"github.com/attach-uncertainty/attach/ood"
)

var splits = flag.Int("splits", 5, "random splits of each data set that trees are compared on")

var python = flag.String("python", "", "a Python with scikit-learn, and quantile-forest if it has it, to compare trees with")

var treeSets = []string{
	"concrete", "power-plant", "wine-quality-red", "yacht", "naval-propulsion-plant", "energy", "bostonHousing", "kin8nm",
}

// treeConfiguration is a configuration of a method that is fitted in Go and in Python.
type treeConfiguration struct {
	Name   string     `json:"name"`
	Method string     `json:"method"`
	Params ood.Params `json:"params"`
}

var treeConfigurations = []treeConfiguration{
	{"forest", "quantile-forest", ood.Params{"n_estimators": 100., "min_samples_leaf": 1.}},
	{"forest, leaf 5", "quantile-forest", ood.Params{"n_estimators": 100., "min_samples_leaf": 5.}},
	{"forest, depth 5", "quantile-forest", ood.Params{"n_estimators": 100., "max_depth": 5., "min_samples_split": 3.}},
	{"boosting", "gradient-boosting", ood.Params{"n_estimators": 100., "max_depth": 3., "min_samples_leaf": 9.}},
	{"boosting, depth 9", "gradient-boosting", ood.Params{"n_estimators": 100., "max_depth": 9., "min_samples_leaf": 9.}},
}

// treeProblem is one split of a data set into training and test rows.
type treeProblem struct {
	Set         string         `json:"set"`
	Seed        uint64         `json:"seed"`
	File        string         `json:"file"` // file of rows with inputs and target, as float32; training rows first
	Cols        int            `json:"cols"`
	Train       int            `json:"train"`
	Range       float64        `json:"range"` // range of the target on the whole data set
	all         blas32.General // the rows in File
	inputs, out blas32.General
}

type treeResult struct {
	Set                      string
	Seed                     uint64
	Configuration            string
	PICP, MPIW, Fit, Predict float64
}

// TestForestAgainstPython compares forests and boosted trees in Go and in Python. It fails
// if coverage or width differ too much. It prints the coverage and width of 95 % intervals,
// averaged over the splits of each data set, and the times of fits and predictions:
//
//	go test ./baselines -run ForestAgainstPython -python python3 -v
func TestForestAgainstPython(t *testing.T) {
	if *python == "" {
		t.Skip("pass -python PYTHON to compare with scikit-learn and quantile-forest")
	}
	problems := readTreeProblems(t, *splits)
	levels := []float64{0.025, 0.975}
	dir := t.TempDir()
	writeTreeProblems(t, dir, problems, levels)
	goResults := fitTrees(t, problems, levels)
	cmd := exec.Command(*python, "testdata/trees_peers.py", filepath.Join(dir, "problems.json"))
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var pythonResults []treeResult
	for decoder := json.NewDecoder(bytes.NewReader(out)); decoder.More(); {
		var r treeResult
		if err := decoder.Decode(&r); err != nil {
			t.Fatal(err)
		}
		pythonResults = append(pythonResults, r)
	}
	// The load of the machine varies, so measure the time in Go again after Python.
	for i, r := range fitTrees(t, problems, levels) {
		goResults[i].Fit, goResults[i].Predict = min(goResults[i].Fit, r.Fit), min(goResults[i].Predict, r.Predict)
	}
	for _, c := range treeConfigurations {
		t.Logf("%s: PICP (MPIW) here, in Python; times as fast in fit, in prediction", c.Name)
		var fit, predict []float64
		for _, set := range treeSets {
			a, b := summarise(goResults, set, c.Name), summarise(pythonResults, set, c.Name)
			fit, predict = append(fit, b.fit/a.fit), append(predict, b.predict/a.predict)
			t.Logf("  %-24s %s   %s   %6.1f %6.1f   (%.3f s, %.4f s)", set, a, b, b.fit/a.fit, b.predict/a.predict, a.fit, a.predict)
			for _, v := range []struct {
				name      string
				got, want [2]float64
				slack     float64
			}{{"PICP", a.picp, b.picp, 0.01}, {"MPIW", a.mpiw, b.mpiw, 0.02 * b.mpiw[0]}} {
				// Both sides use the same splits but different seeds for the trees, so
				// results differ a little.
				if !(math.Abs(v.got[0]-v.want[0]) <= v.slack+v.want[1]) {
					t.Errorf("%s on %s: %s %.3f, in Python %.3f", c.Name, set, v.name, v.got[0], v.want[0])
				}
			}
		}
		t.Logf("  geometric mean: %.1f times as fast in fit, %.1f in prediction", stat.GeometricMean(fit, nil), stat.GeometricMean(predict, nil))
	}
}

func writeTreeProblems(t *testing.T, dir string, problems []treeProblem, levels []float64) {
	job, err := json.Marshal(ood.Params{"problems": problems, "configurations": treeConfigurations, "levels": levels})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "problems.json"), job, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		var b bytes.Buffer
		if err := binary.Write(&b, binary.LittleEndian, p.all.Data); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, p.File), b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func fitTrees(t *testing.T, problems []treeProblem, levels []float64) []treeResult {
	var results []treeResult
	for _, p := range problems {
		for _, c := range treeConfigurations {
			m := method(c.Method)
			train := regression(sliceRows(p.inputs, 0, p.Train), sliceRows(p.out, 0, p.Train), levels...)
			train.Seed = p.Seed
			began := time.Now()
			model, err := fitting.Fit(background, m, train, c.Params)
			if err != nil {
				t.Fatal(err)
			}
			fitEnd := time.Now()
			q := model.Quantiles(sliceRows(p.inputs, p.Train, p.inputs.Rows), levels)
			done := time.Now()
			r := treeResult{Set: p.Set, Seed: p.Seed, Configuration: c.Name, Fit: fitEnd.Sub(began).Seconds(), Predict: done.Sub(fitEnd).Seconds()}
			for i := range q.Rows {
				lo, hi, y := float64(q.Row(i, 0)[0]), float64(q.Row(i, 0)[1]), float64(p.out.Data[p.Train+i])
				if lo < y && y < hi {
					r.PICP += 1 / float64(q.Rows)
				}
				r.MPIW += (hi - lo) / p.Range / float64(q.Rows)
			}
			results = append(results, r)
		}
	}
	return results
}

// treeSummary holds the mean and standard deviation, over splits, of the coverage and the
// width of intervals. It also holds mean times in seconds.
type treeSummary struct {
	picp, mpiw   [2]float64
	fit, predict float64
}

func (s treeSummary) String() string {
	return fmt.Sprintf("%.3f ± %.3f (%.3f ± %.3f)", s.picp[0], s.picp[1], s.mpiw[0], s.mpiw[1])
}

func summarise(results []treeResult, set, configuration string) treeSummary {
	var picp, mpiw, fit, predict []float64
	for _, r := range results {
		if r.Set == set && r.Configuration == configuration {
			picp, mpiw = append(picp, r.PICP), append(mpiw, r.MPIW)
			fit, predict = append(fit, r.Fit), append(predict, r.Predict)
		}
	}
	var s treeSummary
	s.picp[0], s.picp[1] = stat.MeanStdDev(picp, nil)
	s.mpiw[0], s.mpiw[1] = stat.MeanStdDev(mpiw, nil)
	s.fit, s.predict = stat.Mean(fit, nil), stat.Mean(predict, nil)
	return s
}

func sliceRows(m blas32.General, lo, hi int) blas32.General {
	return blas32.General{Rows: hi - lo, Cols: m.Cols, Stride: m.Stride, Data: m.Data[lo*m.Stride : (hi-1)*m.Stride+m.Cols]}
}

// readTreeProblems reads every data set and splits it at random into 90 % training rows and
// 10 % test rows, once for each seed.
func readTreeProblems(t *testing.T, seeds int) []treeProblem {
	data := os.Getenv("ATTACH_DATA")
	if data == "" {
		t.Skip("ATTACH_DATA names no folder of data sets")
	}
	var problems []treeProblem
	for _, set := range treeSets {
		b, err := os.ReadFile(filepath.Join(data, "uci", set+".txt"))
		if err != nil {
			t.Fatal(err)
		}
		var rows [][]float32
		for line := range strings.Lines(string(b)) {
			var row []float32
			for _, field := range strings.Fields(line) {
				v, err := strconv.ParseFloat(field, 32)
				if err != nil {
					t.Fatal(err)
				}
				row = append(row, float32(v))
			}
			if len(row) > 0 {
				rows = append(rows, row)
			}
		}
		for seed := range uint64(seeds) {
			rng := rand.New(rand.NewPCG(seed, 0))
			order := rng.Perm(len(rows))
			p := treeProblem{Set: set, Seed: seed, File: fmt.Sprintf("%s-%d.f32", set, seed), Cols: len(rows[0]) - 1, Train: len(rows) * 9 / 10}
			shuffled := make([][]float32, len(rows))
			var y []float32
			for i, k := range order {
				shuffled[i] = rows[k]
				y = append(y, rows[k][p.Cols])
			}
			p.Range = float64(slices.Max(y) - slices.Min(y))
			p.all = toMatrix(shuffled)
			p.inputs = p.all
			p.inputs.Cols = p.Cols
			p.out = blas32.General{Rows: len(y), Cols: 1, Stride: 1, Data: y}
			problems = append(problems, p)
		}
	}
	return problems
}
