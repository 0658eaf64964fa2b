// Package uci reads the paper's regression sets.
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

// Sets lists them in the order of the paper's table.
func Sets() []Set {
	return []Set{
		{"concrete", "concrete"}, {"power", "power-plant"}, {"wine", "wine-quality-red"}, {"yacht", "yacht"},
		{"naval", "naval-propulsion-plant"}, {"energy", "energy"}, {"boston", "bostonHousing"}, {"kin8nm", "kin8nm"},
	}
}

// ByName finds sets by their name in the paper or their file's; nil is all.
func ByName(names []string) ([]Set, error) {
	return experiment.Choose("--sets", "set", names, Sets(), func(s Set) string { return s.Name }, func(s Set) string { return s.File })
}

// Data is a set in memory.
type Data struct {
	X, Y   blas32.General
	Spread float64 // largest target minus least
}

// Select copies the picked rows, but keeps the spread of the whole set.
func (d Data) Select(picked []int) Data {
	return Data{rows.Select(d.X, picked), rows.Select(d.Y, picked), d.Spread}
}

// Targets are those of all rows.
func (d Data) Targets() []float64 { return experiment.Column(d.Y) }

// Read reads SET.txt from the folder uci of dir; the last column is the target.
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
