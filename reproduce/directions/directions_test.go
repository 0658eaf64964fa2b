package directions

import (
	"encoding/json"
	"io"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/internal/data/inputs"
	"github.com/attach-uncertainty/attach/internal/data/npy"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/fitting"
	"github.com/attach-uncertainty/attach/internal/numeric/moments"
	"github.com/attach-uncertainty/attach/ood"
	"github.com/attach-uncertainty/attach/reproduce/experiment"
	"github.com/attach-uncertainty/attach/reproduce/experiment/experimenttest"
)

// TestDirections compares the predicted rise of the expected score with the measured rise
// for shifted rows.
func TestDirections(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 0))
	phi := blas32.General{Rows: 500, Cols: 6, Stride: 6, Data: make([]float32, 500*6)}
	for i := range phi.Data {
		phi.Data[i] = float32(.7 + rng.NormFloat64())
	}
	for i := range phi.Rows {
		phi.Data[i*phi.Stride+2] *= .2
	}
	method, _ := attach.MethodByName("certificates")
	for _, centre := range []bool{false, true} {
		m := &moments.Moments{}
		if err := m.Add(t.Context(), phi); err != nil {
			t.Fatal(err)
		}
		fitted, err := fitting.Fit(t.Context(), method, ood.Training{Batch: ood.Batch{Features: phi}}, ood.Params{"k": 4., "centred": centre, "unit_norm": false})
		if err != nil {
			t.Fatal(err)
		}
		directions, err := principalDirections(certificatesOf(fitted), m)
		if err != nil {
			t.Fatal(err)
		}
		mean := func(x blas32.General) float64 {
			v, err := fitted.Score(t.Context(), nil, ood.Batch{Features: x})
			if err != nil {
				t.Fatal(err)
			}
			var s float64
			for _, x := range v {
				s += x / float64(len(v))
			}
			return s
		}
		before, blind := mean(phi), 0
		for i, d := range directions {
			if i > 0 && d.Variance > directions[i-1].Variance {
				t.Errorf("direction %d has more variance than the one before", i)
			}
			for _, length := range []float64{2, -1.5} {
				shifted := blas32.General{Rows: phi.Rows, Cols: phi.Cols, Stride: phi.Cols, Data: make([]float32, len(phi.Data))}
				for r := range phi.Rows {
					for j := range phi.Cols {
						shifted.Data[r*shifted.Stride+j] = phi.Data[r*phi.Stride+j] + float32(length*d.Vector[j])
					}
				}
				if got, want := rise(d, length), mean(shifted)-before; math.Abs(got-want) > 1e-5 {
					t.Errorf("centred %v, direction %d: a shift of %v raises the score by %v, not %v", centre, i, length, want, got)
				}
			}
			if d.Seen == 0 {
				blind++
				if !math.IsInf(d.Shift(.1), 1) {
					t.Errorf("direction %d is not seen, and a shift of %v is", i, d.Shift(.1))
				}
			} else if s := d.Shift(.1); math.Abs(max(rise(d, s), rise(d, -s))-.1) > 1e-9 {
				t.Errorf("direction %d: a shift of %v raises the score by %v", i, s, max(rise(d, s), rise(d, -s)))
			}
		}
		// Centred certificates are principal directions, so each direction is either seen
		// fully or not at all.
		if centre && blind != 2 || !centre && blind != 0 {
			t.Errorf("centred %v: %d directions are not seen", centre, blind)
		}
	}
}

// rise returns the increase of the expected score when the features of all rows shift along
// a direction by a signed length.
func rise(d direction, shift float64) float64 { return shift*d.Slope + shift*shift*d.Seen }

