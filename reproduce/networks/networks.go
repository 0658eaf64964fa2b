// Package networks finds trained classifiers and runs them on images and texts for
// benchmarks of OOD detection.
package networks

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/internal/onnx"
	"github.com/attach-uncertainty/attach/ood"
	"github.com/attach-uncertainty/attach/reproduce/experiment"
)

// Network describes a classifier in the benchmarks of OOD detection.
type Network struct {
	Name       string   // file name without .onnx
	Set        string   // name of its training data set
	preprocess string   // name of a preprocessing file next to the model; if empty, colours are divided by 255
	FiveClass  bool     // trained only on the classes FiveIn, so the other five classes are OOD
	Others     []string // names of further OOD sets
}

// FiveIn returns the paper's five in-distribution classes out of ten, in the order of the
// networks' outputs. fiveOut returns the other five.
func FiveIn() []int  { return []int{4, 1, 7, 5, 3} }
func fiveOut() []int { return []int{9, 0, 8, 6, 2} }

// OtherClasses names the OOD set of classes that belong to the training data set but were
// held out from training.
const OtherClasses = "other-classes"

// Attached lists the detectors that attach.Fit tries in turn if the caller names none.
const Attached = "fused-layers,fused,certificates-coupled,certificates"

// Trained returns all networks.
func Trained() []Network {
	fiveClass := func(name, set, preprocess string, others ...string) Network {
		return Network{name, set, preprocess, true, others}
	}
	farSets := []string{"cifar100", "mnist", "fashion"}
	return []Network{
		fiveClass("mnist_preact18", "mnist", "five_class_gray", "fashion", "cifar10"),
		fiveClass("mnist_vgg11w32", "mnist", "five_class_gray", "fashion", "cifar10"),
		fiveClass("fashion_preact18w32", "fashion", "five_class_gray", "mnist", "cifar10"),
		fiveClass("fashion_vgg11w32", "fashion", "five_class_gray", "mnist", "cifar10"),
		fiveClass("cifar10_preact18", "cifar10", "five_class_rgb", farSets...),
		fiveClass("cifar10_vgg11w32", "cifar10", "five_class_rgb", farSets...),
		fiveClass("svhn_preact18", "svhn", "five_class_rgb", "cifar10", "mnist", "fashion"),
		fiveClass("svhn_vgg11w32", "svhn", "five_class_rgb", "cifar10", "mnist", "fashion"),
		fiveClass("mnist_resnet_few", "mnist", "five_class_gray", "fashion", "cifar10"),
		fiveClass("mnist_vgg11", "mnist", "five_class_gray", "fashion", "cifar10"),
		fiveClass("mnist_preact", "mnist", "five_class_gray", "fashion", "cifar10"),
		fiveClass("fashion_resnet", "fashion", "five_class_gray", "mnist", "cifar10"),
		fiveClass("fashion_vgg11_few", "fashion", "five_class_gray", "mnist", "cifar10"),
		fiveClass("fashion_preact_few", "fashion", "five_class_gray", "mnist", "cifar10"),
		fiveClass("fashion_vgg11", "fashion", "five_class_gray", "mnist", "cifar10"),
		fiveClass("cifar_resnet_few", "cifar10", "five_class_rgb", farSets...),
		fiveClass("cifar_resnet", "cifar10", "five_class_rgb", farSets...),
		fiveClass("cifar_vgg11", "cifar10", "five_class_rgb", farSets...),
		fiveClass("cifar_vgg13_few", "cifar10", "five_class_rgb", farSets...),
		fiveClass("cifar_preact", "cifar10", "five_class_rgb", farSets...),
		fiveClass("mnist_vit", "mnist", "five_class_gray", "fashion", "cifar10"),
		fiveClass("fashion_vit", "fashion", "five_class_gray", "mnist", "cifar10"),
		fiveClass("cifar_vit", "cifar10", "five_class_rgb", farSets...),
		{"cifar10_resnet20", "cifar10", "cifar10_resnet", false, farSets},
		{"cifar10_resnet56", "cifar10", "cifar10_resnet", false, farSets},
		{"cifar10_conv_nhwc", "cifar10", "", false, farSets},
		{"mnist_cnn", "mnist", "mnist_cnn", false, []string{"fashion"}},
		{"digits_resnet", "digits", "digits", false, []string{"letters"}},
		{"digits_vgg", "digits", "digits", false, []string{"letters"}},
	}
}

// Outs returns the names of the network's OOD sets.
func (n Network) Outs() []string {
	if n.FiveClass {
		return append([]string{OtherClasses}, n.Others...)
	}
	return n.Others
}

// classes returns the in-distribution classes of the training set; nil means all.
func (n Network) classes() []int {
	if n.FiveClass {
		return FiveIn()
	}
	return nil
}

func (n Network) file(models string) string { return filepath.Join(models, n.Name+".onnx") }

// part selects rows of a file of images.
type part struct {
	Name    string // "fit" or "in" for in-distribution rows, otherwise the name of the OOD set
	file    string
	classes []int
}

// parts returns the fit rows, the in-distribution test rows and every OOD set.
func (n Network) parts(data string) []part {
	file := func(set, split string) string { return filepath.Join(data, set+"_"+split+".npz") }
	all := []part{{"fit", file(n.Set, "train"), n.classes()}, {"in", file(n.Set, "test"), n.classes()}}
	for _, out := range n.Outs() {
		p := part{Name: out, file: file(out, "test")}
		if out == OtherClasses {
			p.file, p.classes = file(n.Set, "test"), fiveOut()
		}
		all = append(all, p)
	}
	return all
}

