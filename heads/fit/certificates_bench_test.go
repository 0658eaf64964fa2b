package fit

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas32"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/blas/gonum"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/internal/data/npy"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/fitting"
	"github.com/attach-uncertainty/attach/internal/onnx/ort/orttest"
	"github.com/attach-uncertainty/attach/ood"
)

// TestExactCertificatesAgainstTorch compares exact certificates with ten epochs of Adam in
// PyTorch on the same rows. It prints the time and the penalised loss of both. It fails if
// the loss of PyTorch is lower:
//
//	go test ./heads/fit -run ExactCertificatesAgainstTorch -torch python3 -v
func TestExactCertificatesAgainstTorch(t *testing.T) {
	if *torch == "" {
		t.Skip("pass -torch PYTHON to compare with PyTorch")
	}
	const n, h, k, lambda = 50_000, 512, 100, 10
	phi := benchFeatures(n, h)
	path := filepath.Join(t.TempDir(), "features.npy")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := npy.Write(f, rows.ArrayOf(phi)); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(*torch, "testdata/bench_certificates.py", path, fmt.Sprint(k), fmt.Sprint(lambda)).Output()
	if err != nil {
		t.Fatal(err)
	}
	version, row, _ := strings.Cut(string(out), "\n")
	var torchTime, torchLoss float64
	var threads int
	if _, err := fmt.Sscan(row, &torchTime, &torchLoss, &threads); err != nil {
		t.Fatal(err)
	}
	t.Log(version)

	// Measure the fit with matrix products in ONNX Runtime, then with those of gonum.
	runtime := orttest.Open(t).BLAS()
	defer func() {
		blas32.Use(gonum.Implementation{})
		blas64.Use(gonum.Implementation{})
	}()
	for _, b := range []struct {
		name string
		impl interface {
			blas.Float32
			blas.Float64
		}
	}{{"products in the runtime", runtime}, {"products in gonum", gonum.Implementation{}}} {
		blas32.Use(b.impl)
		blas64.Use(b.impl)
		exact, _ := attach.MethodByName("certificates")
		began := time.Now()
		c, err := fitting.Fit(context.Background(), exact, ood.Training{Batch: ood.Batch{Features: phi}}, ood.Params{"k": float64(k), "lambda": lambda, "unit_norm": false})
		if err != nil {
			t.Fatal(err)
		}
		exactTime := time.Since(began).Seconds()
		weight := c.State().Arrays["certificates"]
		loss := penalised(phi, blas32.General{Rows: h, Cols: k, Stride: k, Data: weight.Data.([]float32)}, lambda)
		t.Logf("exact, %s: %.2f s, loss %.6g; PyTorch, %d threads: %.2f s, loss %.6g: %.1f times as fast", b.name, exactTime, loss, threads, torchTime, torchLoss, torchTime/exactTime)
		if loss > torchLoss {
			t.Errorf("the exact loss %v is above PyTorch's %v", loss, torchLoss)
		}
	}
}

// benchFeatures returns n rows of h columns that resemble features of a network: rectified
// mixtures of 64 factors, with noise.
func benchFeatures(n, h int) blas32.General {
	const factors = 64
	z, w, phi := normal(1, n, factors), normal(2, factors, h), normal(3, n, h)
	blas32.Gemm(blas.NoTrans, blas.NoTrans, 1./8, z, w, .3, phi)
	for i, v := range phi.Data {
		phi.Data[i] = max(v, 0)
	}
	return phi
}

// penalised returns the penalised loss mean((Cᵀφ)²) + λ·mean((CᵀC−I)²) of certificates C,
// an h×k matrix, on the rows φ.
func penalised(phi, c blas32.General, lambda float64) float64 {
	z := blas32.General{Rows: phi.Rows, Cols: c.Cols, Stride: c.Cols, Data: make([]float32, phi.Rows*c.Cols)}
	blas32.Gemm(blas.NoTrans, blas.NoTrans, 1, phi, c, 0, z)
	gram := blas32.General{Rows: c.Cols, Cols: c.Cols, Stride: c.Cols, Data: make([]float32, c.Cols*c.Cols)}
	blas32.Gemm(blas.Trans, blas.NoTrans, 1, c, c, 0, gram)
	var loss, penalty float64
	for _, v := range z.Data {
		loss += float64(v) * float64(v)
	}
	for i, v := range gram.Data {
		d := float64(v)
		if i%(c.Cols+1) == 0 {
			d--
		}
		penalty += d * d
	}
	return loss/float64(len(z.Data)) + lambda*penalty/float64(len(gram.Data))
}
