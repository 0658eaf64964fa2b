package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// trainedNetwork is a classifier to detect out-of-domain images with.
type trainedNetwork struct {
	name       string // of its file, without .onnx
	set        string // the images that it was trained on
	preprocess string // file beside it; empty stands for colors divided by 255
	fiveClass  bool   // trained on fiveIn alone: the other five classes of the set are out-of-domain
	others     []string
}

// fiveIn and fiveOut are the paper's split of ten classes, the former in the
// order of the networks' outputs.
func fiveIn() []int  { return []int{4, 1, 7, 5, 3} }
func fiveOut() []int { return []int{9, 0, 8, 6, 2} }

// otherClasses names the out-of-domain rows that are of the set that the
// network was trained on.
const otherClasses = "other-classes"

func trainedNetworks() []trainedNetwork {
	five := func(name, set, preprocess string, others ...string) trainedNetwork {
		return trainedNetwork{name, set, preprocess, true, others}
	}
	far := []string{"cifar100", "mnist", "fashion"}
	return []trainedNetwork{
		five("mnist_preact18", "mnist", "five_class_gray", "fashion", "cifar10"),
		five("mnist_vgg11w32", "mnist", "five_class_gray", "fashion", "cifar10"),
		five("fashion_preact18w32", "fashion", "five_class_gray", "mnist", "cifar10"),
		five("fashion_vgg11w32", "fashion", "five_class_gray", "mnist", "cifar10"),
		five("cifar10_preact18", "cifar10", "five_class_rgb", far...),
		five("cifar10_vgg11w32", "cifar10", "five_class_rgb", far...),
		five("svhn_preact18", "svhn", "five_class_rgb", "cifar10", "mnist", "fashion"),
		five("svhn_vgg11w32", "svhn", "five_class_rgb", "cifar10", "mnist", "fashion"),
		{"cifar10_resnet20", "cifar10", "cifar10_resnet", false, far},
		{"cifar10_resnet56", "cifar10", "cifar10_resnet", false, far},
		{"cifar10_conv_nhwc", "cifar10", "", false, far},
		{"mnist_cnn", "mnist", "mnist_cnn", false, []string{"fashion"}},
	}
}

// outs are the names of its out-of-domain sets.
func (n trainedNetwork) outs() []string {
	if n.fiveClass {
		return append([]string{otherClasses}, n.others...)
	}
	return n.others
}

// classes are those of the training set that are in-domain; nil is all.
func (n trainedNetwork) classes() []int {
	if n.fiveClass {
		return fiveIn()
	}
	return nil
}

func (n trainedNetwork) file(models string) string { return filepath.Join(models, n.name+".onnx") }

// part is some rows of a file of images.
type part struct {
	name    string // in-domain: fit and in; else the out-of-domain set's
	file    string
	classes []int
}

// parts are the rows to fit with, in-domain rows to measure on, and every
// out-of-domain set.
func (n trainedNetwork) parts(data string) []part {
	file := func(set, which string) string { return filepath.Join(data, set+"_"+which+".npz") }
	all := []part{{"fit", file(n.set, "train"), n.classes()}, {"in", file(n.set, "test"), n.classes()}}
	for _, out := range n.outs() {
		p := part{name: out, file: file(out, "test")}
		if out == otherClasses {
			p.file, p.classes = file(n.set, "test"), fiveOut()
		}
		all = append(all, p)
	}
	return all
}

// missing names a file that the network cannot be measured without, and that is
// not there.
func (n trainedNetwork) missing(data, models string) string {
	files := []string{n.file(models)}
	if n.preprocess != "" {
		files = append(files, filepath.Join(models, n.preprocess+".preprocess.json"))
	}
	for _, p := range n.parts(data) {
		files = append(files, p.file)
	}
	for _, f := range files {
		if _, err := os.Stat(f); err != nil {
			return f
		}
	}
	return ""
}

// networksByName finds networks; nil names are all.
func networksByName(names []string) ([]trainedNetwork, error) {
	all := trainedNetworks()
	if names == nil {
		return all, nil
	}
	var some []trainedNetwork
	for _, name := range names {
		i := slices.IndexFunc(all, func(n trainedNetwork) bool { return n.name == name })
		if i < 0 {
			var known []string
			for _, n := range all {
				known = append(known, n.name)
			}
			return nil, fmt.Errorf("%w: there is no network %q: choose among %s", errUsage, name, strings.Join(known, ", "))
		}
		if slices.ContainsFunc(some, func(n trainedNetwork) bool { return n.name == name }) {
			return nil, fmt.Errorf("%w: --sets names %s twice", errUsage, name)
		}
		some = append(some, all[i])
	}
	return some, nil
}
