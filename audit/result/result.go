package result

import (
	"fmt"
	"math"

	"github.com/attach-uncertainty/attach/calibrate"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/display"
	"github.com/attach-uncertainty/attach/schema"
)

// Audit is the result of an audit, as audit.json holds it. docs/reference/json.md describes
// its JSON keys.
type Audit struct {
	// Inputs is the number of audited inputs.
	Inputs int `json:"inputs"`
	Settings
	// Outliers is a lower bound on the number of inputs that do not come from the source of the
	// calibration rows. With probability 1-Delta, this bound and all others hold at once.
	Outliers int `json:"outliers_lower_bound"`
	// Discoveries is the number of inputs that are named as outliers: those with p-values up to
	// PValueThreshold. On average, at most the fraction Settings.FDR of them is false. This is the
	// procedure of Benjamini and Hochberg (1995) with conformal p-values, after Bates et al.
	// (2023). MinDiscoveries is the smallest number of discoveries that is possible, except 0.
	Discoveries     int     `json:"discoveries"`
	PValueThreshold float64 `json:"p_value_threshold"`
	MinDiscoveries  int     `json:"min_discoveries"`
	// FDP is an upper bound on the fraction of false discoveries.
	FDP    float64 `json:"fdp_upper_bound"`
	Storey Storey  `json:"storey"`
	// Flagged is the number of inputs with p-values up to Settings.Alpha.
	Flagged int `json:"flagged"`
	// FitDuplicates is the number of inputs near a fit row, or nil if Settings.Fitted is empty.
	FitDuplicates *int        `json:"fit_duplicates,omitempty"`
	Shift         AnyShift    `json:"shift"`
	Thresholds    []Threshold `json:"thresholds"`
	// PValueCounts counts the inputs by p-value, in bins of equal width from 0 to 1.
	PValueCounts []int   `json:"p_value_counts"`
	Groups       []Group `json:"groups"`
	// GroupsLeftOut and ShardsLeftOut count what is not listed in audit.json.
	GroupsLeftOut int     `json:"groups_left_out,omitempty"`
	ShardsLeftOut int     `json:"shards_left_out,omitempty"`
	Classes       []Class `json:"class_shares,omitempty"`
	// LabelErrors has one element for a classifier, and one per target for a regressor. It is
	// nil unless Settings.LabelErrorsBy is set.
	LabelErrors    []LabelErrors `json:"label_errors,omitempty"`
	Intervals      []Interval    `json:"intervals,omitempty"`
	Shards         []Shard       `json:"shards"`
	HighestScoring []Row         `json:"highest_scoring"`  // the highest score first
	Copies         *Copies       `json:"copies,omitempty"` // nil if all inputs differ
	// Schema describes how the columns of the inputs differ from the fit rows. It is nil if the
	// .attach file has no profile.
	Schema *schema.Summary `json:"schema,omitempty"`
	// ReasonGroups counts inputs by their reasons, those with the most discoveries first.
	// Inputs without a reason come last.
	ReasonGroups []ReasonGroup `json:"reason_groups,omitempty"`
	// Clusters divides the discoveries that Clustered counts by their features: those among
	// HighestScoring and in a random sample of the inputs. It is nil if their features form no
	// clusters.
	Clusters  []Cluster `json:"clusters,omitempty"`
	Clustered int       `json:"clustered,omitempty"`
	// Notes are sentences about the guarantees, about what violates them, and about unusual
	// results.
	Notes []string `json:"notes"`
	// UsedInFit and UsedInCalibration estimate how many inputs were used to fit and to
	// calibrate. Both are 0 if the .attach file keeps no hashes.
	UsedInFit         int `json:"used_in_fit,omitempty"`
	UsedInCalibration int `json:"used_in_calibration,omitempty"`
}

// Storey holds the discoveries of Storey's procedure.
type Storey struct {
	Discoveries     int     `json:"discoveries"`
	PValueThreshold float64 `json:"p_value_threshold"`
}

// Shift holds the p-values of two tests. Higher is small if the inputs score higher than
// the calibration rows. Lower is small if they score lower.
type Shift struct {
	Higher float64 `json:"p_higher"`
	Lower  float64 `json:"p_lower"`
}

