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

// stream identifies a stream without drift, watched by one monitor.
type stream struct {
	Monitor       string
	N, Rows, Seed int
}

// outcome lists the deltas at which the monitor raises an alarm.
type outcome struct {
	stream
	Alarms []float64
}

func (o outcome) Key() stream { return o.stream }

// falseAlarms counts alarms on streams that are exchangeable with their calibration rows.
// Uniform scores are enough because the monitors use only ranks. The martingales of
// nonconform get a tenth of the streams and of the rows, because one of them computes 100
// exponentials for each row.
func falseAlarms(ctx context.Context, s *experiment.Settings, steps int) (err error) {
	results, err := experiment.OpenStore[stream, outcome](filepath.Join(s.Out, "alarms.jsonl"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, results.Close()) }()
	var jobs []experiment.Job
	var streams []stream
	for _, n := range []int{200, 1000, 10000} {
		streams = append(streams, stream{Monitor: "calibrate.Monitor", N: n, Rows: steps})
		for _, m := range martingales() {
			streams = append(streams, stream{Monitor: m.name, N: n, Rows: steps / 10})
		}
		for seed := range s.Seeds {
			if results.Has(stream{"calibrate.Monitor", n, steps, seed}) {
				continue
			}
			jobs = append(jobs, experiment.Job{
				Kind: "alarms", Cost: float64(steps), What: fmt.Sprintf("stream %d with n_cal %d", seed, n), Seed: seed,
				Run: results.Keep(func(ctx context.Context, _ func(float64)) ([]outcome, error) {
					return unchangedStream(ctx, n, steps, seed)
				}),
			})
		}
	}
	// If the jobs are interrupted, print the results so far.
	runErr := experiment.RunJobs(ctx, s, jobs)
	lines := [][]string{{"monitor", "n_cal", "rows", "streams", "delta", "false_alarms"}}
	slices.SortStableFunc(streams, func(a, b stream) int { return cmp.Compare(a.Monitor, b.Monitor) })
	for _, m := range streams {
		count, counts := 0, make([]int, len(deltas()))
		for key, o := range results.Records {
			if key.Seed = 0; key != m {
				continue
			}
			count++
			for i, delta := range deltas() {
				counts[i] += int(experiment.Indicator(slices.Contains(o.Alarms, delta)))
			}
		}
		fmt.Fprintf(s.Stdout, "%-15s n_cal %5d: of %4d streams of %7d rows alarm at %v: %v\n", m.Monitor, m.N, count, m.Rows, deltas(), counts)
		for i, delta := range deltas() {
			lines = append(lines, experiment.Cells(6, m.Monitor, m.N, m.Rows, count, delta, counts[i]))
		}
	}
	return errors.Join(runErr, experiment.WriteCSV(filepath.Join(s.Out, "alarms.csv"), lines))
}

// unchangedStream runs the monitors on a stream without drift.
func unchangedStream(ctx context.Context, n, steps, seed int) ([]outcome, error) {
	rng := rand.New(rand.NewPCG(uint64(seed), uint64(n)))
	calibration := make([]float64, n)
	for i := range calibration {
		calibration[i] = rng.Float64()
	}
	m, err := newMonitor(calibration, uint64(seed))
	if err != nil {
		return nil, err
	}
	c, err := calibrate.NewConformal(calibration)
	if err != nil {
		return nil, err
	}
	peers, peerSteps := martingales(), 0
	if seed%10 == 0 {
		peerSteps = steps / 10
	}
	for t := range steps {
		if t%10000 == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		score := rng.Float64()
		m.add(score)
		if t < peerSteps {
			p := c.PValue(score)
			for _, o := range peers {
				o.add(p)
			}
		}
	}
	alarmedDeltas := func(alarm func(delta float64) bool) (alarmed []float64) {
		for _, delta := range deltas() {
			if alarm(delta) {
				alarmed = append(alarmed, delta)
			}
		}
		return alarmed
	}
	outcomes := []outcome{{stream{m.name, n, steps, seed}, alarmedDeltas(m.alarm)}}
	for _, o := range peers {
		if peerSteps > 0 {
			outcomes = append(outcomes, outcome{stream{o.name, n, peerSteps, seed}, alarmedDeltas(o.alarm)})
		}
	}
	return outcomes, nil
}
