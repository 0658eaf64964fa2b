package command

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/attach-uncertainty/attach/internal/data/inputs"
)

// classNamesOption returns --class-names, whose help text ends with the words in ending.
func (r *rowFlags) classNamesOption(ending string, conflicts ...conflict) table {
	return table{{name: "class-names", dest: &r.ClassNames, file: otherFile, group: groupColumns, conflicts: conflicts,
		usage: "FILE|A,B,…: names of the model's classes in the order of its outputs, or a file of them: a name per line, a JSON list, or a config.json with id2label" + ending}}
}

// noteFolders prints how folders or named labels are numbered. They are numbered in sorted
// order, which may differ from the order of the model's outputs.
func noteFolders(w io.Writer, names []string, outputs int) {
	const maxNames = 5
	if len(names) == 0 {
		return
	}
	var numbered []string
	for i, name := range names[:min(maxNames, len(names))] {
		numbered = append(numbered, fmt.Sprintf("%.100s is %d", name, i))
	}
	list := strings.Join(numbered, ", ")
	if more := len(names) - maxNames; more > 0 {
		list += fmt.Sprintf(" and %d more", more)
	}
	suffix := ""
	if n := inputs.ClassesOf(outputs); len(names) < n {
		suffix = fmt.Sprintf(" as the first of %d classes", n)
	}
	printf(w, "note: folders or named labels are numbered in sorted order%s: %s; if the model's order differs, pass --class-names\n", suffix, list)
}

// checkFolders returns an error if a folder or a label is not the name of a class, because
// its class is then unknown. There are two exceptions. Any names are valid if the classes
// have no names. If no folder or label is the name of a class, but there is one for each
// class, they are in the order of the classes.
func (r *rowReader) checkFolders(x string, folders []string) error {
	unknown := slices.DeleteFunc(slices.Clone(folders), func(name string) bool { return slices.Contains(r.Inputs.Classes, name) })
	if r.Inputs.Classes == nil || len(unknown) == 0 || len(unknown) == len(folders) && len(folders) == len(r.Inputs.Classes) {
		return nil
	}
	return fmt.Errorf("%s: the folder or label %.100q is not the name of a class; classes are %.100q", x, unknown[0], r.Inputs.Classes)
}
