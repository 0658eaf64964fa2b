// Package audit scores large sets of inputs and says what of them does not belong.
//
// A shard is what a user names: a file of rows or a folder of images. Its rows are
// scored in parts, each of which is a Parquet file of consecutive rows with counts
// beside them. Merging puts the rows of parts in the order of shards and computes
// all that is said from sums, so that it is the same whatever the parts are, and
// the audit of a whole is again a part of a larger one.
//
// Nothing here reads inputs or runs a network: package engine hands in rows.
package audit

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/attach-uncertainty/attach"
)

// Identity says what scores are of. Parts of different ones are not merged.
type Identity struct {
	Bundle     string      `json:"bundle_sha256"`
	Model      string      `json:"model_sha256,omitempty"`
	Preprocess string      `json:"preprocess_sha256,omitempty"`
	Task       attach.Task `json:"task"`
	// Calibration is how many scores p-values are of, and HeldOut where they came from.
	Calibration int    `json:"calibration_rows"`
	HeldOut     string `json:"held_out,omitempty"`
	// Reused is how many calibration rows were fitted on too.
	Reused int `json:"reused_calibration_rows,omitempty"`
	// Predicted is how many calibration rows are predicted each class, or nil.
	Predicted []int   `json:"predicted,omitempty"`
	Alpha     float64 `json:"alpha"`
	Level     float64 `json:"level,omitempty"`
	FDR       float64 `json:"fdr"`
	// Delta is the probability that any bound fails, and Conditional says that
	// p-values of discoveries hold for these calibration rows, but for Delta.
	Delta       float64 `json:"delta"`
	Conditional bool    `json:"conditional,omitempty"`
	// Every and Limit say which rows of a shard are audited, 0 being all.
	Every int `json:"every,omitempty"`
	Limit int `json:"limit,omitempty"`
	// Targets are the names of what a regressor with intervals predicts.
	Targets []string `json:"targets,omitempty"`
	// Fitted is the digest of the rows fitted on that inputs are compared with, or empty.
	Fitted  string  `json:"fitted_sha256,omitempty"`
	Reading Reading `json:"reading,omitzero"`
}

// Reading is how inputs are read, as far as it was said.
type Reading struct {
	FromFeatures bool     `json:"from_features,omitempty"`
	Groups       string   `json:"groups,omitempty"`
	Target       []string `json:"target,omitempty"`
	Text         []string `json:"text,omitempty"`
	Ignore       []string `json:"ignore,omitempty"`
	KeepClasses  []int    `json:"keep_classes,omitempty"`
	FolderLabels bool     `json:"folder_labels,omitempty"`
	SkipBad      bool     `json:"skip_bad,omitempty"`
	// ClassNames and Weights are digests: of the names, and of the file.
	ClassNames string `json:"class_names_sha256,omitempty"`
	Weights    string `json:"weights_sha256,omitempty"`
}

// Differs says in which option two identities differ, with both values, or "".
func (id Identity) Differs(other Identity) string {
	if id.Bundle != other.Bundle {
		return "each was made with another M.attach"
	}
	a, b := id.fields(), other.fields()
	for _, name := range []string{
		"from_features", "groups", "target", "text", "ignore", "keep_classes", "folder_labels", "skip_bad", "class_names_sha256", "weights_sha256",
		"model_sha256", "preprocess_sha256", "task", "calibration_rows", "held_out", "reused_calibration_rows", "predicted", "alpha", "level",
		"fdr", "delta", "conditional", "every", "limit", "targets", "fitted_sha256",
	} {
		if one, two := string(a[name]), string(b[name]); one != two {
			return fmt.Sprintf("%s is %s in one and %s in the other", name, cmp.Or(one, "not given"), cmp.Or(two, "not given"))
		}
	}
	return ""
}

// fields are the values of an identity as they are written, by their names.
func (id Identity) fields() (all map[string]json.RawMessage) {
	for _, part := range []any{id, id.Reading} {
		encoded, err := json.Marshal(part)
		if err == nil {
			err = json.Unmarshal(encoded, &all)
		}
		if err != nil {
			panic(err) // numbers and texts alone
		}
	}
	return all
}

// Name is how a shard is called in keys: as it is written, with slashes and without
// what means nothing; a URL without what it asks for.
func Name(written string) string {
	if strings.Contains(written, "://") {
		name, _, _ := strings.Cut(written, "?")
		return strings.TrimRight(name, "/")
	}
	return path.Clean(filepath.ToSlash(written))
}

// folderOf is where a key or a shard lies.
func folderOf(name string) string {
	if i := strings.LastIndexByte(name, '/'); i > 0 {
		return name[:i]
	}
	return path.Dir(name)
}

// Key names a row of a shard for good: its file in a folder or archive, or else its
// number. Folder is where the row lies.
func Key(shard, file string, number int) (key, folder string) {
	base := path.Base(shard)
	switch {
	case file == "":
		return shard + ":" + strconv.Itoa(number), folderOf(shard)
	case strings.EqualFold(path.Ext(shard), ".tar"):
		key = shard + strings.TrimPrefix(file, base)
	case file == base:
		key = shard
	default:
		key = shard + "/" + file
	}
	return key, folderOf(key)
}

// Range is consecutive rows of a shard, of those that are audited. Of is how many
// these are, and Rows how many the shard has.
type Range struct {
	Shard string `json:"shard"`
	Rows  int    `json:"rows"`
	Of    int    `json:"of"`
	Start int    `json:"start"`
	End   int    `json:"end"`
	// Digest is of what the rows hold: those of ranges add up to that of all their rows.
	Digest uint64 `json:"digest,string"`
}

// whole says that a range is all rows of a shard.
func (r Range) whole() bool { return r.Start == 0 && r.End == r.Of }

// Gaps are the rows of a shard, of those that are audited, that ranges lack.
func Gaps(shard string, of int, have []Range) (gaps [][2]int) {
	mine := slices.DeleteFunc(slices.Clone(have), func(r Range) bool { return r.Shard != shard })
	slices.SortFunc(mine, byStart)
	at := 0
	for _, r := range mine {
		if r.Start > at {
			gaps = append(gaps, [2]int{at, r.Start})
		}
		at = max(at, r.End)
	}
	if at < of {
		gaps = append(gaps, [2]int{at, of})
	}
	return gaps
}

// byStart is the order of ranges. Different shards that are called the same, of audits
// that are whole, are in the order of their digests.
func byStart(a, b Range) int {
	return cmp.Or(cmp.Compare(a.Shard, b.Shard), cmp.Compare(a.Start, b.Start), cmp.Compare(a.Digest, b.Digest))
}

// Selected is which of n rows of a shard are audited: every so-many-th, and of these
// the first.
func (id Identity) Selected(n int) (count, step int) {
	step = max(1, id.Every)
	count = (n + step - 1) / step
	if id.Limit > 0 {
		count = min(count, id.Limit)
	}
	return count, step
}
