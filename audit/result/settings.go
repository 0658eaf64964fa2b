package result

import "github.com/attach-uncertainty/attach"

// Settings describes what was scored, and how. Only audits with equal settings are merged.
type Settings struct {
	// Bundle, Model and Preprocess are the SHA-256 of files: the .attach file, the model, and the
	// file that says how images are prepared.
	Bundle     string      `json:"bundle_sha256"`
	Model      string      `json:"model_sha256,omitempty"`
	Preprocess string      `json:"preprocess_sha256,omitempty"`
	Task       attach.Task `json:"task"`
	// Calibration is the number of calibration rows. HeldOut is their origin: either
	// separate rows, or rows split off the fit rows.
	Calibration int    `json:"calibration_rows"`
	HeldOut     string `json:"held_out,omitempty"`
	// Interval is the number of calibration rows that calibrate intervals, or 0 if all do.
	Interval int `json:"interval_calibration_rows,omitempty"`
	// Reused is the number of calibration rows that were also used to fit.
	Reused int `json:"reused_calibration_rows,omitempty"`
	// Predicted counts the calibration rows by predicted class, or is nil.
	Predicted []int `json:"predicted,omitempty"`
	// Alpha is the false-alarm rate of the flags of single inputs, Level the coverage of
	// intervals, and FDR the false discovery rate.
	Alpha float64 `json:"alpha"`
	Level float64 `json:"level,omitempty"`
	FDR   float64 `json:"fdr"`
	// Delta is the largest probability that any bound fails. If Conditional is set, the
	// false discovery rate is controlled for a fraction 1-Delta of all calibration sets.
	Delta       float64 `json:"delta"`
	Conditional bool    `json:"conditional,omitempty"`
	// LabelErrorsBy says which calibration rows a given label is compared with: all,
	// class or cluster, or empty if labels are not checked. LabelNoise is the largest fraction
	// of calibration rows with a wrong label.
	LabelErrorsBy string  `json:"label_errors_by,omitempty"`
	LabelNoise    float64 `json:"label_noise,omitempty"`
	// LabelRows is the number of calibration rows of each part. A classifier has one part, or a
	// part for each class or cluster of classes, and LabelParts then holds the part of each
	// class. A regressor has a part for each target.
	LabelRows  []int `json:"label_calibration_rows,omitempty"`
	LabelParts []int `json:"label_parts,omitempty"`
	// Every and Limit select the audited rows of a shard: every Every-th row, and at most
	// Limit rows. If an option is 0, it excludes no rows.
	Every int `json:"every,omitempty"`
	Limit int `json:"limit,omitempty"`
	// Targets are the names of the targets of a regressor with intervals.
	Targets []string `json:"targets,omitempty"`
	// Profiled reports whether the columns of inputs are compared with the fit rows.
	Profiled bool `json:"profiled,omitempty"`
	// Fitted is the digest of the fit rows that inputs are compared with, or empty.
	Fitted  string  `json:"fitted_sha256,omitempty"`
	Reading Reading `json:"reading,omitzero"`
}

// Reading holds the options for reading inputs. A field is zero if the option was not
// given.
type Reading struct {
	FromFeatures bool     `json:"from_features,omitempty"`
	Groups       string   `json:"groups,omitempty"`
	Target       []string `json:"target,omitempty"`
	Text         []string `json:"text,omitempty"`
	Ignore       []string `json:"ignore,omitempty"`
	KeepClasses  []int    `json:"keep_classes,omitempty"`
	FolderLabels bool     `json:"folder_labels,omitempty"`
	SkipBad      bool     `json:"skip_bad,omitempty"`
	// ClassNames is a digest of the class names. Weights is a digest of the weights file.
	ClassNames string `json:"class_names_sha256,omitempty"`
	Weights    string `json:"weights_sha256,omitempty"`
}
