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

// readClassNames reads ClassNames: a file, or a list with commas.
func (r *Reader) readClassNames() (err error) {
	switch content, failed := regularfile.ReadFile(r.how.ClassNames); {
	case r.how.ClassNames == "":
	case failed == nil:
		if r.Inputs.Classes, err = parseClassNames(content); err != nil {
			err = fmt.Errorf("%s: %w", r.how.ClassNames, err)
		}
	case strings.Contains(r.how.ClassNames, ",") && errors.Is(failed, fs.ErrNotExist):
		if r.Inputs.Classes, err = csv.NewReader(strings.NewReader(r.how.ClassNames)).Read(); err != nil {
			err = Usagef("Options.ClassNames is %q; it must be names with commas between, in quotes where they hold any: %v", r.how.ClassNames, err)
		}
	default:
		err = failed
	}
	return err
}

// parseClassNames reads the names that a file holds.
func parseClassNames(content []byte) ([]string, error) {
	content = bytes.TrimSpace(bytes.TrimPrefix(content, []byte("\xef\xbb\xbf")))
	var names []string
	switch {
	case bytes.HasPrefix(content, []byte("[")):
		if err := json.Unmarshal(content, &names); err != nil {
			return nil, fmt.Errorf("it is no JSON list of names: %w", err)
		}
		return names, nil
	case bytes.HasPrefix(content, []byte("{")):
		var config struct {
			Names map[string]string `json:"id2label"`
		}
		if err := json.Unmarshal(content, &config); err != nil {
			return nil, fmt.Errorf("it is no JSON object with the key id2label: %w", err)
		}
		for i := range len(config.Names) {
			name, ok := config.Names[strconv.Itoa(i)]
			if !ok {
				return nil, fmt.Errorf("its id2label has %d names, and none for class %d", len(config.Names), i)
			}
			names = append(names, name)
		}
		if names == nil {
			return nil, errors.New("it has no key id2label that names classes")
		}
		return names, nil
	}
	for line := range bytes.Lines(content) {
		names = append(names, strings.TrimSpace(string(line)))
	}
	return names, nil
}

// CheckClassNames refuses names that are not as many as the classes of a model
// with so many outputs, 0 being unknown.
func (r *Reader) CheckClassNames(outputs int) error {
	if have, want := len(r.Inputs.Classes), inputs.ClassesOf(outputs); have > 0 && want > 0 && have != want {
		return Usagef("Options.ClassNames names %s, and the model has %d", rows.Count(have, "class"), want)
	}
	return nil
}
