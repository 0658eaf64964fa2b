package compare

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/fitting/batchparts"
	"github.com/attach-uncertainty/attach/ood"
)

// OODSet is a named set of out-of-distribution rows.
type OODSet struct {
	Name  string
	Group string // name of a group of sets, such as "near" or "far"; may be empty
	ood.Batch
}

// oodSets returns the out-of-distribution sets. If Options.OOD is given, it is the only set,
// without a name.
func (c Options) oodSets() []OODSet {
	if len(c.OODSets) > 0 {
		return c.OODSets
	}
	return []OODSet{{Batch: c.OOD}}
}

func (c Options) checkOODSets() error {
	if len(c.OODSets) > 0 && c.OOD.Len() > 0 {
		return errors.New("out-of-distribution rows are given both as OOD and as OODSets; give one of them")
	}
	seen := map[string]bool{}
	for _, s := range c.OODSets {
		if s.Name == "" {
			return errors.New("one of several sets of out-of-distribution rows has no name")
		}
		if seen[s.Name] {
			return fmt.Errorf("two sets of out-of-distribution rows are named %q", s.Name)
		}
		seen[s.Name] = true
	}
	return nil
}

// withOutliers returns the options for one method. If the method needs outliers and
// Training.Outliers is empty, a part of each out-of-distribution set becomes
// Training.Outliers. Only the rest is scored. Sets of a single row are not divided.
func (c Options) withOutliers(m ood.Method) (Options, error) {
	if !m.Needs.Outliers || c.Training.Outliers.Len() > 0 {
		return c, nil
	}
	sets := slices.Clone(c.oodSets())
	var outliers []ood.Batch
	for i, s := range sets {
		if s.Len() < 2 {
			continue
		}
		scored, reserved := rows.Split(s.Len(), cmp.Or(c.OutlierFraction, .5), c.Training.Seed)
		outliers = append(outliers, s.Batch.Select(reserved))
		sets[i].Batch = s.Batch.Select(scored)
	}
	if len(c.OODSets) > 0 {
		c.OODSets = sets
	} else {
		c.OOD = sets[0].Batch
	}
	var err error
	c.Training.Outliers, err = concatenate(outliers)
	return c, err
}

// concatenate returns the rows of all batches as one batch. It drops features or logits that
// some batches lack, and earlier layers, which no oracle reads. It returns a single batch
// unchanged.
func concatenate(sets []ood.Batch) (ood.Batch, error) {
	if len(sets) == 1 {
		return sets[0], nil
	}
	someLack := func(matrixOf func(ood.Batch) blas32.General) bool {
		return slices.ContainsFunc(sets, func(b ood.Batch) bool { return matrixOf(b).Cols == 0 })
	}
	noFeatures := someLack(func(b ood.Batch) blas32.General { return b.Features })
	noLogits := someLack(func(b ood.Batch) blas32.General { return b.Logits })
	var all ood.Batch
	for _, b := range sets {
		b.Layers = nil
		if noFeatures {
			b.Features = blas32.General{}
		}
		if noLogits {
			b.Logits = blas32.General{}
		}
		if err := batchparts.Append(&all, b); err != nil {
			return all, fmt.Errorf("out-of-distribution rows to fit with: %w", err)
		}
	}
	return all, nil
}

// describe returns the name of the set for errors.
func (s OODSet) describe() string {
	if s.Name == "" {
		return "out-of-distribution rows"
	}
	return fmt.Sprintf("out-of-distribution rows %q", s.Name)
}
