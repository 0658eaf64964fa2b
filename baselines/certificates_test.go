package baselines_test

import (
	"context"
	"reflect"
	"slices"
	"sync"
	"testing"

	"github.com/attach-uncertainty/attach/baselines"
	"github.com/attach-uncertainty/attach/heads"
	"github.com/attach-uncertainty/attach/heads/train"
	"github.com/attach-uncertainty/attach/ood"
)

// recorder is a trainer that keeps what it is asked.
type recorder struct {
	mu       sync.Mutex
	problems []train.Problem
}

func (r *recorder) Train(ctx context.Context, p train.Problem) ([]train.Network, error) {
	r.mu.Lock()
	r.problems = append(r.problems, p)
	r.mu.Unlock()
	return plainTrainer{}.Train(ctx, p)
}

func TestTrainedCertificatesAskTheTrainer(t *testing.T) {
	type model struct {
		lambda float64
		seed   uint64
	}
	for _, c := range []struct {
		name    string
		method  ood.Method
		params  ood.Params
		loss    train.Loss
		outputs int
		epochs  int
		levels  []float64
		model   model
	}{
		{"default", baselines.CertificatesTrained, nil, train.BCE, 9, 10, nil, model{10, 5}},
		{"squared", baselines.CertificatesTrained, ood.Params{"loss": "mse", "lambda": 1., "k": 4., "epochs": 3.}, train.MSE, 4, 3, nil, model{1, 5}},
		{"pinball", baselines.CertificatesTrained, ood.Params{"loss": "pinball", "k": 2.}, train.Pinball, 2, 10, []float64{.5, .5}, model{10, 5}},
		{"share", baselines.CertificatesTrained, ood.Params{"loss": "l1", "k": .25}, train.L1, 3, 10, nil, model{10, 5}},
		{"unregularised", baselines.CertificatesUnregularised, ood.Params{"loss": "mse"}, train.MSE, 9, 10, nil, model{0, 5}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var r recorder
			training := newToy().training(30)
			training.Trainer = &r
			if _, err := ood.Fit(background, c.method, training, c.params); err != nil {
				t.Fatal(err)
			}
			if len(r.problems) != 1 || len(r.problems[0].Models) != 1 {
				t.Fatalf("problems %+v", r.problems)
			}
			p := r.problems[0]
			if p.Loss != c.loss || p.Outputs != c.outputs || p.Epochs != c.epochs || !slices.Equal(p.Levels, c.levels) ||
				!p.NoBias || len(p.Hidden) != 0 || p.BatchSize != 64 {
				t.Errorf("problem %+v", p)
			}
			if m := p.Models[0]; (model{m.Orthonormal, m.Seed}) != c.model || m.LearningRate != 1e-3 {
				t.Errorf("model %+v", m)
			}
		})
	}
}

func TestTrainedCertificatesShareRuns(t *testing.T) {
	var r recorder
	training := newToy().training(30)
	training.Trainer = &r
	var shares []float64
	training.Progress = func(share float64) { shares = append(shares, share) }
	scorers, err := ood.FitGrid(background, baselines.CertificatesTrained, training, baselines.CertificatesTrained.Grid())
	if err != nil {
		t.Fatal(err)
	}
	if len(scorers) != 8 || len(r.problems) != 4 {
		t.Errorf("%d scorers of %d runs, want 8 of 4", len(scorers), len(r.problems))
	}
	for _, p := range r.problems {
		if len(p.Models) != 2 || p.Models[0].Orthonormal != 1 || p.Models[1].Orthonormal != 10 {
			t.Errorf("%s: models %+v", p.Loss, p.Models)
		}
	}
	if !slices.IsSorted(shares) || shares[len(shares)-1] != 1 || !slices.Contains(shares, .125) {
		t.Errorf("progress %v", shares)
	}
}

// The score of a certificate is that of the head it wraps.
func TestCertificatesAreTheHead(t *testing.T) {
	data := newToy()
	training, out := data.training(60), data.out(20)
	for _, c := range []struct {
		params  ood.Params
		options heads.CertificatesOptions
	}{
		{nil, heads.DefaultCertificates()},
		{ood.Params{"k": 3., "lambda": 2., "unit_norm": false, "centred": true}, heads.CertificatesOptions{K: 3, Lambda: 2, Centre: true}},
	} {
		s, err := ood.Fit(background, baselines.Certificates, training, c.params)
		if err != nil {
			t.Fatal(err)
		}
		head, err := heads.FitCertificates(background, training.Features, nil, c.options)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(score(t, s, out), head.Score(nil, out.Features)) {
			t.Errorf("%v: scores differ from the head's", c.params)
		}
		if linear, ok := s.Fitted().(interface{ Linear() *heads.Certificates }); !ok || !reflect.DeepEqual(linear.Linear(), head) {
			t.Errorf("%v: certificates differ from the head's", c.params)
		}
	}
}
