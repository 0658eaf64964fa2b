// Package uci reads the UCI regression sets of the paper.
package uci

import (
	"context"
	"path/filepath"
	"slices"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/internal/data/inputs"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/reproduce/experiment"
)

// Set is one of the paper's regression sets.
type Set struct{ Name, File string }

// Sets lists the sets in the order of the paper's table.
func Sets() []Set {
	return []Set{
		{"concrete", "concrete"}, {"power", "power-plant"}, {"wine", "wine-quality-red"}, {"yacht", "yacht"},
		{"naval", "naval-propulsion-plant"}, {"energy", "energy"}, {"boston", "bostonHousing"}, {"kin8nm", "kin8nm"},
	}
}

// ByName returns sets by their name in the paper or their file name. If names is nil, it
// returns all sets.
func ByName(names []string) ([]Set, error) {
	return experiment.Choose("--sets", "set", names, Sets(), func(s Set) string { return s.Name }, func(s Set) string { return s.File })
}

// Data holds a data set in memory.
type Data struct {
	X, Y   blas32.General
	Spread float64 // largest minus smallest target
}

// Select returns a copy of the picked rows. It keeps the Spread of the whole set.
func (d Data) Select(picked []int) Data {
	return Data{rows.Select(d.X, picked), rows.Select(d.Y, picked), d.Spread}
}

// Targets returns the target of every row.
func (d Data) Targets() []float64 { return experiment.Column(d.Y) }

// Read reads dir/uci/FILE.txt, where FILE is the set's File. The last column is the target.
func (s Set) Read(ctx context.Context, dir string) (Data, error) {
	set, err := inputs.Open(ctx, filepath.Join(dir, "uci", s.File+".txt"), inputs.Options{Targets: []string{"last"}})
	if err != nil {
		return Data{}, err
	}
	x, err := set.All(ctx)
	if err != nil {
		return Data{}, err
	}
	d := Data{X: x, Y: set.Targets}
	d.Spread = slices.Max(d.Targets()) - slices.Min(d.Targets())
	return d, nil
}
