package compare

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/attach-uncertainty/attach/internal/fitting/batchparts"
	"github.com/attach-uncertainty/attach/internal/fitting/binarylogit"
	"github.com/attach-uncertainty/attach/ood"
)

// What stands in for out-of-domain rows where a method is chosen.
const (
	// meanRank ranks by each of the other criteria that the rows allow and
	// takes the mean rank: what one of them is blind to another sees.
	meanRank = "mean-rank"
	// mixedRows are half-way between two in-domain rows of different classes,
	// as mixup makes them (Zhang et al. 2018), in the space of features.
	mixedRows = "mixed"
	// shuffledRows take each feature from a row of its own: every feature is
	// distributed as in-domain and independent of the others. Of many features
	// that is easy to tell, and methods tie.
	shuffledRows = "shuffled"
	// heldOutClasses are in-domain rows of classes that methods are not fitted
	// with, and whose logits are taken away: a fifth of the classes at a time.
	heldOutClasses = "held-out-classes"
	// corruptedInputs are in-domain inputs that were disturbed before the
	// network, which they are put through anew: half of them by Gaussian noise
	// of a quarter, a half or all of the standard deviation of each channel or
	// column (Hendrycks & Dietterich 2019), the others, images, by permuting
	// their 2×2 or 4×4 patches (as Noroozi & Favaro 2016), or, rows of a table,
	// by taking about half of their columns from other rows. It needs
	// Training.Network and Training.Inputs, and costs a run of the network on
	// the rows that methods are told apart by.
	corruptedInputs = "corrupted"
)

// Criteria are what Selection.Criterion may be, the default first.
func Criteria() []string {
	return []string{meanRank, mixedRows, shuffledRows, heldOutClasses, corruptedInputs}
}

// Selection says which methods to choose from, on which rows.
type Selection struct {
	Methods []ood.Method
	// Training holds in-domain rows. Methods are fitted with four fifths of
	// them, and told apart by the others, which the seed draws.
	Training ood.Training
	// Criterion is what stands in for out-of-domain rows: rows "mixed" of two of
	// different classes, rows "shuffled" column by column, "held-out-classes", inputs
	// "corrupted" before the network or, where it is empty, the "mean-rank" of all.
	Criterion string
	Sweep     bool // choose among the whole grid of each method, not its default alone
	Parallel  int  // as in Options
	// Progress is as in Options.
	Progress func(method string, share float64)
	// Corrupting, if not nil, is called with the number of inputs that were
	// corrupted and put through the network, before methods are fitted.
	Corrupting func(done, total int)
}

// Selected is what Select chose.
type Selected struct {
	Criterion string `json:"criterion"`
	// Criteria are those that candidates are ranked by: one, or for "mean-rank"
	// those that the rows allow.
	Criteria  []string `json:"criteria"`
	Candidate          // inlined: the first of Candidates
	// AUROC is that of the choice on true out-of-domain rows; nil unless Run
	// measured it.
	AUROC      *float64    `json:"auroc,omitempty"`
	Candidates []Candidate `json:"candidates"` // best first
	Skipped    []Skipped   `json:"skipped"`
}

// Candidate is one configuration of a method.
type Candidate struct {
	Method string     `json:"method"`
	Params ood.Params `json:"params"`
	// PseudoAUROC is the AUROC of in-domain rows against those that stand in
	// for out-of-domain ones: the mean over the criteria.
	PseudoAUROC float64 `json:"pseudo_auroc"`
	// Rank counts from 1, the best, and is the mean over the criteria; equals
	// share the mean of their ranks.
	Rank float64 `json:"rank"`
}

// Select ranks configurations by how well they tell in-domain rows from rows
// made of them, without any out-of-domain row. Controls and methods that the
// rows do not suffice for are skipped with the reason, as are those that run
// the network, which rows made of features cannot be put through. It is an
// error if no method is left.
func Select(ctx context.Context, s Selection) (*Selected, error) {
	s.Criterion = cmp.Or(s.Criterion, Criteria()[0])
	if !slices.Contains(Criteria(), s.Criterion) {
		return nil, fmt.Errorf("no criterion %q to select by: there are %q", s.Criterion, Criteria())
	}
	s.Training = binarylogit.Training(s.Training)
	if err := batchparts.Validate(s.Training.Batch); err != nil {
		return nil, fmt.Errorf("rows to select with: %w", err)
	}
	if n := s.Training.Len(); n < 2 {
		return nil, fmt.Errorf("%d rows to select with, and at least 2 are needed", n)
	}
	tasks, err := s.tasks(ctx)
	if err != nil {
		return nil, err
	}
	chosen := &Selected{Criterion: s.Criterion, Candidates: []Candidate{}, Skipped: []Skipped{}}
	var methods []ood.Method
	for _, m := range s.Methods {
		switch {
		case m.Control:
			chosen.Skipped = append(chosen.Skipped, Skipped{m.Name, fmt.Sprintf("method %q is a control", m.Name)})
		case m.Needs.Inputs || m.Needs.Network || m.Needs.Dropout:
			chosen.Skipped = append(chosen.Skipped, Skipped{m.Name, fmt.Sprintf("method %q runs the network, which rows made of features cannot be put through", m.Name)})
		default:
			methods = append(methods, m)
		}
	}
	for _, t := range tasks {
		if !slices.Contains(chosen.Criteria, t.criterion) {
			chosen.Criteria = append(chosen.Criteria, t.criterion)
		}
	}
	if err := chosen.rank(ctx, s, methods, tasks); err != nil {
		return nil, err
	}
	if len(chosen.Candidates) == 0 {
		for _, left := range chosen.Skipped {
			return nil, fmt.Errorf("no method to select from: %s", left.Reason)
		}
		return nil, errors.New("no method to select from")
	}
	chosen.Candidate = chosen.Candidates[0]
	return chosen, nil
}

