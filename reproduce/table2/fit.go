package table2

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/attach-uncertainty/attach/internal/fitting"
	"github.com/attach-uncertainty/attach/ood"
	"github.com/attach-uncertainty/attach/ood/compare"
	"github.com/attach-uncertainty/attach/reproduce/networks"
)

// key identifies a result by everything that its measurement depends on.
type key struct {
	Network string `json:"network"`
	SHA256  string `json:"sha256"` // first 12 hex digits of the network's SHA-256
	Out     string `json:"out"`
	Method  string `json:"method"`
	Config  string `json:"config"` // text of ood.Params
	Seed    uint64 `json:"seed"`
	// Rows are the limits of fit, in-distribution and OOD rows; 0 means all.
	Rows [3]int `json:"rows"`
}

func (k key) Key() key { return k }

// record is one line of the results file.
type record struct {
	key
	Fit int `json:"n_fit"`
	In  int `json:"n_in"`
	N   int `json:"n_out"`
	compare.Metrics
	Error   float64 `json:"in_error"` // error rate of the network on in-distribution rows
	Variant string  `json:"variant,omitempty"`
	Failed  string  `json:"failed,omitempty"`
	// FitSeconds is the time to fit all configurations of the method together, divided by
	// their number. ScoreMicroseconds is the mean time to score one row with one
	// configuration.
	FitSeconds        float64 `json:"fit_seconds"`
	ScoreMicroseconds float64 `json:"score_us"`
}

// configsOf returns the configurations of a method to measure.
func (s *settings) configsOf(m ood.Method) []ood.Params {
	var configs []ood.Params
	switch s.grid {
	case "full":
		configs = fitting.Grid(m)
	case "paper":
		seen := map[string]bool{}
		for _, r := range paperRows() {
			if r.method != m.Name {
				continue
			}
			for _, config := range r.configs(m) {
				if !seen[config.String()] {
					seen[config.String()] = true
					configs = append(configs, config)
				}
			}
		}
	}
	if len(configs) == 0 {
		return []ood.Params{fitting.Default(m)}
	}
	return configs
}

// configs returns the configurations of a row of the paper's table. Duplicates are possible,
// because the paper's grid has some.
func (r paperRow) configs(m ood.Method) []ood.Params {
	switch {
	case r.grid != nil:
		return r.grid
	case len(fitting.Grid(m)) > 0:
		return fitting.Grid(m)
	}
	return []ood.Params{fitting.Default(m)}
}

// rowsOf returns the row limits for a method.
func (s *settings) rowsOf(m ood.Method) [3]int {
	rows := s.Rows
	if networks.RunsNetwork(m) && s.NetworkRows > 0 {
		for i := 1; i < 3; i++ {
			if rows[i] == 0 || rows[i] > s.NetworkRows {
				rows[i] = s.NetworkRows
			}
		}
	}
	return rows
}

// fitJob measures configurations of one method on one network.
type fitJob struct {
	network networks.Measured
	method  ood.Method
	configs []ood.Params // configurations without results
	rows    [3]int
	seed    uint64
	limit   time.Duration // time limit of the job; 0 means no limit
}

func (f fitJob) keyOf(out string, config ood.Params) key {
	return key{
		Network: f.network.Name, SHA256: f.network.SHA256, Out: out, Method: f.method.Name, Config: config.String(), Seed: f.seed, Rows: f.rows,
	}
}

// newFitJob returns a job for the configurations without results.
func (s *settings) newFitJob(n networks.Measured, m ood.Method, results *store) fitJob {
	f := fitJob{network: n, method: m, rows: s.rowsOf(m), seed: s.Seed, limit: s.limit}
	for _, config := range s.configsOf(m) {
		for _, out := range n.Outs() {
			if !results.Has(f.keyOf(out, config)) {
				f.configs = append(f.configs, config)
				break
			}
		}
	}
	return f
}

// run fits and measures the configurations. A failure of the method becomes a result with
// Failed set.
func (f fitJob) run(ctx context.Context, im *networks.Images, progress func(fraction float64)) ([]record, error) {
	c := compare.Options{Training: im.Training, Test: im.In, Sweep: true, Progress: func(_ string, fraction float64) { progress(fraction) }}
	m := f.method
	m.Sweep = f.configs
	c.Methods = []ood.Method{m}
	outs := im.Outs
	if networks.RunsNetwork(m) {
		c.Test, outs = im.FewIn, im.FewOuts
	}
	if !m.Needs.Outliers {
		return f.measure(ctx, c, outs)
	}
	var records []record
	for i := range outs {
		// Fit a method that needs outliers, such as the oracle, with one OOD set at a time,
		// as in the paper.
		batch, err := f.measure(ctx, c, outs[i:i+1])
		if err != nil {
			return nil, err
		}
		records = append(records, batch...)
	}
	return records, nil
}

func (f fitJob) measure(ctx context.Context, c compare.Options, outs []compare.OODSet) ([]record, error) {
	c.OODSets = outs
	limitedCtx, stop := ctx, context.CancelFunc(func() {})
	if f.limit > 0 {
		limitedCtx, stop = context.WithTimeout(ctx, f.limit)
	}
	defer stop()
	records := map[key]record{}
	addRecords := func(config ood.Params, update func(set int, r *record)) {
		for i, out := range outs {
			r := record{key: f.keyOf(out.Name, config), Fit: c.Training.Len(), In: c.Test.Len(), N: out.Len()}
			update(i, &r)
			records[r.key] = r
		}
	}
	report, err := compare.Run(limitedCtx, c)
	switch {
	case err != nil && ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded):
		for _, config := range f.configs {
			addRecords(config, func(_ int, r *record) { r.Failed = fmt.Sprintf("not done within %v", f.limit) })
		}
	case err != nil:
		return nil, err
	case len(report.Skipped) > 0:
		for _, config := range f.configs {
			addRecords(config, func(_ int, r *record) { r.Failed = report.Skipped[0].Reason })
		}
	default:
		m := report.Methods[0]
		for _, failed := range m.Failed {
			addRecords(failed.Params, func(_ int, r *record) { r.Failed = failed.Error })
		}
		for _, config := range m.Configs {
			addRecords(config.Params, func(set int, r *record) {
				r.Metrics, r.Variant = config.Sets[set].Metrics, m.Variant
				r.FitSeconds = math.Round(1e3*m.FitSeconds/float64(len(m.Configs))) / 1e3
				r.ScoreMicroseconds = math.Round(1e3*m.ScoreMicroseconds) / 1e3
				if report.ErrorRate != nil {
					r.Error = *report.ErrorRate
				}
			})
		}
	}
	var ordered []record
	for _, config := range f.configs {
		for _, out := range outs {
			ordered = append(ordered, records[f.keyOf(out.Name, config)])
		}
	}
	return ordered, nil
}
