// Package table3 is the paper's table of causal discovery: which of two variables
// causes the other, by simultaneous quantile regression and by ten other methods
// on six sets of pairs. Results are kept as they are measured, and a run that was
// ended goes on where it stood.
package table3

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"time"

	"github.com/attach-uncertainty/attach/reproduce/experiment"
)

// Experiment is what the command runs.
var Experiment = experiment.Experiment{
	Name:    "table3",
	Doc:     "which of two variables causes the other, by pinball losses and ten other methods, beside the paper's",
	Shared:  []string{"data", "sets", "methods", "seeds", "parallel", "out", "ort-lib"},
	Resumes: true,
	New: func(flags *flag.FlagSet, shared *experiment.Settings) func(ctx context.Context) error {
		s := &settings{Settings: shared}
		experiment.Redefine(flags, "seeds", "10", "random halves of the rows that SQR is trained on, of which scores are means")
		experiment.Redefine(flags, "parallel", "1", "pairs scored at once")
		flags.IntVar(&s.steps, "steps", 1024, "mini-batches of 128 rows that a network of SQR is trained on")
		flags.Uint64Var(&s.turn, "turn", 0, "`seed` of which half of the pairs is turned round before methods see them")
		flags.Float64Var(&s.level, "level", .05, "pairs are decided where the p-value of the decision is at most this")
		return s.run
	},
}

// settings are the flags.
type settings struct {
	*experiment.Settings
	steps int
	turn  uint64
	level float64
}

// question is what a result answers.
type question struct {
	Set    string `json:"set"`
	Pair   string `json:"pair"`
	Method string `json:"method"`
	Turn   uint64 `json:"turn"`
	Seeds  int    `json:"seeds,omitempty"` // of SQR
	Steps  int    `json:"steps,omitempty"` // of SQR
}

// record is one line of results.
type record struct {
	question
	Score   float64 `json:"score"` // above 0: x causes y
	P       float64 `json:"p,omitempty"`
	Seconds float64 `json:"seconds"` // shared among what was scored at once
}

// Key implements experiment.Keyed.
func (r record) Key() question { return r.question }

type store = experiment.Store[question, record]

func (s *settings) run(ctx context.Context) error {
	names, err := experiment.Choose("--sets", "set", s.Sets, setNames(), func(n string) string { return n })
	if err != nil {
		return err
	}
	chosen, err := s.choose()
	if err != nil {
		return err
	}
	switch {
	case s.steps < 1:
		return experiment.Usagef("--steps is at least 1, not %d", s.steps)
	case !(s.level > 0 && s.level < 1):
		return experiment.Usagef("--level lies between 0 and 1, not %v", s.level)
	}
	var sets []pairSet
	for _, name := range names {
		set, err := readSet(s.Data, name, s.turn)
		if err != nil {
			return err
		}
		sets = append(sets, set)
	}
	results, err := experiment.OpenStore[question, record](filepath.Join(s.Out, "table3.jsonl"))
	if err != nil {
		return err
	}
	defer results.Close()
	if err := experiment.RunJobs(ctx, s.Settings, s.jobs(sets, chosen, results)); err != nil {
		return err
	}
	return s.report(sets, chosen, results)
}

// choose returns the methods of --methods, where sqr stands for its three rows.
func (s *settings) choose() ([]method, error) {
	if s.MethodNames == nil {
		return slices.DeleteFunc(methods(), func(m method) bool { return m.asked }), nil
	}
	var named []string
	for _, name := range s.MethodNames {
		if name != "sqr" {
			named = append(named, name)
			continue
		}
		for _, p := range pools() {
			named = append(named, p.method)
		}
	}
	return experiment.Choose("--methods", "method", named, methods(), func(m method) string { return m.name })
}

func (s *settings) question(set pairSet, p pair, m method) question {
	q := question{Set: set.name, Pair: p.number, Method: m.name, Turn: s.turn}
	if m.score == nil {
		q.Seeds, q.Steps = s.Seeds, s.steps
	}
	return q
}

// jobs lists what is not measured yet: all of SQR on a set, and so many pairs
// of another method.
func (s *settings) jobs(sets []pairSet, chosen []method, results *store) []experiment.Job {
	const together = 25
	var jobs []experiment.Job
	for _, set := range sets {
		quantiles := false
		for _, m := range chosen {
			missing := slices.DeleteFunc(slices.Clone(set.pairs), func(p pair) bool { return results.Has(s.question(set, p, m)) })
			if m.score == nil {
				quantiles = quantiles || len(missing) > 0
				continue
			}
			for pairs := range slices.Chunk(missing, together) {
				jobs = append(jobs, experiment.Job{
					Kind: m.name, Cost: float64(len(pairs)), What: fmt.Sprintf("%s, %s, %d pairs", set.name, m.name, len(pairs)),
					Run: results.Keep(func(ctx context.Context, progress func(float64)) ([]record, error) {
						return s.each(ctx, set, pairs, m, progress)
					}),
				})
			}
		}
		if quantiles {
			jobs = append(jobs, experiment.Job{
				Kind: "sqr", Cost: float64(len(set.pairs)), What: fmt.Sprintf("%s, sqr, %d networks", set.name, 2*s.Seeds*len(set.pairs)),
				Run: results.Keep(func(ctx context.Context, progress func(float64)) ([]record, error) {
					return s.quantiles(ctx, set, progress)
				}),
			})
		}
	}
	return jobs
}

func (s *settings) each(ctx context.Context, set pairSet, pairs []pair, m method, progress func(float64)) (records []record, err error) {
	for i, p := range pairs {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		began := time.Now()
		// A pair has its own numbers, whichever pairs are scored beside it.
		score, err := m.score(p.x, p.y, rand.New(rand.NewPCG(seedOf(set.name, p.number), 0)))
		if err != nil {
			return nil, fmt.Errorf("pair %s: %w", p.number, err)
		}
		records = append(records, record{question: s.question(set, p, m), Score: score, Seconds: time.Since(began).Seconds()})
		progress(float64(i+1) / float64(len(pairs)))
	}
	return records, nil
}

func (s *settings) quantiles(ctx context.Context, set pairSet, progress func(float64)) (records []record, err error) {
	began := time.Now()
	verdicts, err := sqr{s.Seeds, s.steps, s.Trainer}.score(ctx, set.pairs, progress)
	if err != nil {
		return nil, err
	}
	seconds := time.Since(began).Seconds() / float64(len(set.pairs)*len(verdicts))
	for name, of := range verdicts {
		for i, v := range of {
			records = append(records, record{question: s.question(set, set.pairs[i], method{name: name}), Score: v.score, P: v.p, Seconds: seconds})
		}
	}
	return records, nil
}
