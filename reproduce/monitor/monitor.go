// Package monitor measures how often calibrate.Monitor raises false alarms without drift,
// and how soon it detects drift. It compares the monitor with the martingales of the Python
// package nonconform.
package monitor

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"

	"github.com/attach-uncertainty/attach/calibrate"
	"github.com/attach-uncertainty/attach/reproduce/audits"
	"github.com/attach-uncertainty/attach/reproduce/experiment"
	"github.com/attach-uncertainty/attach/reproduce/networks"
)

// Experiment is the monitor command.
var Experiment = experiment.Experiment{
	Name:         "monitor",
	Doc:          "false alarms of a monitor of drift, and how soon it notices it, beside other martingales",
	Shared:       []string{"data", "models", "sets", "seeds", "parallel", "out", "ort-lib"},
	OptionalData: true,
	New: func(flags *flag.FlagSet, s *experiment.Settings) func(ctx context.Context) error {
		experiment.Redefine(flags, "seeds", "1000", "number of streams; of drift a tenth")
		p := &networks.Plan{Settings: s, NetworkRows: 1}
		p.DefineWithTexts(flags, "4000,0,0")
		steps := flags.Int("steps", 1000000, "rows of a stream in which nothing changes")
		parts := flags.String("parts", "", "only these `parts`, a,b, of alarms, drift and networks")
		return func(ctx context.Context) error {
			var names []string
			if *parts != "" {
				names = strings.Split(*parts, ",")
			}
			chosen, err := experiment.Choose("--parts", "part", names, []string{"alarms", "drift", "networks"}, func(s string) string { return s })
			if err != nil {
				return err
			}
			for _, part := range chosen {
				switch part {
				case "alarms":
					err = falseAlarms(ctx, s, *steps)
				case "drift":
					err = normalDrifts(ctx, s)
				case "networks":
					err = networkDrifts(ctx, p)
				}
				if err != nil {
					return err
				}
			}
			return nil
		}
	},
}

// deltas returns the bounds on the probability of a false alarm.
func deltas() []float64 { return []float64{.1, .05, .01} }

// delta is the bound in the drift experiments.
const delta = .01

// watcher wraps calibrate.Monitor or a martingale of nonconform.
type watcher struct {
	name  string
	add   func(score float64)
	alarm func(delta float64) bool
}

func newMonitor(calibration []float64, seed uint64) (watcher, error) {
	m, err := calibrate.NewMonitor(calibration, seed)
	if err != nil {
		return watcher{}, err
	}
	add := func(score float64) {
		if err := m.Add(score); err != nil {
			panic(err) // NewMonitor made m, so Add cannot fail
		}
	}
	return watcher{"calibrate.Monitor", add, m.Alarm}, nil
}

// newWatchers returns calibrate.Monitor, and each of nonconform's martingales without and
// with restarts. The martingales bet on p-values from sequential ranks, as nonconform
// intends.
func newWatchers(calibration []float64, seed uint64) ([]watcher, error) {
	m, err := newMonitor(calibration, seed)
	if err != nil {
		return nil, err
	}
	watchers := []watcher{m}
	ranks := newSequentialRanks(calibration, rand.New(rand.NewPCG(seed, 2)).Float64)
	var p float64
	for i, m := range martingales() {
		watchers = append(watchers, watcher{m.name, func(score float64) {
			if i == 0 {
				p = ranks.pValue(score)
			}
			m.add(p)
		}, m.alarm}, watcher{m.name + ", restarted", func(float64) {}, m.alarmRestarted})
	}
	return watchers, nil
}

// drift collects results for streams that change after rowsBefore rows.
type drift struct {
	set           string
	n, rowsBefore int
	fraction      float64 // fraction of drifted rows after the change
	kind          string
	rows          int                  // maximum number of rows watched after the change
	delays        map[string][]float64 // delay in rows of each alarm after the change, by watcher
	order         []string             // names of the watchers
	earlyAlarms   map[string]int       // number of alarms before the change, by watcher
	streams       int                  // number of streams
}

// measure watches one stream. next returns the score of row t, and false at the end of the
// stream.
func (d *drift) measure(calibration []float64, seed uint64, next func(t int) (float64, bool)) error {
	watchers, err := newWatchers(calibration, seed)
	if err != nil {
		return err
	}
	if d.delays == nil {
		d.delays, d.earlyAlarms = map[string][]float64{}, map[string]int{}
		for _, w := range watchers {
			d.order = append(d.order, w.name)
		}
	}
	d.streams++
	noticed := map[string]bool{}
	for t := 0; len(noticed) < len(watchers) && t < d.rowsBefore+d.rows; t++ {
		score, ok := next(t)
		if !ok {
			break
		}
		for _, w := range watchers {
			w.add(score)
			if !noticed[w.name] && w.alarm(delta) {
				noticed[w.name] = true
				if t < d.rowsBefore {
					d.earlyAlarms[w.name]++
					continue
				}
				d.delays[w.name] = append(d.delays[w.name], float64(t+1-d.rowsBefore))
			}
		}
	}
	return nil
}

// median returns the median delay in rows, over the streams without an early alarm. It is
// infinite unless more than half of these streams raise an alarm.
func (d *drift) median(name string) float64 {
	delays := slices.Sorted(slices.Values(d.delays[name]))
	if middle := (d.streams - d.earlyAlarms[name]) / 2; middle < len(delays) {
		return delays[middle]
	}
	return math.Inf(1)
}

