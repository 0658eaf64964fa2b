package selection

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/attach-uncertainty/attach/ood"
	"github.com/attach-uncertainty/attach/ood/compare"
)

// What stands in for out-of-domain rows where a method is chosen.
const (
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
	// corruptedInputs are in-domain images that were disturbed before the
	// network, which they are put through anew: half of them by Gaussian noise
	// of a quarter, a half or all of the standard deviation of each channel
	// (Hendrycks & Dietterich 2019), the others by permuting their 2×2 or 4×4
	// patches (as Noroozi & Favaro 2016).
	corruptedInputs = "corrupted"
)

// criteria are all of them. The last alone needs more than features.
func criteria() []string {
	return []string{mixedRows, shuffledRows, heldOutClasses, corruptedInputs}
}

// rule chooses by the mean rank over criteria: what one of them is blind to
// another sees.
type rule struct {
	name     string
	criteria []string
}

func rules() []rule {
	all := criteria()
	list := []rule{{"mean-rank", all}}
	for _, c := range all {
		list = append(list, rule{c, []string{c}})
	}
	return append(list, rule{"mean-rank, features alone", all[:len(all)-1]})
}

// pseudoAUROCs says, by criterion and method, how well methods at their defaults
// tell in-domain rows from those that stand in for out-of-domain ones. It is the
// mean over the tasks of the criterion; a method that fails on one has none.
func pseudoAUROCs(ctx context.Context, methods []ood.Method, t ood.Training) (map[string]map[string]float64, error) {
	all := map[string]map[string]float64{}
	for _, criterion := range criteria() {
		tasks, err := tasksOf(ctx, criterion, t)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", criterion, err)
		}
		means, done := map[string]float64{}, map[string]int{}
		for k, task := range tasks {
			r, err := compare.Run(ctx, compare.Options{Methods: methods, Training: task.training, Test: task.in, OOD: task.out})
			if err != nil {
				return nil, fmt.Errorf("%s: %w", criterion, err)
			}
			for _, m := range r.Methods {
				if len(m.Configs) > 0 {
					done[m.Name]++
					means[m.Name] += (m.Configs[0].AUROC - means[m.Name]) / float64(k+1)
				}
			}
		}
		for name, n := range done {
			if n < len(tasks) {
				delete(means, name)
			}
		}
		all[criterion] = means
	}
	return all, nil
}

// candidate is a method, by a rule.
type candidate struct {
	method string
	auroc  float64 // the mean over the criteria
	rank   float64 // from 1, the best: the mean over the criteria
}

// rank returns the methods that have an AUROC by every criterion, best first.
func (r rule) rank(methods []ood.Method, aurocs map[string]map[string]float64) ([]candidate, error) {
	var all []candidate
	for _, m := range methods {
		lacks := func(criterion string) bool { _, ok := aurocs[criterion][m.Name]; return !ok }
		if !slices.ContainsFunc(r.criteria, lacks) {
			all = append(all, candidate{method: m.Name})
		}
	}
	if len(all) == 0 {
		return nil, errors.New("no method to choose from")
	}
	for _, criterion := range r.criteria {
		x := make([]float64, len(all))
		for i, c := range all {
			x[i] = aurocs[criterion][c.method]
		}
		for i, rank := range fallingRanks(x) {
			all[i].auroc += x[i] / float64(len(r.criteria))
			all[i].rank += rank / float64(len(r.criteria))
		}
	}
	slices.SortStableFunc(all, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(b.auroc, a.auroc))
	})
	return all, nil
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
