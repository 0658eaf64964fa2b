package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/attach-uncertainty/attach/internal/audit"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/display"
)

// maxMapText is the largest number of characters of a name in the table of the map.
const maxMapText = 80

// maxTypical is the largest number of typical inputs of a cluster on the page.
const maxTypical = 3

// Markers of a map. Markers 1 to 6 stand for clusters, or the first for all discoveries if
// there are no clusters.
const (
	plainMarker     = 0
	discoveryMarker = 1
	outsideMarker   = 7 // a discovery in no cluster
)

// mapPoint is an input on a map. Row is its row in the table of the map.
type mapPoint struct {
	Row, Marker int
	X, Y        float64
}

// featureBlocks shows the clusters of discoveries, and a map of the features.
func featureBlocks(a *audit.Audit) []block {
	list, err := a.Map()
	if err != nil {
		list = nil // features without principal components have no map
	}
	return slices.Concat(clusterBlocks(a), mapBlocks(a, list))
}

// clusterBlocks shows what the inputs of each cluster have in common.
func clusterBlocks(a *audit.Audit) []block {
	if len(a.Clusters) == 0 {
		return nil
	}
	inputs := 0
	for _, c := range a.Clusters {
		inputs += c.Inputs
	}
	b := block{Title: "Discoveries with similar features", Lead: fmt.Sprintf("%s of %s are in %s, by their features. These discoveries have the highest scores, or are in a random sample of all inputs.",
		display.Count(inputs), rows.Count(a.Clustered, "discovery"), rows.Count(len(a.Clusters), "cluster"))}
	g := grid{Save: "clusters.csv"}
	texts := func(name string, width int, get func(c audit.Cluster) string) {
		if all := mapSlice(a.Clusters, get); slices.ContainsFunc(all, func(s string) bool { return s != "" }) {
			g.addText(name, all)
			g.Heads[len(g.Heads)-1].Width = width
		}
	}
	most := func(m *audit.Majority) string {
		if m == nil {
			return ""
		}
		return fmt.Sprintf("%s (%s)", display.Shorten(m.Name, maxMapText), display.Count(m.Inputs))
	}
	names := func(keys []string) string {
		return strings.Join(mapSlice(keys, func(s string) string { return display.Shorten(s, maxMapText) }), ", ")
	}
	texts("cluster", 9, func(c audit.Cluster) string { return c.Name })
	g.addNumbers("inputs", "", mapSlice(a.Clusters, func(c audit.Cluster) float64 { return float64(c.Inputs) }), formatWhole)
	texts("most typical inputs", 26, func(c audit.Cluster) string { return names(c.Keys[:min(maxTypical, len(c.Keys))]) })
	texts("unusual values", 18, func(c audit.Cluster) string { return most(c.Reasons) })
	texts("most of them in", 16, func(c audit.Cluster) string { return most(c.Place) })
	texts("predicted class", 0, func(c audit.Cluster) string { return most(c.Class) })
	texts("most similar normal rows", 26, func(c audit.Cluster) string { return names(c.NearestNormal) })
	b.Tables = []grid{g}
	return []block{b}
}

// mapBlocks shows a map of inputs, and a table of them.
func mapBlocks(a *audit.Audit, list []audit.MapRow) []block {
	if len(list) == 0 {
		return nil
	}
	b := block{Title: "Map of the features", Filter: true, By: map[int]string{}, Charts: []chart{mapChart(a, list)}}
	var g grid
	text := func(name string, get func(r audit.MapRow) string) bool {
		all := mapSlice(list, get)
		first := all[0]
		if !slices.ContainsFunc(all, func(s string) bool { return s != first }) {
			return false
		}
		g.addText(name, mapSlice(all, func(s string) string { return display.Shorten(s, maxMapText) }))
		return true
	}
	group := func(name string, get func(r audit.MapRow) string) {
		if text(name, get) {
			b.By[len(g.Heads)-1] = name
		}
	}
	g.addText("input", mapSlice(list, func(r audit.MapRow) string { return display.Shorten(r.Key, maxMapText) }))
	g.addNumbers("p-value", "", mapSlice(list, func(r audit.MapRow) float64 { return r.PValue }), formatFourDigits)
	group("discovery", func(r audit.MapRow) string { return yesNo(r.Discovery) })
	group("cluster", func(r audit.MapRow) string { return r.Cluster })
	group("folder or file", audit.MapRow.Place)
	group("class", audit.MapRow.ClassText)
	group("label error", func(r audit.MapRow) string { return yesNo(slices.Contains(r.LabelDiscovery, true)) })
	group("unusual values", func(r audit.MapRow) string { return r.ReasonGroup })
	b.Tables = []grid{g}
	b.Lead = fmt.Sprintf("%s of %s: those with the highest scores, and a random sample. Choose what to show, or point at an input. Arrow keys go from one input to the next.", display.Count(len(list)), rows.Count(a.Inputs, "input"))
	return []block{b}
}

// mapChart draws inputs at their positions. Discoveries are drawn last, on top of the others.
func mapChart(a *audit.Audit, list []audit.MapRow) chart {
	x, y := mapSlice(list, func(r audit.MapRow) float64 { return r.X }), mapSlice(list, func(r audit.MapRow) float64 { return r.Y })
	c := newChart("first principal component", "second principal component", span{slices.Min(x), slices.Max(x)}.widened(), span{slices.Min(y), slices.Max(y)}.widened(), chartWidth, 5, 5)
	c.Note = "The two directions in which normalised features vary most. Inputs that are close here can differ in other directions."
	used := map[int]bool{}
	for i, r := range list {
		p := mapPoint{Row: i, Marker: mapMarker(a, r), X: c.x.position(r.X) * c.Width, Y: (1 - c.y.position(r.Y)) * c.Height}
		c.Points, used[p.Marker] = append(c.Points, p), true
	}
	slices.SortStableFunc(c.Points, func(a, b mapPoint) int { return cmp.Compare(min(a.Marker, 1), min(b.Marker, 1)) })
	names := []string{plainMarker: "other inputs", discoveryMarker: "discoveries", outsideMarker: "discoveries in no cluster"}
	for k, cluster := range a.Clusters {
		names[discoveryMarker+k] = cluster.Name
	}
	for marker, name := range names {
		if used[marker] {
			c.Key = append(c.Key, legendEntry{marker, name})
		}
	}
	return c
}

// mapMarker returns the marker of an input.
func mapMarker(a *audit.Audit, r audit.MapRow) int {
	switch k := slices.IndexFunc(a.Clusters, func(c audit.Cluster) bool { return c.Name == r.Cluster }); {
	case !r.Discovery:
		return plainMarker
	case len(a.Clusters) == 0:
		return discoveryMarker
	case k < 0:
		return outsideMarker
	default:
		return discoveryMarker + k
	}
}

func yesNo(yes bool) string {
	if yes {
		return "yes"
	}
	return "no"
}