func printDrifts(w io.Writer, cells []*drift) (lines [][]string) {
	lines = [][]string{{"set", "n_cal", "before", "elsewhere", "share", "streams", "monitor", "noticed", "median_rows", "alarms_before"}}
	for _, d := range cells {
		fmt.Fprintf(w, "%s, n_cal %d, %s %g after %d rows: median of rows until noticed (of %d streams)\n ", d.set, d.n, d.kind, d.fraction, d.rowsBefore, d.streams)
		for _, name := range d.order {
			median := d.median(name)
			fmt.Fprintf(w, " %s %g (%d)", name, median, len(d.delays[name]))
			if d.earlyAlarms[name] > 0 {
				fmt.Fprintf(w, " (%d before)", d.earlyAlarms[name])
			}
			lines = append(lines, experiment.Cells(6, d.set, d.n, d.rowsBefore, d.kind, d.fraction, d.streams, name, len(d.delays[name]), experiment.Known(median), d.earlyAlarms[name]))
		}
		fmt.Fprintln(w)
	}
	return lines
}

// normalDrifts measures drift of normally distributed scores.
func normalDrifts(ctx context.Context, s *experiment.Settings) error {
	var cells []*drift
	var jobs []experiment.Job
	for _, n := range []int{200, 1000, 10000} {
		for _, kind := range []struct{ fraction, mean float64 }{{.01, 3}, {.05, 3}, {.2, 3}, {1, .25}} {
			for _, before := range []int{0, 5000} {
				d := &drift{set: "normal", n: n, rowsBefore: before, fraction: kind.fraction, kind: fmt.Sprintf("%g sd higher", kind.mean), rows: 10000}
				cells = append(cells, d)
				jobs = append(jobs, experiment.Job{
					Kind: "drift", Cost: 1, What: fmt.Sprintf("n_cal %d, %s", n, d.kind),
					Run: func(ctx context.Context, progress func(fraction float64)) error {
						streams := max(1, s.Seeds/10)
						for seed := range streams {
							if err := ctx.Err(); err != nil {
								return err
							}
							progress(float64(seed) / float64(streams))
							rng := rand.New(rand.NewPCG(uint64(seed), 3))
							calibration := make([]float64, n)
							for i := range calibration {
								calibration[i] = rng.NormFloat64()
							}
							err := d.measure(calibration, uint64(seed), func(t int) (float64, bool) {
								score := rng.NormFloat64()
								if t >= before && rng.Float64() < kind.fraction {
									score += kind.mean
								}
								return score, true
							})
							if err != nil {
								return err
							}
						}
						return nil
					},
				})
			}
		}
	}
	if err := experiment.RunJobs(ctx, s, jobs); err != nil {
		return err
	}
	return experiment.WriteCSV(filepath.Join(s.Out, "drift.csv"), printDrifts(s.Stdout, cells))
}

// networkDrifts measures drift of detector scores of real networks. It draws the
// calibration rows and the stream from all rows without replacement.
func networkDrifts(ctx context.Context, p *networks.Plan) error {
	if p.Data == "" {
		fmt.Fprintln(p.Stdout, "networks are left out without --data")
		return nil
	}
	pools, err := audits.Scored(ctx, p, 0)
	if err != nil {
		return err
	}
	var cells []*drift
	for _, pool := range pools {
		fmt.Fprintf(p.Stdout, "%s, %s: %d in-distribution and %d OOD rows to draw from\n", pool.Name, pool.Method, len(pool.In), len(pool.Out))
		for _, n := range []int{200, 1000, 5000} {
			if n >= len(pool.In) {
				return fmt.Errorf("%s has %d in-distribution rows, but calibration needs more than %d", pool.Name, len(pool.In), n)
			}
			for _, change := range []struct {
				fraction float64
				before   int
			}{{0, 0}, {.01, 0}, {.05, 0}, {.2, 0}, {.2, 1000}} {
				d := &drift{set: pool.Name, n: n, rowsBefore: change.before, fraction: change.fraction, kind: "out-of-domain", rows: len(pool.In)}
				cells = append(cells, d)
				for seed := range max(1, p.Settings.Seeds/10) {
					if err := ctx.Err(); err != nil {
						return err
					}
					rng := rand.New(rand.NewPCG(uint64(seed), 4))
					in, out := rng.Perm(len(pool.In)), rng.Perm(len(pool.Out))
					calibration := make([]float64, n)
					for i, row := range in[:n] {
						calibration[i] = pool.In[row]
					}
					in = in[n:]
					err := d.measure(calibration, uint64(seed), func(t int) (score float64, ok bool) {
						from, rows := pool.In, &in
						if t >= d.rowsBefore && rng.Float64() < d.fraction {
							from, rows = pool.Out, &out
						}
						if len(*rows) == 0 {
							return 0, false
						}
						score, *rows = from[(*rows)[0]], (*rows)[1:]
						return score, true
					})
					if err != nil {
						return err
					}
				}
			}
		}
	}
	return experiment.WriteCSV(filepath.Join(p.Out, "networks.csv"), printDrifts(p.Stdout, cells))
}
