package main

import (
	"context"
	"slices"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/internal/inputs"
)

// known is what rows bring beside what a network reads: each part by row, or nil.
type known struct {
	labels  []int // classes of the network, or -1 for what it has no class for
	names   []string
	targets blas32.General
	groups  []string
}

// knownOf is what the rows of a set bring, as far as it is surely of the
// network's classes or targets. Labels that were picked are numbered by their
// places among all that were.
func knownOf(set *inputs.Set, picked []int, base attach.Base) known {
	targets, _ := set.Targets()
	k := known{labels: slices.Clone(set.Labels()), targets: targets, groups: set.Groups()}
	if len(picked) > 0 && len(picked) != inputs.ClassesOf(base.Outputs) {
		for i := range k.labels {
			k.labels[i] = picked[k.labels[i]]
		}
	}
	if folders := set.ClassNames(); folders != nil {
		k.byName(folders, base.Classes)
		return k
	}
	return k.sure(base)
}

// byName numbers labels as classes have the names of the labels' folders; where
// classes have no names the folders' order is theirs.
func (k *known) byName(folders, classes []string) {
	labels := make([]int, len(k.labels))
	for i, label := range k.labels {
		k.names = append(k.names, folders[label])
		if labels[i] = label; len(classes) > 0 {
			labels[i] = slices.Index(classes, folders[label])
		}
	}
	k.labels = labels
}

// knownOfFeatures is what an archive of n precomputed rows brings to some of them.
func knownOfFeatures(ctx context.Context, path string, base attach.Base, of inputs.Slice, n int, groups []string) known {
	k := known{groups: groups}
	if base.Task == attach.Classification {
		k.labels, _ = inputs.FeatureLabels(path, of)
	} else if holdsAny(path, "y", "targets") {
		if t, err := inputs.OpenTargets(ctx, path, n, base.Outputs); err == nil {
			t, _ = t.Slice(of)
			k.targets = t.Values
		}
	}
	return k.sure(base)
}

// sure leaves out labels of a numbering other than the network's classes, such
// as those of rows from elsewhere, and targets that are not the network's.
func (k known) sure(base attach.Base) known {
	if base.Task == attach.Regression || base.Outputs == 0 || inputs.CheckLabels(k.labels, base.Outputs) != nil {
		k.labels, k.names = nil, nil
	}
	if base.Task == attach.Classification || base.Outputs > 0 && k.targets.Cols != base.Outputs {
		k.targets = blas32.General{}
	}
	if k.labels == nil || base.Classes == nil {
		return k
	}
	k.names = make([]string, len(k.labels))
	for i, label := range k.labels {
		if label < len(base.Classes) {
			k.names[i] = base.Classes[label]
		}
	}
	return k
}

// fields are what is written of a row.
func (k *known) fields(dst []field, row int) []field {
	if k.groups != nil {
		dst = append(dst, field{"group", k.groups[row]})
	}
	if k.labels != nil {
		dst = append(dst, field{"label", k.labels[row]})
	}
	if k.names != nil {
		dst = append(dst, field{"label_name", k.names[row]})
	}
	switch t := k.targets; {
	case t.Cols == 1:
		dst = append(dst, field{"target", number{float64(t.Data[row*t.Stride]), true}})
	case t.Cols > 1:
		list := make([]number, t.Cols)
		for j := range list {
			list[j] = number{float64(t.Data[row*t.Stride+j]), true}
		}
		dst = append(dst, field{"target", list})
	}
	return dst
}
