package result

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/display"
)

// LabelErrors holds the wrong labels of a classifier, or the wrong values of a target.
type LabelErrors struct {
	Name            string      `json:"name,omitempty"`
	Labelled        int         `json:"labelled"`
	Errors          int         `json:"label_errors_lower_bound"`
	Discoveries     int         `json:"label_discoveries"`
	PValueThreshold float64     `json:"label_p_value_threshold"`
	MinDiscoveries  int         `json:"min_label_discoveries"`
	FDP             float64     `json:"label_fdp_upper_bound"`
	Confusions      []Confusion `json:"confusions,omitempty"`
	// MostSuspicious lists the rows whose labels have the lowest p-values, at most 100.
	MostSuspicious []Row `json:"most_suspicious,omitempty"`
}

// Confusion counts the discoveries with a given and a suggested label.
type Confusion struct {
	Label         int    `json:"label"`
	LabelName     string `json:"label_name,omitempty"`
	Suggested     int    `json:"suggested_label"`
	SuggestedName string `json:"suggested_label_name,omitempty"`
	Discoveries   int    `json:"label_discoveries"`
}

// FewRows explains why there are no discoveries if a discovery would need more calibration rows,
// and is empty otherwise.
func (l LabelErrors) FewRows() string {
	if l.Discoveries > 0 || l.MinDiscoveries <= 1 {
		return ""
	}
	return fmt.Sprintf("with so few calibration rows there are at least %s among %s, or none", rows.Count(l.MinDiscoveries, "discovery"), rows.Count(l.Labelled, "label"))
}

// ConfusionsText returns the most frequent confusions, at most limit, as in "4 looks like 9 (17)".
func (l LabelErrors) ConfusionsText(limit int) string {
	var list []string
	for _, c := range l.Confusions[:min(limit, len(l.Confusions))] {
		list = append(list, fmt.Sprintf("%s looks like %s (%s)", c.Given(), c.SuggestedText(), display.Count(c.Discoveries)))
	}
	return strings.Join(list, ", ")
}

// Given returns the name of the given label, or its number.
func (c Confusion) Given() string { return cmp.Or(c.LabelName, strconv.Itoa(c.Label)) }

// SuggestedText returns the name of the suggested label, or its number.
func (c Confusion) SuggestedText() string { return cmp.Or(c.SuggestedName, strconv.Itoa(c.Suggested)) }
