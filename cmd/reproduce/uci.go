package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"gonum.org/v1/gonum/blas/blas32"
)

// uciSet is one of the paper's regression sets.
type uciSet struct{ name, file string }

// uciTable lists them in the order of the paper's table.
func uciTable() []uciSet {
	return []uciSet{
		{"concrete", "concrete"}, {"power", "power-plant"}, {"wine", "wine-quality-red"}, {"yacht", "yacht"},
		{"naval", "naval-propulsion-plant"}, {"energy", "energy"}, {"boston", "bostonHousing"}, {"kin8nm", "kin8nm"},
	}
}

// uciByName finds sets by their name in the paper or their file's; nil is all.
func uciByName(names []string) ([]uciSet, error) {
	all := uciTable()
	if names == nil {
		return all, nil
	}
	var sets []uciSet
	for _, name := range names {
		i := slices.IndexFunc(all, func(s uciSet) bool { return s.name == name || s.file == name })
		if i < 0 {
			var known []string
			for _, s := range all {
				known = append(known, s.name)
			}
			return nil, fmt.Errorf("%w: there is no set %q: choose among %s", errUsage, name, strings.Join(known, ", "))
		}
		sets = append(sets, all[i])
	}
	return sets, nil
}

// uciData is a set in memory.
type uciData struct {
	x, y   blas32.General
	spread float64 // largest target minus least
}

func (s uciSet) read(ctx context.Context, dir string) (uciData, error) {
	x, y, err := readTable(ctx, filepath.Join(dir, "uci", s.file+".txt"), "last")
	if err != nil {
		return uciData{}, err
	}
	targets := column(y)
	return uciData{x: x, y: y, spread: slices.Max(targets) - slices.Min(targets)}, nil
}
