package modelrows

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/attach-uncertainty/attach/internal/data/inputs"
	"github.com/attach-uncertainty/attach/internal/data/regularfile"
	"github.com/attach-uncertainty/attach/internal/data/rows"
)

// readClassNames reads the class names from a file, or from a list of names separated by
// commas.
func (r *Reader) readClassNames() (err error) {
	switch content, failed := regularfile.ReadFile(r.readOptions.ClassNames); {
	case r.readOptions.ClassNames == "":
	case failed == nil:
		if r.Inputs.Classes, err = parseClassNames(content); err != nil {
			err = fmt.Errorf("%s: %w", r.readOptions.ClassNames, err)
		}
	case strings.Contains(r.readOptions.ClassNames, ",") && errors.Is(failed, fs.ErrNotExist):
		if r.Inputs.Classes, err = csv.NewReader(strings.NewReader(r.readOptions.ClassNames)).Read(); err != nil {
			err = Usagef("Options.ClassNames is %q; it must be names separated by commas, with quotation marks around names that contain commas: %v", r.readOptions.ClassNames, err)
		}
	default:
		err = failed
	}
	return err
}

// parseClassNames parses a file of class names: a JSON list, a config.json with id2label,
// or one name on each line.
func parseClassNames(content []byte) ([]string, error) {
	content = bytes.TrimSpace(bytes.TrimPrefix(content, []byte("\xef\xbb\xbf")))
	var names []string
	switch {
	case bytes.HasPrefix(content, []byte("[")):
		if err := json.Unmarshal(content, &names); err != nil {
			return nil, fmt.Errorf("not a JSON list of names: %w", err)
		}
		return names, nil
	case bytes.HasPrefix(content, []byte("{")):
		var config struct {
			Names map[string]string `json:"id2label"`
		}
		if err := json.Unmarshal(content, &config); err != nil {
			return nil, fmt.Errorf("not a JSON object with the key id2label: %w", err)
		}
		for i := range len(config.Names) {
			name, ok := config.Names[strconv.Itoa(i)]
			if !ok {
				return nil, fmt.Errorf("id2label has %d names, but none for class %d", len(config.Names), i)
			}
			names = append(names, name)
		}
		if names == nil {
			return nil, errors.New("the key id2label is missing or empty")
		}
		return names, nil
	}
	for line := range bytes.Lines(content) {
		names = append(names, strings.TrimSpace(string(line)))
	}
	return names, nil
}

// CheckClassNames returns an error if there are class names, but not one for each class.
// outputs is the number of outputs of the model, or 0 if the number of classes is unknown.
func (r *Reader) CheckClassNames(outputs int) error {
	if have, want := len(r.Inputs.Classes), inputs.ClassesOf(outputs); have > 0 && want > 0 && have != want {
		return Usagef("Options.ClassNames names %s, and the model has %d", rows.Count(have, "class"), want)
	}
	return nil
}
