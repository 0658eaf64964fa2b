package audit

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/attach-uncertainty/attach/internal/display"
)

// maxPlaces is the largest number of places of a kind that a text names.
const maxPlaces = 6

// maxPlaceName is the largest number of characters of a place in a text.
const maxPlaceName = 60

// OutlierPlaces returns where outliers are proven, as in "31 of 250 in cam-4/tue, 4 of 250 in
// cam-4/mon", or an empty string. It names the files. If there is one file, it names the folders
// in it. Groups of rows follow.
func (a *Audit) OutlierPlaces() string {
	return a.places(func(g Group) (proven, inputs int) { return g.Outliers, g.Inputs })
}

// LabelErrorPlaces is OutlierPlaces for wrong labels, or wrong values of target k.
func (a *Audit) LabelErrorPlaces(k int) string {
	return a.places(func(g Group) (proven, inputs int) {
		if k >= len(g.LabelErrors) {
			return 0, 0
		}
		return g.LabelErrors[k], g.Labelled[k]
	})
}

func (a *Audit) places(count func(Group) (proven, inputs int)) string {
	kinds := []string{"shard", "group"}
	if len(a.Shards) == 1 {
		kinds[0] = "folder"
	}
	var texts []string
	for _, kind := range kinds {
		var found []Group
		all := 0
		for _, g := range a.Groups {
			if g.Kind != kind {
				continue
			}
			all++
			if proven, _ := count(g); proven > 0 {
				found = append(found, g)
			}
		}
		if all < 2 { // a place with all inputs tells nothing
			continue
		}
		slices.SortStableFunc(found, func(x, y Group) int {
			provenX, _ := count(x)
			provenY, _ := count(y)
			return cmp.Compare(provenY, provenX)
		})
		more := len(found) - min(maxPlaces, len(found))
		found = found[:len(found)-more]
		// Names in order show a change along time, such as of files of days.
		slices.SortStableFunc(found, func(x, y Group) int { return cmp.Compare(x.Name, y.Name) })
		for _, g := range found {
			proven, inputs := count(g)
			texts = append(texts, fmt.Sprintf("%s of %s in %s", display.Count(proven), display.Count(inputs), display.Shorten(g.Name, maxPlaceName)))
		}
		if more > 0 {
			texts = append(texts, fmt.Sprintf("some in %s more", display.Count(more)))
		}
	}
	return strings.Join(texts, ", ")
}