// TestCommand fits certificates to random features and checks the output of the command.
func TestCommand(t *testing.T) {
	dir := t.TempDir()
	rng := rand.New(rand.NewPCG(1, 0))
	features := func(name string, cols int) string {
		m := blas32.General{Rows: 200, Cols: cols, Stride: cols, Data: make([]float32, 200*cols)}
		for i := range m.Data {
			m.Data[i] = float32(rng.NormFloat64())
		}
		path := filepath.Join(dir, name+".npz")
		err := experiment.WriteFile(path, func(w io.Writer) error {
			return npy.WriteNPZ(w, map[string]rows.Array{"features": rows.ArrayOf(m)}, false)
		})
		if err != nil {
			t.Fatal(err)
		}
		return path
	}
	x, tooWide := features("x", 6), features("wide", 7)
	rows, err := inputs.OpenFeatures(x)
	if err != nil {
		t.Fatal(err)
	}
	calibration := rows // calibration rows must differ because Fit rejects rows used for fitting
	calibration.Features.Data = slices.Clone(rows.Features.Data)
	for i := range calibration.Features.Data {
		calibration.Features.Data[i] *= 1.001
	}
	fit := func(method ood.Method, params ood.Params) string {
		b, err := attach.Fit(t.Context(), attach.FitOptions{
			Base: attach.Base{Task: attach.Classification}, Batch: rows, Cal: calibration, Detector: method, DetectorParams: params,
		})
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, method.Name+".attach")
		if err := b.Save(t.Context(), path); err != nil {
			t.Fatal(err)
		}
		return path
	}
	knnMethod, _ := attach.MethodByName("knn")
	certificatesMethod, _ := attach.MethodByName("certificates")
	certificates, knn := fit(certificatesMethod, ood.Params{"unit_norm": false}), fit(knnMethod, nil)
	run := func(args ...string) (int, string, string) { return experimenttest.Run(t, Experiment, args...) }
	vectors := filepath.Join(dir, "v.npz")
	code, stdout, stderr := run("--attach", certificates, "--x", x, "--top", "5", "-o", vectors)
	for _, want := range []string{" certificates of 6 features; 200 rows\n", "; flagged above ", "\n1 more directions vary less; --top 0 prints them all\n"} {
		if code != 0 || stderr != "" || !strings.Contains(stdout, want) {
			t.Fatalf("exit %d, %q, prints no %q:\n%s", code, stderr, want, stdout)
		}
	}
	z, err := npy.OpenNPZ(vectors)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"vectors", "variance", "seen", "slope", "shift"} {
		if !z.Has(name) {
			t.Errorf("%s lacks %s", vectors, name)
		}
	}
	if code, stdout, _ := run("--attach", certificates, "--x", x, "--alpha", ".001"); code != 0 || !strings.Contains(stdout, "no shift is flagged, because there are too few calibration rows (200)") {
		t.Errorf("exit %d:\n%s", code, stdout)
	}
	var printed report
	if code, stdout, _ := run("--attach", certificates, "--x", x, "--json"); code != 0 || json.Unmarshal([]byte(stdout), &printed) != nil || len(printed.Directions) != 6 || printed.N != 200 {
		t.Errorf("exit %d:\n%s", code, stdout)
	}
	for want, args := range map[string][]string{
		"wide.npz: the rows have 7 features, but the fit used 6":  {"--attach", certificates, "--x", tooWide},
		"knn.attach: directions are those of linear certificates": {"--attach", knn, "--x", x},
	} {
		if code, _, stderr := run(args...); code != 1 || !strings.Contains(stderr, want) {
			t.Errorf("%q: exit %d, %q", want, code, stderr)
		}
	}
	experimenttest.Refused(t, Experiment, map[string][]string{
		"say with --attach":         {"--x", x},
		"--top is -1":               {"--attach", certificates, "--x", x, "--top", "-1"},
		"--alpha is 1":              {"--attach", certificates, "--x", x, "--alpha", "1"},
		"-o is \"d.csv\"":           {"--attach", certificates, "--x", x, "-o", "d.csv"},
		"and not be what --x reads": {"--attach", certificates, "--x", x, "-o", x},
	})
}
