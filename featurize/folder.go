package featurize

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/internal/data/regularfile"
	"github.com/attach-uncertainty/attach/internal/display"
	"github.com/attach-uncertainty/attach/preprocess"
)

const (
	// Names of the files that exporters write beside a model.
	configFile          = "config.json"
	preprocessorFile    = "preprocessor_config.json"
	tokenizerFile       = "tokenizer.json"
	tokenizerConfigFile = "tokenizer_config.json"
)

// folder describes the files that an exporter wrote beside a model.
type folder struct {
	dir        string // "" if the model has no such folder
	config     exportConfig
	preprocess json.RawMessage // image preprocessing, or nil
	text       *attach.Text    // tokenizer, or nil
	unused     []string        // files that cannot be used, with reasons
}

// exportConfig is the content of the config.json that an exporter writes.
type exportConfig struct {
	ModelType     string            `json:"model_type"`
	Architectures []string          `json:"architectures"`
	Names         map[string]string `json:"id2label"`
	Labels        *int              `json:"num_labels"`
	Problem       string            `json:"problem_type"`
	Positions     int               `json:"max_position_embeddings"`
	Context       int               `json:"n_positions"`
	PadID         *float64          `json:"pad_token_id"`
}

// findModel returns the path of the model and the exporter's folder. The argument is the
// path of the model or of that folder. If there is no exporter's folder, dir is "".
func findModel(path string) (model, dir string, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return path, "", nil // the caller gets this error when it reads the model
	}
	if !info.IsDir() {
		return path, exporterDir(path), nil
	}
	for _, name := range []string{"model.onnx", filepath.Join("onnx", "model.onnx")} {
		at := filepath.Join(path, name)
		if info, err := os.Stat(at); err == nil && !info.IsDir() {
			return at, path, nil
		}
	}
	var found []string
	for _, pattern := range []string{"*.onnx", filepath.Join("onnx", "*.onnx")} {
		list, _ := fs.Glob(os.DirFS(path), filepath.ToSlash(pattern))
		found = append(found, list...)
	}
	switch len(found) {
	case 0:
		return "", "", fmt.Errorf("%s: the folder has no .onnx file, and neither has its subfolder onnx/", path)
	case 1:
		return filepath.Join(path, filepath.FromSlash(found[0])), path, nil
	}
	return "", "", fmt.Errorf("%s: the folder has several models and no model.onnx; name one of them: %s", path, display.List(found, 10))
}

// exporterDir returns the folder that an exporter wrote a model to, or "". Such a folder
// contains a config.json with model_type, architectures or id2label.
func exporterDir(model string) string {
	dirs := []string{filepath.Dir(model)}
	if absPath, err := filepath.Abs(model); err == nil && filepath.Base(filepath.Dir(absPath)) == "onnx" {
		dirs = append(dirs, filepath.Join(dirs[0], ".."))
	}
	for _, dir := range dirs {
		var c exportConfig
		content, err := regularfile.ReadFile(filepath.Join(dir, configFile))
		if err == nil && json.Unmarshal(content, &c) == nil && (c.ModelType != "" || c.Architectures != nil || c.Names != nil) {
			return dir
		}
	}
	return ""
}

// readFolder reads the files beside a model. If the content of a file cannot be used,
// readFolder returns no error but lists the file in unused.
func readFolder(dir string) (*folder, error) {
	f := &folder{dir: dir}
	if dir == "" {
		return f, nil
	}
	var err error
	read := func(name string) (content []byte) {
		if err == nil {
			content, err = regularfile.ReadFile(filepath.Join(dir, name))
		}
		if errors.Is(err, fs.ErrNotExist) {
			content, err = nil, nil
		}
		return content
	}
	content, imageConfig := read(configFile), read(preprocessorFile)
	text := attach.Text{Tokenizer: read(tokenizerFile), Config: read(tokenizerConfigFile)}
	if err != nil {
		return nil, err
	}
	if content != nil {
		err := json.Unmarshal(content, &f.config)
		if string(bytes.TrimSpace(content)) == "null" {
			err = errors.New("it holds nothing")
		}
		if err != nil {
			f.markUnusable(configFile, fmt.Errorf("it is not what exporters write: %w", err))
			f.config = exportConfig{}
		}
	}
	if imageConfig != nil {
		if _, err := preprocess.Parse(imageConfig); err != nil {
			f.markUnusable(preprocessorFile, err)
		} else {
			f.preprocess = imageConfig
		}
	}
	if text.Tokenizer != nil {
		f.text = &text
	}
	return f, nil
}