// AnyShift combines the shift test of all inputs with the shift tests of each file, folder
// and group. Half of the error probability is spent on all inputs. The other half is
// divided equally among the files, folders and groups. Those that hold all inputs, and
// folders with exactly the rows of one file, have no test of their own. The bounds on
// outliers divide Delta in the same way, so Higher is at most Delta if and only if Outliers
// is above 0.
type AnyShift struct {
	Shift
	// HigherIn is the place with the smallest p-value for higher scores. LowerIn is the
	// place with the smallest p-value for lower scores.
	HigherIn Place `json:"higher_in"`
	LowerIn  Place `json:"lower_in"`
	// GroupsTested is the number of files, folders and groups tested. AllInputs is the test
	// of all inputs, without correction for the other tests.
	GroupsTested int   `json:"groups_tested"`
	AllInputs    Shift `json:"all_inputs"`
}

// Place names a group by its kind and name. The kind "all" stands for all inputs.
type Place struct {
	Kind string `json:"kind"`
	Name string `json:"name,omitempty"`
}

// Threshold bounds the fraction of inliers among the inputs with p-values up to PValue.
type Threshold struct {
	PValue float64 `json:"p_value"`
	Inputs int     `json:"inputs"`
	FDP    float64 `json:"fdp_upper_bound"`
}

// Group holds the counts of a shard, a folder, a group of rows, a predicted class or a given
// label.
type Group struct {
	Kind          string `json:"kind"`
	Name          string `json:"name"`
	Inputs        int    `json:"inputs"`
	Discoveries   int    `json:"discoveries"`
	Outliers      int    `json:"outliers_lower_bound"`
	Unusual       int    `json:"unusual,omitempty"` // inputs with a reason
	FitDuplicates int    `json:"fit_duplicates,omitempty"`
	// WithTarget counts the rows whose target is known. Covered counts the rows whose
	// interval contains the target. Both have one element per target.
	WithTarget []int `json:"with_target,omitempty"`
	Covered    []int `json:"covered,omitempty"`
	// Labelled counts the rows with a known label. LabelDiscoveries counts the discoveries among
	// them, and LabelErrors bounds the number of wrong labels. Each list has one element for each
	// of Audit.LabelErrors.
	Labelled         []int `json:"labelled,omitempty"`
	LabelDiscoveries []int `json:"label_discoveries,omitempty"`
	LabelErrors      []int `json:"label_errors_lower_bound,omitempty"`
}

// Class compares how often a class is predicted for calibration rows and for inputs.
type Class struct {
	Class       int     `json:"class"`
	Name        string  `json:"name,omitempty"`
	Calibration float64 `json:"calibration"`
	Audited     float64 `json:"audited"`
	PValue      float64 `json:"p_value"`
}

// Interval compares the widths of the intervals of a target with the widths for the
// calibration rows.
type Interval struct {
	Name            string  `json:"name,omitempty"`
	Wide            int     `json:"wide"`
	PValueThreshold float64 `json:"width_p_value_threshold"`
	Shift           Shift   `json:"width_shift"`
	WithTarget      int     `json:"with_target,omitempty"`
	Covered         int     `json:"covered,omitempty"`
	Widest          []Row   `json:"widest,omitempty"`
}

// ReasonGroup counts the inputs that have the same reasons. Reasons is the text that
// schema.Group returns. It is empty for inputs without a reason.
type ReasonGroup struct {
	Reasons     string `json:"reasons"`
	Inputs      int    `json:"inputs"`
	Discoveries int    `json:"discoveries"`
	// Places are the files or folders with the most of these inputs, at most three.
	Places []ReasonPlace `json:"places"`
}

// ReasonPlace counts the inputs of a reason group in a file or folder. First and Last are the
// numbers of the first and of the last of these rows, counted from 0.
type ReasonPlace struct {
	Shard  string `json:"shard"`
	Inputs int    `json:"inputs"`
	First  int    `json:"first_row"`
	Last   int    `json:"last_row"`
}

// String returns a phrase such as "day/tue.csv: 400 in rows 500–899".
func (p ReasonPlace) String() string {
	if p.First == p.Last {
		return fmt.Sprintf("%s: row %d", p.Shard, p.First)
	}
	return fmt.Sprintf("%s: %s in rows %d–%d", p.Shard, display.Count(p.Inputs), p.First, p.Last)
}

