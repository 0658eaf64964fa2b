package audit

import "slices"

// maxListed is the largest number of groups of each kind, and of shards, in audit.json.
const maxListed = 1000

// bounded returns the results with the groups that audit.json lists. If a kind has too many, these
// are those with the most outliers, in falling order. Programs hold the whole file in memory, and
// an audit of 60,000 files has as many groups.
func (a *Audit) bounded() *Audit {
	b := *a
	b.Groups = nil
	for _, kind := range Kinds() {
		all := slices.DeleteFunc(slices.Clone(a.Groups), func(g Group) bool { return g.Kind != kind })
		if len(all) > maxListed {
			slices.SortStableFunc(all, compareGroups)
			all = all[:maxListed]
		}
		b.Groups = append(b.Groups, all...)
	}
	b.GroupsLeftOut = len(a.Groups) - len(b.Groups)
	b.Shards = a.Shards[:min(maxListed, len(a.Shards))]
	b.ShardsLeftOut = len(a.Shards) - len(b.Shards)
	return &b
}
