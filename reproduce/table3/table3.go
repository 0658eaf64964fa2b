// Package table3 reproduces the paper's table of causal discovery. It decides which of two
// variables causes the other, by simultaneous quantile regression and ten other methods, on
// six sets of pairs. Each result is saved as soon as it is measured, so an interrupted run
// resumes where it ended.
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

// Experiment is the table3 command.
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
		flags.Uint64Var(&s.swapSeed, "turn", 0, "`seed` of which half of the pairs is turned round before methods see them")
		flags.Float64Var(&s.level, "level", .05, "pairs are decided where the p-value of the decision is at most this")
		return s.run
	},
}

// settings holds the flags.
type settings struct {
	*experiment.Settings
	steps    int
	swapSeed uint64
	level    float64
}

// resultKey identifies a result.
type resultKey struct {
	Set    string `json:"set"`
	Pair   string `json:"pair"`
	Method string `json:"method"`
	Turn   uint64 `json:"turn"`            // settings.swapSeed
	Seeds  int    `json:"seeds,omitempty"` // number of random halves; only for SQR
	Steps  int    `json:"steps,omitempty"` // number of training steps; only for SQR
}

// record is one line of results.
type record struct {
	resultKey
	Score   float64 `json:"score"` // above 0 if x causes y
	P       float64 `json:"p,omitempty"`
	Seconds float64 `json:"seconds"` // elapsed time, divided by the number of results measured together
}

// Key implements experiment.Keyed.
func (r record) Key() resultKey { return r.resultKey }

type store = experiment.Store[resultKey, record]

func (s *settings) run(ctx context.Context) error {
	names, err := experiment.Choose("--sets", "set", s.Sets, setNames(), func(n string) string { return n })
	if err != nil {
		return err
	}
	chosen, err := s.chosenMethods()
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
		set, err := readSet(s.Data, name, s.swapSeed)
		if err != nil {
			return err
		}
		sets = append(sets, set)
	}
	results, err := experiment.OpenStore[resultKey, record](filepath.Join(s.Out, "table3.jsonl"))
	if err != nil {
		return err
	}
	defer results.Close()
	if err := experiment.RunJobs(ctx, s.Settings, s.jobs(sets, chosen, results)); err != nil {
		return err
	}
	return s.report(sets, chosen, results)
}

// chosenMethods returns the methods that --methods selects. The name sqr stands for its
// three rows.
func (s *settings) chosenMethods() ([]method, error) {
	if s.MethodNames == nil {
		return slices.DeleteFunc(methods(), func(m method) bool { return m.onRequest }), nil
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

func (s *settings) keyOf(set pairSet, p pair, m method) resultKey {
	q := resultKey{Set: set.name, Pair: p.number, Method: m.name, Turn: s.swapSeed}
	if m.score == nil {
		q.Seeds, q.Steps = s.Seeds, s.steps
	}
	return q
}

// jobs returns the jobs that measure the missing results. One job of SQR scores a whole set.
// A job of any other method scores up to 25 pairs.
func (s *settings) jobs(sets []pairSet, chosen []method, results *store) []experiment.Job {
	const chunkSize = 25
	var jobs []experiment.Job
	for _, set := range sets {
		needsSQR := false
		for _, m := range chosen {
			missing := slices.DeleteFunc(slices.Clone(set.pairs), func(p pair) bool { return results.Has(s.keyOf(set, p, m)) })
			if m.score == nil {
				needsSQR = needsSQR || len(missing) > 0
				continue
			}
			for pairs := range slices.Chunk(missing, chunkSize) {
				jobs = append(jobs, experiment.Job{
					Kind: m.name, Cost: float64(len(pairs)), What: fmt.Sprintf("%s, %s, %d pairs", set.name, m.name, len(pairs)),
					Run: results.Keep(func(ctx context.Context, progress func(float64)) ([]record, error) {
						return s.scorePairs(ctx, set, pairs, m, progress)
					}),
				})
			}
		}
		if needsSQR {
			jobs = append(jobs, experiment.Job{
				Kind: "sqr", Cost: float64(len(set.pairs)), What: fmt.Sprintf("%s, sqr, %d networks", set.name, 2*s.Seeds*len(set.pairs)),
				Run: results.Keep(func(ctx context.Context, progress func(float64)) ([]record, error) {
					return s.scoreSQR(ctx, set, progress)
				}),
			})
		}
	}
	return jobs
}

func (s *settings) scorePairs(ctx context.Context, set pairSet, pairs []pair, m method, progress func(float64)) (records []record, err error) {
	for i, p := range pairs {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		began := time.Now()
		// The seed depends only on the pair, so results do not depend on how pairs are
		// grouped into jobs.
		score, err := m.score(p.x, p.y, rand.New(rand.NewPCG(pairSeed(set.name, p.number), 0)))
		if err != nil {
			return nil, fmt.Errorf("pair %s: %w", p.number, err)
		}
		records = append(records, record{resultKey: s.keyOf(set, p, m), Score: score, Seconds: time.Since(began).Seconds()})
		progress(float64(i+1) / float64(len(pairs)))
	}
	return records, nil
}

func (s *settings) scoreSQR(ctx context.Context, set pairSet, progress func(float64)) (records []record, err error) {
	began := time.Now()
	verdicts, err := sqr{s.Seeds, s.steps, s.Trainer}.score(ctx, set.pairs, progress)
	if err != nil {
		return nil, err
	}
	seconds := time.Since(began).Seconds() / float64(len(set.pairs)*len(verdicts))
	for name, pairVerdicts := range verdicts {
		for i, v := range pairVerdicts {
			records = append(records, record{resultKey: s.keyOf(set, set.pairs[i], method{name: name}), Score: v.score, P: v.p, Seconds: seconds})
		}
	}
	return records, nil
}
