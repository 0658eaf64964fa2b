package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/attach-uncertainty/attach/ood"
)

// detectionKey is what a line of results was measured with.
type detectionKey struct {
	Network string `json:"network"`
	SHA256  string `json:"sha256"` // of the network's file, its first digits
	Out     string `json:"out"`
	Method  string `json:"method"`
	Config  string `json:"config"` // as ood.Params writes it
	Seed    uint64 `json:"seed"`
	// Rows are the most rows asked for, to fit with, in- and out-of-domain; 0
	// is all.
	Rows [3]int `json:"rows"`
}

func (k detectionKey) key() detectionKey { return k }

// detectionRecord is one line of results.
type detectionRecord struct {
	detectionKey
	Fit int `json:"n_fit"`
	In  int `json:"n_in"`
	N   int `json:"n_out"`
	ood.Metrics
	Error   float64 `json:"in_error"` // of the network on the in-domain rows
	Variant string  `json:"variant,omitempty"`
	Failed  string  `json:"failed,omitempty"`
	// FitSeconds and ScoreMicroseconds are shared among configurations that
	// were fitted at once.
	FitSeconds        float64 `json:"fit_seconds"`
	ScoreMicroseconds float64 `json:"score_us"`
}

// runsNetwork says whether a method runs the network on every row.
func runsNetwork(m ood.Method) bool { return m.Needs&(ood.NeedNetwork|ood.NeedDropout) != 0 }

// configsOf are the configurations of a method to measure.
func (p detectionPlan) configsOf(m ood.Method) []ood.Params {
	if p.full && len(m.Grid) > 0 {
		return m.Grid
	}
	return []ood.Params{m.Default}
}

// rowsOf are the limits that a method is measured with.
func (p detectionPlan) rowsOf(m ood.Method) [3]int {
	rows := p.rows
	if runsNetwork(m) && p.networkRows > 0 {
		for i := 1; i < 3; i++ {
			if rows[i] == 0 || rows[i] > p.networkRows {
				rows[i] = p.networkRows
			}
		}
	}
	return rows
}

// detectionJob is configurations of a method on a network.
type detectionJob struct {
	network measuredNetwork
	method  ood.Method
	configs []ood.Params // those without results
	rows    [3]int
	seed    uint64
	limit   time.Duration // 0: none
}

func (j detectionJob) keyOf(out string, config ood.Params) detectionKey {
	return detectionKey{
		Network: j.network.name, SHA256: j.network.sha256, Out: out, Method: j.method.Name, Config: config.String(), Seed: j.seed, Rows: j.rows,
	}
}

// job lists what has no results yet.
func (p detectionPlan) job(n measuredNetwork, m ood.Method, results *store[detectionKey, detectionRecord]) detectionJob {
	j := detectionJob{network: n, method: m, rows: p.rowsOf(m), seed: p.seed, limit: p.limit}
	for _, config := range p.configsOf(m) {
		for _, out := range n.outs() {
			if !results.has(j.keyOf(out, config)) {
				j.configs = append(j.configs, config)
				break
			}
		}
	}
	return j
}

// cost is in proportion to the time that the method needs.
func (j detectionJob) cost() float64 { return float64(len(j.configs)) * j.network.megabytes }

// run fits and measures. What a method cannot do is a result too.
func (j detectionJob) run(ctx context.Context, im *images, progress func(share float64)) ([]detectionRecord, error) {
	c := ood.Comparison{Training: im.training, In: im.in, Sweep: true, Progress: func(_ string, share float64) { progress(share) }}
	m := j.method
	m.Grid = j.configs
	c.Methods = []ood.Method{m}
	outs := im.outs
	if runsNetwork(m) {
		c.In, outs = im.fewIn, im.fewOuts
	}
	if m.Needs&ood.NeedOutliers == 0 {
		return j.measure(ctx, c, outs)
	}
	var records []detectionRecord
	for i := range outs {
		// An oracle is told of one set alone, as in the paper.
		some, err := j.measure(ctx, c, outs[i:i+1])
		if err != nil {
			return nil, err
		}
		records = append(records, some...)
	}
	return records, nil
}

func (j detectionJob) measure(ctx context.Context, c ood.Comparison, outs []ood.OutSet) ([]detectionRecord, error) {
	c.OutSets = outs
	limited, stop := ctx, context.CancelFunc(func() {})
	if j.limit > 0 {
		limited, stop = context.WithTimeout(ctx, j.limit)
	}
	defer stop()
	records := map[detectionKey]detectionRecord{}
	fill := func(config ood.Params, with func(set int, r *detectionRecord)) {
		for i, out := range outs {
			r := detectionRecord{detectionKey: j.keyOf(out.Name, config), Fit: c.Training.Len(), In: c.In.Len(), N: out.Len()}
			with(i, &r)
			records[r.detectionKey] = r
		}
	}
	report, err := ood.Compare(limited, c)
	switch {
	case err != nil && ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded):
		for _, config := range j.configs {
			fill(config, func(_ int, r *detectionRecord) { r.Failed = fmt.Sprintf("not done within %v", j.limit) })
		}
	case err != nil:
		return nil, err
	case len(report.Skipped) > 0:
		for _, config := range j.configs {
			fill(config, func(_ int, r *detectionRecord) { r.Failed = report.Skipped[0].Reason })
		}
	default:
		m := report.Methods[0]
		for _, f := range m.Failed {
			fill(f.Params, func(_ int, r *detectionRecord) { r.Failed = f.Error })
		}
		for _, config := range m.Configs {
			fill(config.Params, func(set int, r *detectionRecord) {
				r.Metrics, r.Variant = config.Sets[set].Metrics, m.Variant
				r.FitSeconds = math.Round(1e3*m.FitSeconds/float64(len(m.Configs))) / 1e3
				r.ScoreMicroseconds = math.Round(1e3*m.ScoreMicroseconds) / 1e3
				if report.InError != nil {
					r.Error = *report.InError
				}
			})
		}
	}
	var ordered []detectionRecord
	for _, config := range j.configs {
		for _, out := range outs {
			ordered = append(ordered, records[j.keyOf(out.Name, config)])
		}
	}
	return ordered, nil
}
