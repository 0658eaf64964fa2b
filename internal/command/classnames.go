package command

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/internal/data/inputs"
	"github.com/attach-uncertainty/attach/internal/data/regularfile"
	"github.com/attach-uncertainty/attach/internal/data/rows"
)

// classNamesOption names the classes of the model.
func (r *rowFlags) classNamesOption(what string, unused ...never) table {
	return table{{name: "class-names", to: &r.names, file: otherFile, never: unused,
		usage: "FILE|A,B,…: names of the model's classes, in the order of its outputs: a file with a name a line, a JSON list or the id2label of a config.json, or the names themselves" + what}}
}

// readClassNames reads --class-names: a file, or a list with commas.
func (r *reading) readClassNames() (err error) {
	switch content, failed := regularfile.ReadFile(r.names); {
	case r.names == "":
	case failed == nil:
		if r.inputs.Classes, err = parseClassNames(content); err != nil {
			err = fmt.Errorf("%s: %w", r.names, err)
		}
	case strings.Contains(r.names, ",") && errors.Is(failed, fs.ErrNotExist):
		if r.inputs.Classes, err = csv.NewReader(strings.NewReader(r.names)).Read(); err != nil {
			err = usagef("--class-names is %q; it must be names with commas between, in quotes where they hold any: %v", r.names, err)
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

// checkClassNames refuses names that are not as many as the classes of a model
// with so many outputs, 0 being unknown.
func (r *reading) checkClassNames(outputs int) error {
	if have, want := len(r.inputs.Classes), inputs.ClassesOf(outputs); have > 0 && want > 0 && have != want {
		return usagef("--class-names names %s, and the model has %d", rows.Count(have, "class"), want)
	}
	return nil
}

// renameClasses gives the classes of a bundle the names that are asked for, or
// reads labels by those that they have.
func (r *reading) renameClasses(b *attach.Bundle) error {
	if err := r.checkClassNames(b.Base.Outputs); err != nil {
		return err
	}
	if r.inputs.Classes == nil {
		r.inputs.Classes = b.Base.Classes
	}
	b.Base.Classes = r.inputs.Classes
	return nil
}

// noteFolders says how folders are numbered that are fewer than the classes of a
// model with so many outputs.
func noteFolders(w io.Writer, n, outputs int) {
	of := inputs.ClassesOf(outputs)
	if n == 1 && of > 1 {
		printf(w, "note: one folder or named label is taken for the first of %d classes; --class-names says which it is\n", of)
	} else if n > 0 && n < of {
		printf(w, "note: %d folders or named labels are taken for the first of %d classes, in order; --class-names says which they are\n", n, of)
	}
}

// checkFolders refuses folders of images that are some of the classes by their
// names, and others: which class the others are is not known. Where no folder is,
// their order is that of the classes.
func (r *reading) checkFolders(x string, folders []string) error {
	unknown := slices.DeleteFunc(slices.Clone(folders), func(name string) bool { return slices.Contains(r.inputs.Classes, name) })
	if r.inputs.Classes == nil || len(unknown) == 0 || len(unknown) == len(folders) && len(folders) == len(r.inputs.Classes) {
		return nil
	}
	return fmt.Errorf("%s: the folder or label %.100q has the name of no class; classes are %.100q", x, unknown[0], r.inputs.Classes)
}
