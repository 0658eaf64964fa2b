package monitor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"

	"github.com/attach-uncertainty/attach/calibrate"
	"github.com/attach-uncertainty/attach/reproduce/experiment"
)

// stream is one in which nothing changes, watched by a monitor.
type stream struct {
	Monitor       string
	N, Rows, Seed int
}

// outcome is at which of the deltas it alarms.
type outcome struct {
	stream
	Alarms []float64
}

func (o outcome) Key() stream { return o.stream }

// alarms counts those of streams like their calibration rows. Scores are uniform:
// ranks are the same whatever their law. The other martingales, of which one takes a
// hundred exponentials a row, get a tenth of the streams and of the rows.
func alarms(ctx context.Context, s *experiment.Settings, steps int) (err error) {
	results, err := experiment.OpenStore[stream, outcome](filepath.Join(s.Out, "alarms.jsonl"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, results.Close()) }()
	var jobs []experiment.Job
	var of []stream
	for _, n := range []int{200, 1000, 10000} {
		of = append(of, stream{Monitor: "calibrate.Monitor", N: n, Rows: steps})
		for _, m := range martingales() {
			of = append(of, stream{Monitor: m.name, N: n, Rows: steps / 10})
		}
		for seed := range s.Seeds {
			if results.Has(stream{"calibrate.Monitor", n, steps, seed}) {
				continue
			}
			jobs = append(jobs, experiment.Job{
				Kind: "alarms", Cost: float64(steps), What: fmt.Sprintf("stream %d with n_cal %d", seed, n), Seed: seed,
				Run: results.Keep(func(ctx context.Context, _ func(float64)) ([]outcome, error) { return still(ctx, n, steps, seed) }),
			})
		}
	}
	// What is interrupted shows what it has.
	failed := experiment.RunJobs(ctx, s, jobs)
	lines := [][]string{{"monitor", "n_cal", "rows", "streams", "delta", "false_alarms"}}
	slices.SortStableFunc(of, func(a, b stream) int { return cmp.Compare(a.Monitor, b.Monitor) })
	for _, m := range of {
		streams, counts := 0, make([]int, len(deltas()))
		for key, o := range results.Records {
			if key.Seed = 0; key != m {
				continue
			}
			streams++
			for i, delta := range deltas() {
				counts[i] += int(experiment.Indicator(slices.Contains(o.Alarms, delta)))
			}
		}
		fmt.Fprintf(s.Stdout, "%-15s n_cal %5d: of %4d streams of %7d rows alarm at %v: %v\n", m.Monitor, m.N, streams, m.Rows, deltas(), counts)
		for i, delta := range deltas() {
			lines = append(lines, experiment.Cells(6, m.Monitor, m.N, m.Rows, streams, delta, counts[i]))
		}
	}
	return errors.Join(failed, experiment.WriteCSV(filepath.Join(s.Out, "alarms.csv"), lines))
}

// still is a stream in which nothing changes.
func still(ctx context.Context, n, steps, seed int) ([]outcome, error) {
	rng := rand.New(rand.NewPCG(uint64(seed), uint64(n)))
	calibration := make([]float64, n)
	for i := range calibration {
		calibration[i] = rng.Float64()
	}
	m, err := ours(calibration, uint64(seed))
	if err != nil {
		return nil, err
	}
	c, err := calibrate.NewConformal(calibration)
	if err != nil {
		return nil, err
	}
	others, few := martingales(), 0
	if seed%10 == 0 {
		few = steps / 10
	}
	for t := range steps {
		if t%10000 == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		score := rng.Float64()
		m.add(score)
		if t < few {
			p := c.PValue(score)
			for _, o := range others {
				o.add(p)
			}
		}
	}
	at := func(alarm func(delta float64) bool) (found []float64) {
		for _, delta := range deltas() {
			if alarm(delta) {
				found = append(found, delta)
			}
		}
		return found
	}
	found := []outcome{{stream{m.name, n, steps, seed}, at(m.alarm)}}
	for _, o := range others {
		if few > 0 {
			found = append(found, outcome{stream{o.name, n, few, seed}, at(o.alarm)})
		}
	}
	return found, nil
}
