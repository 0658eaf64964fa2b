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

// These criteria determine the pseudo-outliers that replace out-of-distribution rows in the
// choice of a method.
const (
	// mixedRows are midpoints in feature space between two in-distribution rows of
	// different classes, like mixup (Zhang et al. 2018).
	mixedRows = "mixed"
	// shuffledRows take each feature from a different row. Every feature keeps its
	// in-distribution marginal but is independent of all other features. With many
	// features, this is easy to detect and methods tie.
	shuffledRows = "shuffled"
	// heldOutClasses are in-distribution rows of classes that are not used for fitting. The
	// logits of these classes are removed. Each fold holds out about a fifth of the
	// classes, but at least one.
	heldOutClasses = "held-out-classes"
	// corruptedInputs are in-distribution images that were corrupted before running the
	// network. About half of them receive Gaussian noise of 0.25, 0.5 or 1 standard
	// deviations of each channel (Hendrycks & Dietterich 2019). In the remaining images,
	// the patches of a 2×2 or 4×4 grid are permuted (as in Noroozi & Favaro 2016). Images
	// with fewer than 4 pixels in height or width always receive noise.
	corruptedInputs = "corrupted"
)

// criteria returns all criteria. Only the last one needs the network and its inputs.
func criteria() []string {
	return []string{mixedRows, shuffledRows, heldOutClasses, corruptedInputs}
}

// rule selects the method with the best mean rank over its criteria. A rule may use several
// criteria because each criterion has blind spots.
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

// pseudoAUROCs returns AUROCs by criterion and method. Each AUROC measures how well a
// method with its defaults separates in-distribution rows from pseudo-outliers, as a mean
// over the tasks of the criterion. A method that fails on any task has no entry.
func pseudoAUROCs(ctx context.Context, methods []ood.Method, t ood.Training) (map[string]map[string]float64, error) {
	aurocs := map[string]map[string]float64{}
	for _, criterion := range criteria() {
		tasks, err := makeTasks(ctx, criterion, t)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", criterion, err)
		}
		means, succeeded := map[string]float64{}, map[string]int{}
		for k, task := range tasks {
			r, err := compare.Run(ctx, compare.Options{Methods: methods, Training: task.training, Test: task.in, OOD: task.out})
			if err != nil {
				return nil, fmt.Errorf("%s: %w", criterion, err)
			}
			for _, m := range r.Methods {
				if len(m.Configs) > 0 {
					succeeded[m.Name]++
					means[m.Name] += (m.Configs[0].AUROC - means[m.Name]) / float64(k+1)
				}
			}
		}
		for name, n := range succeeded {
			if n < len(tasks) {
				delete(means, name)
			}
		}
		aurocs[criterion] = means
	}
	return aurocs, nil
}

// candidate holds the result of one method under a rule.
type candidate struct {
	method string
	auroc  float64 // mean over the criteria
	rank   float64 // mean over the criteria; 1 is best
}

// rank returns the methods that have an AUROC for every criterion, best first.
func (r rule) rank(methods []ood.Method, aurocs map[string]map[string]float64) ([]candidate, error) {
	var candidates []candidate
	for _, m := range methods {
		lacks := func(criterion string) bool { _, ok := aurocs[criterion][m.Name]; return !ok }
		if !slices.ContainsFunc(r.criteria, lacks) {
			candidates = append(candidates, candidate{method: m.Name})
		}
	}
	if len(candidates) == 0 {
		return nil, errors.New("no method to choose from")
	}
	for _, criterion := range r.criteria {
		x := make([]float64, len(candidates))
		for i, c := range candidates {
			x[i] = aurocs[criterion][c.method]
		}
		for i, rank := range descendingRanks(x) {
			candidates[i].auroc += x[i] / float64(len(r.criteria))
			candidates[i].rank += rank / float64(len(r.criteria))
		}
	}
	slices.SortStableFunc(candidates, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(b.auroc, a.auroc))
	})
	return candidates, nil
}

// descendingRanks ranks the largest value as 1. Equal values share the mean of their ranks.
func descendingRanks(x []float64) []float64 {
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