// tokenizer returns a tokenizer for a model with the given inputs, or nil if there is no usable
// tokenizer.
func (f *folder) tokenizer(inputs inputs) *textTokenizer {
	ids := inputs.byRole(tokenIDs)
	if ids == nil {
		f.text = nil
		return nil
	}
	if f.text == nil {
		if f.dir != "" {
			f.markUnusable(tokenizerFile, errors.New("it is absent; texts need it, and transformers writes it with AutoTokenizer.from_pretrained(…).save_pretrained(…)"))
		}
		return nil
	}
	if inputs.byRole(tokenPositions) != nil && f.config.hasPositionOffset() {
		f.markUnusable(configFile, fmt.Errorf("networks of type %s count positions from their padding, and this one takes them as an input; rows of tokens must bring them", f.config.ModelType))
		f.text = nil
		return nil
	}
	x, err := newTextTokenizer(*f.text, inputs)
	if err != nil {
		f.unused, f.text = append(f.unused, err.Error()), nil
		return nil
	}
	fixed := 0
	if len(ids.dims) == 2 {
		fixed = ids.dims[1]
	}
	for _, limit := range []int{f.config.positions(), fixed} {
		if limit > 0 && (x.MaxTokens == 0 || limit < x.MaxTokens) {
			x.MaxTokens = limit
		}
	}
	text := *f.text
	text.MaxTokens = x.MaxTokens
	f.text = &text
	return x
}

// positionOffsetTypes lists the types of networks that reserve their first positions for padding.
var positionOffsetTypes = [...]string{"roberta", "xlm-roberta", "xlm-roberta-xl", "camembert", "mpnet", "longformer", "data2vec-text", "ibert", "luke", "esm", "xmod", "roberta-prelayernorm"}

// hasPositionOffset reports whether the network reserves its first positions for padding,
// so that real positions start after them.
func (c exportConfig) hasPositionOffset() bool {
	return slices.Contains(positionOffsetTypes[:], c.ModelType)
}

// positions returns the number of tokens that the network has position embeddings for, or 0
// if it is unknown.
func (c exportConfig) positions() int {
	n := cmp.Or(c.Positions, c.Context)
	if n > 0 && c.hasPositionOffset() {
		pad := 1.
		if c.PadID != nil {
			pad = *c.PadID
		}
		n -= int(pad) + 1
	}
	return max(n, 0)
}

// markUnusable records that a file is not used, with the reason.
func (f *folder) markUnusable(name string, why error) {
	f.unused = append(f.unused, fmt.Sprintf("%s: %v", name, why))
}

// classes returns the names of the classes. It returns nil if there are no names, or if
// the names only repeat the numbers of the classes. If a class has no name, it returns nil
// and marks the configuration as unusable.
func (f *folder) classes() []string {
	names := make([]string, len(f.config.Names))
	generic := 0
	for i := range names {
		number := strconv.Itoa(i)
		name, ok := f.config.Names[number]
		if !ok {
			f.markUnusable(configFile, fmt.Errorf("its id2label has %d names, and none for class %d", len(names), i))
			return nil
		}
		if names[i] = name; name == number || strings.EqualFold(name, "LABEL_"+number) {
			generic++
		}
	}
	if generic == len(names) {
		return nil
	}
	return names
}

// describe adds the content of the folder to info.
func (f *folder) describe(info *Info) {
	if info.Text, info.Unused = f.text, f.unused; f.dir == "" {
		return
	}
	info.Folder = f.dir
	info.MultiLabel = f.config.Problem == "multi_label_classification"
	if slices.ContainsFunc(info.Inputs, func(v Value) bool { return len(v.Shape) == 4 }) {
		info.Preprocess = f.preprocess
	}
	info.Task = cmp.Or(f.task(info.OutputsWidth), info.Task)
	if names := f.classes(); names != nil {
		info.Classes = names
	}
	if info.Task == attach.Regression || info.Task == attach.Embedding {
		info.Classes = nil
	}
	if n := len(info.Classes); n > 0 && info.OutputsWidth > 0 && n != max(info.OutputsWidth, 2) {
		f.markUnusable(configFile, fmt.Errorf("it names %d classes, and the model has %d outputs", n, info.OutputsWidth))
		info.Classes = nil
	}
	info.Unused = f.unused
}

// task returns the task that config.json implies for a network with the given number of
// outputs, or "".
func (f *folder) task(outputs int) attach.Task {
	oneLabel := outputs == 1 && (len(f.config.Names) == 1 || f.config.Labels != nil && *f.config.Labels == 1)
	classifies := func(name string) bool { return strings.HasSuffix(name, "Classification") }
	switch {
	case outputs == 0:
		return ""
	case f.config.Problem == "regression", f.config.Problem == "" && oneLabel:
		return attach.Regression
	case strings.HasSuffix(f.config.Problem, "label_classification"), slices.ContainsFunc(f.config.Architectures, classifies):
		return attach.Classification
	}
	return ""
}
