package audit

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// GroupsWithSubfolders returns the groups of an audit, the worst of each kind first. A folder has
// the counts of all inputs in it and in its sub-folders. If a folder of --x is also a group of
// the kind folder, it is returned once.
func (a *Audit) GroupsWithSubfolders() []Group {
	isFolder := map[string]bool{}
	for _, f := range a.folders {
		isFolder[f.Name] = true
	}
	all := slices.Clone(a.folders)
	for _, g := range a.Groups {
		if g.Kind != "folder" && !(g.Kind == "shard" && isFolder[g.Name]) {
			all = append(all, g)
		}
	}
	kinds := []string{"folder", "shard", "group", "class", "label"}
	slices.SortStableFunc(all, func(a, b Group) int {
		return cmp.Or(slices.Index(kinds, a.Kind)-slices.Index(kinds, b.Kind), compareGroups(a, b))
	})
	return all
}

// compareGroups orders groups by falling numbers of outliers, then of discoveries and inputs.
func compareGroups(a, b Group) int {
	return cmp.Or(b.Outliers-a.Outliers, b.Discoveries-a.Discoveries, slices.Compare(b.LabelErrors, a.LabelErrors), slices.Compare(b.LabelDiscoveries, a.LabelDiscoveries), b.Inputs-a.Inputs)
}

// folders returns the folders that hold inputs or several sub-folders with inputs, with the
// counts of their sub-folders, by name. Bounds on outliers of folders without common inputs add
// up, because all of them hold at once.
func (t *tally) folders() []Group {
	sums, largest := map[string]*groupCounts{}, map[string]int{}
	for key, c := range t.groups {
		for at := key.Name; key.Kind == folderKind && at != ""; at = parentFolder(at) {
			sum := sums[at]
			if sum == nil {
				sum = &groupCounts{Name: at, WithTarget: make([]int, len(c.WithTarget)), Covered: make([]int, len(c.Covered)), Labels: make([]labelCounts, len(c.Labels))}
				sums[at] = sum
			}
			sum.Rows += c.Rows
			sum.Discovered += c.Discovered
			sum.Unusual += c.Unusual
			sum.FitDuplicates += c.FitDuplicates
			for k := range c.WithTarget {
				sum.WithTarget[k] += c.WithTarget[k]
				sum.Covered[k] += c.Covered[k]
			}
			for list, l := range c.Labels {
				sum.Labels[list].Rows += l.Rows
				sum.Labels[list].Discoveries += l.Discoveries
				sum.Labels[list].errors += l.errors
			}
			for way, outliers := range c.outlierPair {
				sum.outlierPair[way] += outliers
			}
		}
	}
	for name, sum := range sums {
		parent := parentFolder(name)
		largest[parent] = max(largest[parent], sum.Rows)
	}
	var list []Group
	for _, name := range slices.Sorted(maps.Keys(sums)) {
		sum := sums[name]
		if sum.Rows == largest[name] {
			continue // its only sub-folder has the same inputs
		}
		if sum.outliers = min(sum.outlierPair[0], sum.outlierPair[1]); sum.Rows == t.a.Inputs {
			sum.outliers = t.a.Outliers
		}
		list = append(list, sum.group(folderKind))
	}
	return list
}

// parentFolder returns the folder that holds a folder, or an empty string if the name has none.
func parentFolder(name string) string {
	i := strings.LastIndexByte(name, '/')
	if i <= 0 || strings.HasSuffix(name[:i], ":/") {
		return ""
	}
	return name[:i]
}