// Cluster holds discoveries with similar features.
type Cluster struct {
	Name   string   `json:"name"` // such as "cluster 1"
	Inputs int      `json:"inputs"`
	Keys   []string `json:"keys"` // keys of the most typical inputs, at most five
	// NearestNormal holds the keys of normal rows with the most similar features, at most three:
	// fit rows if Settings.Fitted is set, and otherwise inputs that are not flagged.
	NearestNormal []string `json:"nearest_normal,omitempty"`
	// Class, Place and Reasons are the most frequent predicted class, file or folder, and
	// reasons without their values.
	Class   *Majority `json:"class,omitempty"`
	Place   *Majority `json:"place"`
	Reasons *Majority `json:"reasons,omitempty"`
}

// Majority is the most frequent name among inputs, with its number of inputs.
type Majority struct {
	Name   string `json:"name"`
	Inputs int    `json:"inputs"`
}

// CoveredFraction returns the fraction of known targets that are within their intervals, or
// NaN if no target is known.
func (i Interval) CoveredFraction() float64 { return coveredFraction(i.Covered, i.WithTarget) }

// CoveredFraction returns the fraction of the known targets k in the group that are within
// their intervals. It returns NaN if target k is not known for any row.
func (g Group) CoveredFraction(k int) float64 {
	if k >= len(g.WithTarget) {
		return math.NaN()
	}
	return coveredFraction(g.Covered[k], g.WithTarget[k])
}

func coveredFraction(covered, known int) float64 { return float64(covered) / float64(known) }

// Shard describes an audited file or folder. Rows is the number of all its rows, and Inputs
// the number of audited rows.
type Shard struct {
	Name   string `json:"name"`
	Rows   int    `json:"rows"`
	Inputs int    `json:"inputs"`
}

// Subject returns the name of the audited file or folder. If there are several, it returns
// the name of the first and the number of the others.
func (a *Audit) Subject() string {
	name := a.Shards[0].Name
	if n := len(a.Shards); n > 1 {
		name += fmt.Sprintf(" and %d more", n-1)
	}
	return name
}

// TooFew reports whether there is no discovery because there are too few calibration rows:
// fewer than MinDiscoveries inputs have the smallest possible p-value, and there may be fewer
// outliers than that.
func (a *Audit) TooFew() bool {
	return a.Discoveries == 0 && a.MinDiscoveries > 1 && a.Thresholds[0].Inputs < a.MinDiscoveries && a.Outliers < a.MinDiscoveries
}

// FewRows returns an explanation that a small number of discoveries would need more
// calibration rows, and how many. The number is the bound on outliers, but at least 1.
func (a *Audit) FewRows() string {
	o := calibrate.DiscoveryOptions{FDR: a.FDR}
	if a.Conditional {
		o.Delta = a.Delta
	}
	text := fmt.Sprintf("with %s there are at least %s among %s, or none", rows.Count(a.Calibration, "calibration row"), rows.Count(a.MinDiscoveries, "discovery"), rows.Count(a.Inputs, "input"))
	fewer := max(1, a.Outliers)
	if n, err := o.CalibrationRows(fewer, a.Inputs); err == nil {
		text += fmt.Sprintf("; %s would need at least %s", rows.Count(fewer, "discovery"), rows.Count(n, "calibration row"))
	}
	return text
}

// String returns the kind and the name of a place. For a shard it returns only the name, and
// for all inputs an empty string.
func (p Place) String() string {
	switch p.Kind {
	case "all":
		return ""
	case "shard":
		return p.Name
	}
	return p.Kind + " " + p.Name
}

// ShiftFinding returns the result of the shift test as a sentence without a full stop.
func (a *Audit) ShiftFinding() string {
	if a.Shift.Higher > a.Delta {
		return "no evidence that the inputs score higher than the calibration rows"
	}
	if name := a.Shift.HigherIn.String(); name != "" {
		return "the inputs of " + name + " score higher than the calibration rows"
	}
	return "the inputs score higher than the calibration rows"
}

// Unnamed reports whether there are more than twice as many outliers as discoveries, although
// there are enough calibration rows. If so, most outliers cannot be named.
func (a *Audit) Unnamed() bool { return a.Outliers > 2*a.Discoveries && !a.TooFew() }

// maxNotedColumns is the largest number of columns that notes describe.
const maxNotedColumns = 10

// NotableColumns returns the columns to look at, at most ten, and the number of others.
func (a *Audit) NotableColumns() (first []schema.ColumnSummary, more int) {
	if a.Schema == nil {
		return nil, 0
	}
	all := a.Schema.NotableColumns()
	first = all[:min(maxNotedColumns, len(all))]
	return first, len(all) - len(first)
}
