package command

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/internal/data/inputs"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/display"
)

// known is what rows bring beside what a network reads: each part by row, or nil.
type known struct {
	inputs.Beside // labels are classes of the network, or -1 for what it has no class for
	names         []string
	odd           error // what is wrong with labels or targets that are left out
	kept          []int // rows whose target is known, where some are not
}

// knownOf is what the rows of a set bring, as far as it is surely of the
// network's classes or targets. Labels that were picked are numbered by their
// places among all that were.
func knownOf(set *inputs.Set, picked []int, base attach.Base) known {
	k := known{Beside: inputs.Beside{Labels: slices.Clone(set.Labels), Targets: set.Targets, Groups: set.Groups}}
	if len(picked) > 0 && len(picked) != inputs.ClassesOf(base.Outputs) {
		for i := range k.Labels {
			k.Labels[i] = picked[k.Labels[i]]
		}
	}
	if folders := set.ClassNames; folders != nil {
		k.byName(folders, base.Classes)
		return k
	}
	return k.sure(base)
}

// byName numbers labels as classes have the names of the labels' folders; where
// classes have no names the folders' order is theirs.
func (k *known) byName(folders, classes []string) {
	labels := make([]int, len(k.Labels))
	for i, label := range k.Labels {
		k.names = append(k.names, folders[label])
		if labels[i] = label; len(classes) > 0 {
			labels[i] = slices.Index(classes, folders[label])
		}
		if labels[i] < 0 {
			k.odd = fmt.Errorf("folder %.100q is none of the classes fitted on: %s", folders[label], display.List(classes, 10))
		}
	}
	k.Labels = labels
}

// knownOfFeatures is what an archive of n precomputed rows brings to some of them, or y
// where that is not empty.
func knownOfFeatures(ctx context.Context, x, y string, base attach.Base, of inputs.Slice, n int, groups []string) known {
	k := known{Beside: inputs.Beside{Groups: groups}}
	t, err := featureTargets(ctx, x, y, base, of, n)
	k.Targets, k.Labels = t.Values, t.Labels
	if kept := t.Known(); len(kept) < t.Values.Rows {
		if k.kept = kept; len(kept) == 0 {
			err = inputs.ErrNoTarget
		}
	}
	if base.Task != attach.Regression && y == "" {
		k.Labels, err = inputs.FeatureLabels(x, of)
	}
	k = k.sure(base)
	k.odd = cmp.Or(err, k.odd)
	return k
}

// sure leaves out what inputs.Beside.Sure does, and names the labels.
func (k known) sure(base attach.Base) known {
	k.odd = k.Sure(base)
	if k.Labels == nil || base.Classes == nil {
		return k
	}
	k.names = make([]string, len(k.Labels))
	for i, label := range k.Labels {
		if label >= 0 && label < len(base.Classes) {
			k.names[i] = base.Classes[label]
		}
	}
	return k
}

// only is what some rows bring.
func (k known) only(list []int) known {
	k.Labels, k.names, k.Groups, k.kept = picked(k.Labels, list), picked(k.names, list), picked(k.Groups, list), nil
	if k.Targets.Rows > 0 {
		k.Targets = rows.Select(k.Targets, list)
	}
	return k
}

func picked[T any](all []T, list []int) (some []T) {
	if all == nil {
		return nil
	}
	for _, i := range list {
		some = append(some, all[i])
	}
	return some
}

// fields are what is written of a row.
func (k *known) fields(dst []field, row int) []field {
	if k.Groups != nil {
		dst = append(dst, field{"group", k.Groups[row]})
	}
	if k.Labels != nil {
		dst = append(dst, field{"label", max(k.Labels[row], -1)}) // of an unknown one too
	}
	if k.names != nil {
		dst = append(dst, field{"label_name", k.names[row]})
	}
	switch t := k.Targets; {
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
