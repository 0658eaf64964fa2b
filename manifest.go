package attach

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/internal/fitting/conformal"
	"github.com/attach-uncertainty/attach/internal/version"
	"github.com/attach-uncertainty/attach/schema"
)

// manifest holds the content of manifest.json.
type manifest struct {
	Format     int             `json:"format"`
	Library    library         `json:"library"`
	Model      Base            `json:"model"`
	Preprocess json.RawMessage `json:"preprocess,omitempty"`
	Layout     string          `json:"layout,omitempty"`
	Text       *Text           `json:"text,omitempty"`
	Detector   *methodEntry    `json:"detector,omitempty"`
	Quantiles  *methodEntry    `json:"quantiles,omitempty"`
	// FoldStates holds the state of the interval model of each fold.
	FoldStates  []map[string]any `json:"folds,omitempty"`
	Calibration calibration      `json:"calibration"`
	Cells       map[string]any   `json:"cells,omitempty"` // saved state of emptyCells
	Arrays      []arrayEntry     `json:"arrays"`
}

type library struct {
	Module  string `json:"module"`
	Version string `json:"version"`
}

// methodEntry describes a fitted detector or interval model.
type methodEntry struct {
	Method string         `json:"method"`
	Params map[string]any `json:"params"`
	State  map[string]any `json:"state"`
}

type calibration struct {
	Calibration
	// QuantileLevels holds the quantile level of each column of calibration/quantiles.npy.
	QuantileLevels []float64 `json:"quantile_levels,omitempty"`
	// GroupNames holds the names of the groups. Entries of calibration/groups.npy are indices
	// into it.
	GroupNames []string `json:"groups,omitempty"`
}