// rank measures the methods on every task. What fails on one is out.
func (chosen *Selected) rank(ctx context.Context, s Selection, methods []ood.Method, tasks []pseudoTask) error {
	type key struct{ method, params string }
	results := map[key][]float64{} // measure.AUROC by task
	skipped := map[string]bool{}
	skip := func(method, reason string) {
		if !skipped[method] {
			chosen.Skipped = append(chosen.Skipped, Skipped{method, reason})
		}
		skipped[method] = true
	}
	var all []Candidate
	for k, task := range tasks {
		c := Options{Methods: methods, Training: task.training, In: task.in, Out: task.out, Sweep: s.Sweep, Parallel: s.Parallel}
		if s.Progress != nil {
			c.Progress = func(method string, share float64) {
				s.Progress(method, (float64(k)+share)/float64(len(tasks)))
			}
		}
		r, err := Run(ctx, c)
		if err != nil {
			return fmt.Errorf("rows to select with: %w", err)
		}
		for _, left := range r.Skipped {
			skip(left.Name, left.Reason)
		}
		for _, m := range r.Methods {
			for _, f := range m.Failed {
				skip(m.Name, fmt.Sprintf("method %q, %s: %s", m.Name, f.Params, f.Error))
			}
			for _, conf := range m.Configs {
				id := key{m.Name, conf.Params.String()}
				if k == 0 {
					all = append(all, Candidate{Method: m.Name, Params: conf.Params})
				}
				if len(results[id]) == k {
					results[id] = append(results[id], conf.AUROC)
				}
			}
		}
	}
	var aurocs [][]float64
	for _, c := range all {
		if x := results[key{c.Method, c.Params.String()}]; len(x) == len(tasks) {
			chosen.Candidates = append(chosen.Candidates, c)
			aurocs = append(aurocs, x)
		}
	}
	for _, criterion := range chosen.Criteria {
		means := make([]float64, len(aurocs))
		n := 0.
		for k, task := range tasks {
			if task.criterion != criterion {
				continue
			}
			n++
			for i := range means {
				means[i] += (aurocs[i][k] - means[i]) / n
			}
		}
		for i, rank := range fallingRanks(means) {
			chosen.Candidates[i].PseudoAUROC += means[i] / float64(len(chosen.Criteria))
			chosen.Candidates[i].Rank += rank / float64(len(chosen.Criteria))
		}
	}
	slices.SortStableFunc(chosen.Candidates, func(a, b Candidate) int {
		return cmp.Or(cmp.Compare(a.Rank, b.Rank), cmp.Compare(b.PseudoAUROC, a.PseudoAUROC))
	})
	return nil
}

// fallingRanks are 1 for the largest; equals share the mean of their ranks.
func fallingRanks(x []float64) []float64 {
	ranks := make([]float64, len(x))
	for i, v := range x {
		ranks[i] = .5
		for _, other := range x {
			if other > v {
				ranks[i]++
			} else if other == v {
				ranks[i] += .5
			}
		}
	}
	return ranks
}

// choose enters what was selected, with the AUROC that it has on the report's
// out-of-domain rows and the regret: how much higher the AUROC of the best
// configuration in hindsight is, controls aside. Both stay nil where the report
// lacks the configuration.
func (r *Report) choose(s Selected) {
	r.Selected, r.Regret = &s, nil
	var best float64
	for _, m := range r.Methods {
		for _, c := range m.Configs {
			if m.Name == s.Method && c.Params.String() == s.Params.String() {
				s.AUROC = &c.AUROC
			}
			if !m.Control {
				best = max(best, c.AUROC)
			}
		}
	}
	if s.AUROC != nil {
		regret := best - *s.AUROC
		r.Regret = &regret
	}
}
