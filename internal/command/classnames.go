package command

import (
	"fmt"
	"io"
	"slices"

	"github.com/attach-uncertainty/attach/internal/data/inputs"
)

// classNamesOption names the classes of the model.
func (r *rowFlags) classNamesOption(what string, unused ...never) table {
	return table{{name: "class-names", to: &r.ClassNames, file: otherFile, never: unused,
		usage: "FILE|A,B,…: names of the model's classes, in the order of its outputs: a file with a name a line, a JSON list or the id2label of a config.json, or the names themselves" + what}}
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
	unknown := slices.DeleteFunc(slices.Clone(folders), func(name string) bool { return slices.Contains(r.Inputs.Classes, name) })
	if r.Inputs.Classes == nil || len(unknown) == 0 || len(unknown) == len(folders) && len(folders) == len(r.Inputs.Classes) {
		return nil
	}
	return fmt.Errorf("%s: the folder or label %.100q has the name of no class; classes are %.100q", x, unknown[0], r.Inputs.Classes)
}
