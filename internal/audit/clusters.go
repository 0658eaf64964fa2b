package audit

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/attach-uncertainty/attach/internal/numeric/linkage"
)

const (
	maxClusterKeys   = 5 // largest length of Cluster.Keys
	maxNearestNormal = 3 // largest length of Cluster.NearestNormal
)

// setClusters divides the discoveries on the map into clusters of similar features. The result
// depends on the retained rows alone, and thus not on how rows were divided into parts.
func (t *tally) setClusters(ctx context.Context) error {
	a, list := t.a, t.a.retained.mapRows()
	all, index := normalised(list)
	if all == nil {
		return nil
	}
	var discoveries, normal []int // rows of all
	for k, i := range index {
		switch r := a.mapped[i]; {
		case r.Discovery:
			discoveries = append(discoveries, k)
		case r.PValue > a.Alpha:
			normal = append(normal, k)
		}
	}
	if len(discoveries) == 0 {
		return nil
	}
	clusters, err := linkage.Clusters(ctx, selectRows(all, discoveries))
	if err != nil || clusters == nil {
		return err
	}
	members := make([][]int, slices.Max(clusters)+1)
	for k, c := range clusters {
		if c != linkage.None {
			members[c] = append(members[c], discoveries[k])
		}
	}
	slices.SortStableFunc(members, func(a, b []int) int { return len(b) - len(a) })
	a.Clustered = len(discoveries)
	for c, rows := range members {
		centre := make([]float64, all.RawMatrix().Cols)
		for _, k := range rows {
			floats.AddScaled(centre, 1/float64(len(rows)), all.RawRowView(k))
		}
		name := fmt.Sprintf("cluster %d", c+1)
		inputs := make([]MapRow, len(rows))
		for j, k := range sortByDistance(all, rows, centre) {
			a.mapped[index[k]].Cluster = name
			inputs[j] = a.mapped[index[k]]
		}
		found := describeCluster(inputs)
		found.Name = name
		if a.Fitted == "" {
			for _, k := range sortByDistance(all, normal, centre)[:min(maxNearestNormal, len(normal))] {
				found.NearestNormal = append(found.NearestNormal, a.mapped[index[k]].Key)
			}
		}
		a.Clusters = append(a.Clusters, found)
	}
	for i, r := range list {
		if place := slices.IndexFunc(a.retained.Worst, func(w retainedRow) bool { return w.compare(r) == 0 }); place >= 0 {
			a.HighestScoring[place].Cluster = a.mapped[i].Cluster
		}
	}
	return nil
}

// clusterRows returns the rows of the cluster of a name.
func (a *Audit) clusterRows(name string) map[rowID]bool {
	rows := map[rowID]bool{}
	for i, r := range a.retained.mapRows() {
		if name != "" && a.mapped[i].Cluster == name {
			rows[rowID{r.shardID(), r.At}] = true
		}
	}
	return rows
}

// rowID identifies an audited row of a shard.
type rowID struct {
	shardID
	at int
}

// selectRows returns some rows of x.
func selectRows(x *mat.Dense, rows []int) *mat.Dense {
	selected := mat.NewDense(len(rows), x.RawMatrix().Cols, nil)
	for k, i := range rows {
		selected.SetRow(k, x.RawRowView(i))
	}
	return selected
}

// sortByDistance sorts some rows of x by their distances to a centre.
func sortByDistance(x *mat.Dense, rows []int, centre []float64) []int {
	distance := map[int]float64{}
	for _, k := range rows {
		distance[k] = floats.Distance(x.RawRowView(k), centre, 2)
	}
	return slices.SortedStableFunc(slices.Values(rows), func(i, j int) int { return cmp.Compare(distance[i], distance[j]) })
}

// describeCluster describes the inputs of a cluster, which begin with the most typical.
func describeCluster(inputs []MapRow) Cluster {
	c := Cluster{Inputs: len(inputs)}
	for _, r := range inputs[:min(maxClusterKeys, len(inputs))] {
		c.Keys = append(c.Keys, r.Key)
	}
	most := func(name func(r MapRow) string) *Majority {
		if names := mostFrequent(inputs, name); len(names) > 0 {
			return &names[0]
		}
		return nil
	}
	c.Class = most(func(r MapRow) string { return r.ClassText() })
	c.Place = most(func(r MapRow) string { return r.Place() })
	c.Reasons = most(func(r MapRow) string { return r.ReasonGroup })
	for _, m := range mostFrequent(inputs, func(r MapRow) string { return r.NearestFitRow }) {
		if len(c.NearestNormal) < maxNearestNormal {
			c.NearestNormal = append(c.NearestNormal, m.Name)
		}
	}
	return c
}

// mostFrequent returns the names of inputs except empty ones, the most frequent first. Among
// equally frequent names, it keeps the order of the inputs.
func mostFrequent(inputs []MapRow, name func(r MapRow) string) []Majority {
	var all []Majority
	at := map[string]int{}
	for _, r := range inputs {
		n := name(r)
		if n == "" {
			continue
		}
		if _, ok := at[n]; !ok {
			at[n], all = len(all), append(all, Majority{Name: n})
		}
		all[at[n]].Inputs++
	}
	slices.SortStableFunc(all, func(a, b Majority) int { return b.Inputs - a.Inputs })
	return all
}