type arrayEntry struct {
	Name   string `json:"name"`
	DType  string `json:"dtype"`
	Shape  []int  `json:"shape"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
}

// folder returns the folder of the array, including the final slash.
func (e arrayEntry) folder() string { return e.Name[:strings.Index(e.Name, "/")+1] }

// shortName returns the name of the array without its folder and without the suffix.
func (e arrayEntry) shortName() string {
	return strings.TrimSuffix(strings.TrimPrefix(e.Name, e.folder()), arraySuffix)
}

// encode returns the manifest as indented JSON. It does not escape < and &, so that people can
// read it.
func (m manifest) encode() ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(m); err != nil {
		return nil, fmt.Errorf("the manifest cannot be written: %w", err)
	}
	if buf.Len() > maxManifest {
		return nil, fmt.Errorf("the manifest would have %d bytes, but at most %d are allowed; are there too many groups or names?", buf.Len(), maxManifest)
	}
	return buf.Bytes(), nil
}

// decodeManifest decodes a manifest. It checks the format version first, so that a newer
// format gives ErrNewerFormat and not ErrDamaged.
func decodeManifest(b []byte) (manifest, error) {
	var versionOnly struct {
		Format int `json:"format"`
	}
	if err := unmarshal(b, &versionOnly); err != nil {
		return manifest{}, err
	}
	switch {
	case versionOnly.Format > format:
		return manifest{}, fmt.Errorf("%w (format %d, but this version reads formats up to %d); upgrade attach", ErrNewerFormat, versionOnly.Format, format)
	case versionOnly.Format < 1:
		return manifest{}, fmt.Errorf("%w: manifest.json has no format version", ErrDamaged)
	}
	var m manifest
	return m, unmarshal(b, &m)
}

// unmarshal decodes a manifest. Its errors name JSON keys instead of Go types.
func unmarshal(b []byte, to any) error {
	err := json.Unmarshal(b, to)
	if typeErr, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		err = fmt.Errorf("%s has a value of another kind, %s", cmp.Or(typeErr.Field, "it"), typeErr.Value)
	}
	if err != nil {
		return fmt.Errorf("%w: manifest.json: %w", ErrDamaged, err)
	}
	return nil
}

// check returns an error for values that no fit produces and that would break later code.
func (m manifest) check() error {
	c := m.Calibration
	isClassifier := m.Model.Task == Classification
	switch {
	case !isClassifier && m.Model.Task != Regression && m.Model.Task != Embedding:
		return fmt.Errorf("the task is %q", m.Model.Task)
	case m.Model.Width < 1 || m.Model.Width > rows.MaxWidth || m.Model.Outputs < 0 || m.Model.Outputs > rows.MaxWidth:
		return fmt.Errorf("%d features and %d outputs", m.Model.Width, m.Model.Outputs)
	case !m.Model.validLayers():
		return fmt.Errorf("%d earlier layers, with widths that are not positive or too large together", len(m.Model.Layers))
	case strings.Trim(m.Model.SHA256, "0123456789abcdef") != "":
		return fmt.Errorf("the model's sha256 is %q", abbreviateSHA256(m.Model.SHA256))
	case m.Layout != "" && m.Layout != "nchw" && m.Layout != "nhwc":
		return fmt.Errorf("the layout is %q, not nchw or nhwc", m.Layout)
	case m.Model.Sigmoid && !isClassifier:
		return errors.New("the outputs of a regressor are marked as probabilities")
	case m.Model.Residual && isClassifier:
		return errors.New("a classifier has an interval model")
	case c.HeldOut != rows.Given && c.HeldOut != rows.SplitOff:
		return fmt.Errorf("the calibration rows are %q, not given or split", c.HeldOut)
	case c.NFit < 1 || c.NCal < 1:
		return fmt.Errorf("%d fit rows and %d calibration rows", c.NFit, c.NCal)
	case c.NInterval < 0 || c.NInterval >= c.NCal && c.NInterval > 0 || !(c.ErrorRatio >= 0 && c.ErrorRatio <= maxErrorRatio) || c.NInterval == 0 && c.TaughtByCalibration:
		return fmt.Errorf("n_interval %d must be below n_cal %d, and error_ratio %v from 0 to 1,000", c.NInterval, c.NCal, c.ErrorRatio)
	case c.IntervalScore != "" && (m.Quantiles == nil || !slices.Contains(conformal.IntervalScores(), c.IntervalScore)):
		return fmt.Errorf("the interval score is %q", c.IntervalScore)
	case c.IntervalErrors != ownErrors && c.IntervalErrors != outOfFoldErrors && c.IntervalErrors != surrogateErrors:
		return fmt.Errorf("the interval errors are %q", c.IntervalErrors)
	case c.Reused < 0 || c.Reused > c.NCal || c.Repeated < 0 || c.Repeated >= c.NCal:
		return fmt.Errorf("%d calibration rows, with %d reused and %d repeated", c.NCal, c.Reused, c.Repeated)
	case c.Temperature != 0 && (!isClassifier || m.Model.Sigmoid || c.Temperature < 0):
		return fmt.Errorf("the temperature is %v", c.Temperature)
	case !(c.Alpha > 0 && c.Alpha < 1) || !(c.Level > 0 && c.Level < 1):
		return fmt.Errorf("alpha %v or level %v is not between 0 and 1", c.Alpha, c.Level)
	}
	if err := checkPreprocess(m.Preprocess); err != nil {
		return err
	}
	return checkClasses(m.Model.Classes, m.Model.Task, m.Model.Outputs)
}

// checkPreprocess returns an error unless the preprocessing is absent or a JSON object. It
// limits the number of brackets, because indentation grows with the depth.
func checkPreprocess(raw json.RawMessage) error {
	switch brackets := bytes.Count(raw, []byte("{")) + bytes.Count(raw, []byte("[")); {
	case raw == nil:
		return nil
	case !isObject(raw):
		return errors.New("the preprocessing is not a JSON object")
	case brackets > maxBrackets:
		return fmt.Errorf("the preprocessing has %d brackets, which is too many", brackets)
	}
	return nil
}

// checkClasses returns an error if a regressor has class names, or if there are more class
// names than classes. One output stands for two classes; 0 outputs means that their number
// is unknown. There may be fewer names, because the fit rows may lack the last classes.
func checkClasses(names []string, task Task, outputs int) error {
	switch {
	case len(names) > 0 && task == Regression:
		return fmt.Errorf("a regressor has %d class names", len(names))
	case outputs > 0 && len(names) > max(outputs, 2):
		return fmt.Errorf("%d class names for %d outputs", len(names), outputs)
	}
	return nil
}

// validLayers reports whether each layer has at least one column, and all layers together have
// at most rows.MaxWidth columns.
func (b Base) validLayers() bool {
	sum := 0
	for _, l := range b.Layers {
		if l.Width < 1 || l.Width > rows.MaxWidth-sum {
			return false
		}
		sum += l.Width
	}
	return true
}

// checkScalars returns an error unless every parameter is a boolean, a number or a string, as
// in rows.State.
func checkScalars(params map[string]any) error {
	for key, value := range params {
		switch value.(type) {
		case bool, float64, string:
		default:
			return fmt.Errorf("%w: parameter %q in the manifest is not a number, a string or a boolean", ErrDamaged, key)
		}
	}
	return nil
}

// formatVersion returns the oldest format version that can hold the bundle, so that old
// programs read files without new contents: a profile, the words of texts in it, intervals that
// only some of the calibration rows calibrate, weights, an interval score, a ratio of errors that
// involves all calibration rows, weights of classes, folds, and the interval score ridge.
func (b *Bundle) formatVersion() int {
	switch c := b.Calibration; {
	case c.Folds != nil, c.IntervalScore == conformal.Ridge:
		return format
	case c.IntervalScore != "", c.ErrorRatio > 0 && c.NInterval == 0, c.LabelShift != nil:
		return 6
	case c.Weights != nil:
		return 5
	case c.NInterval > 0:
		return 4
	case b.Profile == nil:
		return 1
	case !slices.ContainsFunc(b.Profile.Columns, func(c schema.Column) bool { return c.Words != nil }):
		return 2
	}
	return 3
}

// manifest returns the manifest of b without its list of arrays.
func (b *Bundle) manifest(states map[string]rows.State) manifest {
	m := manifest{
		Format:      b.formatVersion(),
		Library:     library{Module: version.Module, Version: b.Library},
		Model:       b.Base,
		Preprocess:  b.Preprocess,
		Layout:      b.Layout,
		Text:        b.Text,
		Calibration: calibration{Calibration: b.Calibration},
		Cells:       states[cellsFolder].Params,
	}
	if q := b.Calibration.Quantiles; len(q) > 0 {
		m.Calibration.QuantileLevels = q[0].Levels
		m.Calibration.GroupNames = b.Calibration.groupNames()
	}
	if b.Detector != nil {
		m.Detector = &methodEntry{Method: b.Detector.Method, Params: b.Detector.Params, State: states[detectorFolder].Params}
	}
	if h := b.IntervalModel; h != nil {
		m.Quantiles = &methodEntry{Method: h.Method, Params: h.Params, State: states[quantilesFolder].Params}
		m.FoldStates, _ = b.foldStates()
	}
	return m
}
