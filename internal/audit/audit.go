// Package audit finds outliers in large sets of inputs.
//
// A shard is a file of rows or a folder of images that the user names. Its rows are scored
// in parts. A part is a Parquet file of consecutive rows, with counts in its header. To
// merge parts, this package sorts the rows of all parts by shard and adds up the counts.
// The results therefore do not depend on how rows were divided into parts. An audit can
// itself be merged into a larger audit.
//
// Package engine reads the inputs, runs the model and passes the rows to this package.
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
)

// Difference is a field in which two identities differ. Key is its key in audit.json. One and
// Other are its values as JSON, or empty.
type Difference struct{ Key, One, Other string }

// String gives both values, except for the .attach file.
func (d *Difference) String() string {
	if d.Key == bundleKey {
		return "they were made with different .attach files"
	}
	return fmt.Sprintf("%s is %s in one and %s in the other", d.Key, cmp.Or(d.One, "not given"), cmp.Or(d.Other, "not given"))
}

// bundleKey is the key of Identity.Bundle.
const bundleKey = "bundle_sha256"

// MergeError reports that two files of scores differ, so that they cannot be merged.
type MergeError struct {
	one, other string // paths
	Difference
}

func (e *MergeError) Error() string {
	return fmt.Sprintf("%s and %s cannot be merged: %v", e.one, e.other, &e.Difference)
}

// Differs returns the first difference of two identities, or nil if they are equal.
func (id Identity) Differs(other Identity) *Difference {
	a, b := id.fields(), other.fields()
	for _, key := range []string{
		bundleKey, "from_features", "groups", "target", "text", "ignore", "keep_classes", "folder_labels", "skip_bad", "class_names_sha256", "weights_sha256",
		"model_sha256", "preprocess_sha256", "task", "calibration_rows", "held_out", "interval_calibration_rows", "reused_calibration_rows", "predicted", "alpha", "level",
		"label_errors_by", "label_calibration_rows", "label_parts", "label_noise", "fdr", "delta", "conditional", "every", "limit", "targets", "profiled", "fitted_sha256",
	} {
		if one, other := string(a[key]), string(b[key]); one != other {
			return &Difference{key, one, other}
		}
	}
	return nil
}

// fields returns the JSON fields of an identity and of its Reading, by key.
func (id Identity) fields() (all map[string]json.RawMessage) {
	for _, part := range []any{id, id.Reading} {
		encoded, err := json.Marshal(part)
		if err == nil {
			err = json.Unmarshal(encoded, &all)
		}
		if err != nil {
			panic(err) // encoding finite numbers and strings cannot fail
		}
	}
	return all
}

// widthRows returns the number of calibration rows that interval widths are ranked among.
func (id Identity) widthRows() int { return cmp.Or(id.Interval, id.Calibration) }

// Name returns the name of a shard for use in keys. The name is the cleaned path with
// forward slashes, or the URL without its query and trailing slashes.
func Name(written string) string {
	if strings.Contains(written, "://") {
		name, _, _ := strings.Cut(written, "?")
		return strings.TrimRight(name, "/")
	}
	return path.Clean(filepath.ToSlash(written))
}

// folderOf returns the folder of a key or shard.
func folderOf(name string) string {
	if i := strings.LastIndexByte(name, '/'); i > 0 {
		return name[:i]
	}
	return path.Dir(name)
}

// Key returns a stable name of a row, and its folder. The name is the path of the row's
// file in a folder or archive. If the row has no file of its own, the name is the shard and
// the row number.
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

// Range is a range of the audited rows of a shard. Audited is the number of all audited
// rows of the shard, and Rows is the number of all its rows.
type Range struct {
	Shard   string `json:"shard"`
	Rows    int    `json:"rows"`
	Audited int    `json:"of"`
	Start   int    `json:"start"`
	End     int    `json:"end"`
	// Digest is a digest of the rows in the range. The digests of adjacent ranges add up.
	Digest uint64 `json:"digest,string"`
}

// complete reports whether a range contains all audited rows of its shard.
func (r Range) complete() bool { return r.Start == 0 && r.End == r.Audited }

// Gaps returns the ranges of audited rows of a shard that are missing from have.
func Gaps(shard string, audited int, have []Range) (gaps [][2]int) {
	ranges := slices.DeleteFunc(slices.Clone(have), func(r Range) bool { return r.Shard != shard })
	slices.SortFunc(ranges, byStart)
	at := 0
	for _, r := range ranges {
		if r.Start > at {
			gaps = append(gaps, [2]int{at, r.Start})
		}
		at = max(at, r.End)
	}
	if at < audited {
		gaps = append(gaps, [2]int{at, audited})
	}
	return gaps
}

// byStart orders ranges by shard and first row. Merged audits can contain different shards
// with the same name, so it also orders ranges by digest.
func byStart(a, b Range) int {
	return cmp.Or(cmp.Compare(a.Shard, b.Shard), cmp.Compare(a.Start, b.Start), cmp.Compare(a.Digest, b.Digest))
}

// Selected returns the number of audited rows among n rows of a shard, and the step from
// one audited row to the next.
func (id Identity) Selected(n int) (count, step int) {
	step = max(1, id.Every)
	count = (n + step - 1) / step
	if id.Limit > 0 {
		count = min(count, id.Limit)
	}
	return count, step
}