// missingFiles returns the required files that do not exist.
func (n Network) missingFiles(data, models string) (missing []string) {
	files := []string{n.file(models)}
	if n.preprocess != "" {
		files = append(files, filepath.Join(models, n.preprocess+".preprocess.json"))
	}
	for _, p := range n.parts(data) {
		files = append(files, p.file)
	}
	for _, f := range files {
		if _, err := os.Stat(f); err != nil && !slices.Contains(missing, f) {
			missing = append(missing, f)
		}
	}
	return missing
}

// Measured is a network whose files exist.
type Measured struct {
	Network
	SHA256    string // first 12 hex digits of the model's SHA-256
	Megabytes float64
}

// Plan lists the networks and rows to measure.
type Plan struct {
	*experiment.Settings
	Networks []Measured
	NotRun   []string // reasons why the other networks are not measured
	Methods  []ood.Method
	Rows     [3]int // limits of fit, in-distribution and OOD rows; 0 means all
	// NetworkRows is the limit of rows of every set for methods that run the network. 0 means
	// the same rows as for other methods.
	NetworkRows int
	Seed        uint64
	// TakesTexts reports whether --sets may name the text classifier, clinc_bert. The field
	// Texts reports whether this classifier is measured, because --sets names it or is not
	// given.
	TakesTexts, Texts bool

	rows string // the value of --rows
}

// Define defines the flags --rows and --seed, and sets the usage text of --sets. rows is
// the default of --rows.
func (p *Plan) Define(flags *flag.FlagSet, rows string) {
	flags.StringVar(&p.rows, "rows", rows, "at most `N` rows to fit with and in every set to measure on, or FIT,IN,OUT (0: all)")
	flags.Uint64Var(&p.Seed, "seed", 0, "seed of the rows drawn and of methods")
	var known []string
	for _, n := range Trained() {
		known = append(known, n.Name)
	}
	flags.Lookup("sets").Usage = "only these networks, `a,b`, of " + strings.Join(known, ", ")
}

// DefineWithTexts calls Define for audits.Scored and allows Texts in --sets.
func (p *Plan) DefineWithTexts(flags *flag.FlagSet, rows string) {
	p.Define(flags, rows)
	p.TakesTexts = true
	flags.Lookup("sets").Usage += " and " + Texts + ", of which all rows are taken (default mnist_cnn, cifar10_resnet20 and " + Texts + ")"
}

// Check parses --rows, chooses the methods and finds the networks. It drops methods for
// which exclude returns true. If no method remains, the error contains emptyReason. Check
// also returns an error if --sets names a network with a missing file, or if there is
// neither a network nor the text classifier to measure.
func (p *Plan) Check(ctx context.Context, exclude func(m ood.Method) bool, emptyReason string) (err error) {
	if p.Rows, err = rowLimits(p.rows); err != nil {
		return err
	}
	if p.Methods, err = experiment.Choose("--methods", "method", p.MethodNames, slices.DeleteFunc(attach.Methods(), func(m ood.Method) bool { return m.Needs.Targets }), func(m ood.Method) string { return m.Name }); err != nil {
		return err
	}
	if p.Methods = slices.DeleteFunc(p.Methods, exclude); len(p.Methods) == 0 {
		return experiment.Usagef("--methods names %s", emptyReason)
	}
	names := p.Sets
	if p.TakesTexts {
		p.Texts = names == nil || slices.Contains(names, Texts)
		names = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return name == Texts })
	}
	chosen, err := experiment.Choose("--sets", "network", names, Trained(), func(n Network) string { return n.Name })
	if err != nil {
		return err
	}
	var missing []string
	for _, n := range chosen {
		if files := n.missingFiles(p.Data, p.Models); len(files) > 0 {
			missing = append(missing, files...)
			p.NotRun = append(p.NotRun, fmt.Sprintf("%s: not run: there is no %s", n.Name, filepath.Base(files[0])))
			continue
		}
		sha, err := digest(ctx, n.file(p.Models))
		if err != nil {
			return err
		}
		info, err := os.Stat(n.file(p.Models))
		if err != nil {
			return err
		}
		p.Networks = append(p.Networks, Measured{n, sha[:12], float64(info.Size()) / 1e6})
	}
	slices.Sort(missing)
	missing = slices.Compact(missing)
	if p.Sets != nil && len(missing) > 0 {
		return fmt.Errorf("there is no %s; fetch the files, or leave their networks out of --sets", strings.Join(missing, ", "))
	}
	if len(p.Networks) == 0 && !p.Texts {
		return fmt.Errorf("no network has all of its files: there is no %s; pass the folders with --data and --models", strings.Join(missing, ", "))
	}
	return nil
}

// digest returns the same digest of the model at path as featurize.Model does, but needs no
// ONNX runtime.
func digest(ctx context.Context, path string) (string, error) {
	g, err := onnx.Load(path)
	if err != nil {
		return "", err
	}
	files, err := g.External()
	if err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	return onnx.SHA256(ctx, path, files)
}

// rowLimits parses --rows.
func rowLimits(text string) (rows [3]int, err error) {
	fields := strings.Split(text, ",")
	if len(fields) == 1 {
		fields = []string{fields[0], fields[0], fields[0]}
	}
	if len(fields) == 3 {
		for i, f := range fields {
			if rows[i], err = strconv.Atoi(strings.TrimSpace(f)); err != nil || rows[i] < 0 {
				break
			}
		}
	}
	if len(fields) != 3 || err != nil || slices.Min(rows[:]) < 0 {
		return rows, experiment.Usagef("--rows wants N or FIT,IN,OUT, integers of at least 0, not %q", text)
	}
	return rows, nil
}

// RunsNetwork reports whether a method runs the network on every row.
func RunsNetwork(m ood.Method) bool { return m.Needs.Network || m.Needs.Dropout }
