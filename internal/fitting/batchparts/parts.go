// Package batchparts finds the matrices of a batch by name, checks their widths, and
// joins batches.
package batchparts

import (
	"fmt"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/ood"
)

// Part is one matrix of a batch, with its name in errors and files.
type Part struct {
	Name string // features, logits, gaps, layer_0, layer_1 …
	*blas32.General
}

// Parts holds the matrices of a batch.
type Parts []Part

// Of returns the parts that the batch has. Changes to the matrix of a Part change the
// batch.
func Of(b *ood.Batch) Parts {
	all := make(Parts, 0, 3+len(b.Layers))
	if b.Features.Cols != 0 {
		all = append(all, Part{"features", &b.Features})
	}
	if b.Logits.Cols != 0 {
		all = append(all, Part{"logits", &b.Logits})
	}
	if b.Gaps.Cols != 0 {
		all = append(all, Part{"gaps", &b.Gaps})
	}
	for i := range b.Layers {
		all = append(all, Part{Layer(i), &b.Layers[i]})
	}
	return all
}

// Set sets the part of b with the given name. Layers must be set in order.
func Set(b *ood.Batch, name string, m blas32.General) {
	switch name {
	case "features":
		b.Features = m
	case "logits":
		b.Logits = m
	case "gaps":
		b.Gaps = m
	default:
		b.Layers = append(b.Layers, m)
	}
}

// Layer returns the name of earlier layer i in errors and files. The first layer is 0.
func Layer(i int) string {
	first := [...]string{"layer_0", "layer_1", "layer_2", "layer_3", "layer_4", "layer_5", "layer_6", "layer_7"}
	if i >= 0 && i < len(first) {
		return first[i] // no allocation, because a service calls this for each request
	}
	return fmt.Sprintf("layer_%d", i)
}

// Names returns the names of the parts for which has returns true. If layers is set, the
// result includes the earlier layers that come before the first one for which has returns
// false.
func Names(has func(name string) bool, layers bool) []string {
	names := make([]string, 0, 8)
	for _, name := range [...]string{"features", "logits", "gaps"} {
		if has(name) {
			names = append(names, name)
		}
	}
	for i := 0; layers && has(Layer(i)); i++ {
		names = append(names, Layer(i))
	}
	return names
}

// CheckFinite returns a *rows.NotFiniteError for the first number that is NaN or infinite.
// The error text begins with what, unless what is empty.
func (p Parts) CheckFinite(what string) error {
	if what != "" {
		what += ": "
	}
	for _, part := range p {
		if err := rows.CheckFinite(what+part.Name, *part.General); err != nil {
			return err
		}
	}
	return nil
}

// Widths returns the number of columns of each part.
func (p Parts) Widths() Widths {
	w := Widths{}
	for _, part := range p {
		w[part.Name] = part.Cols
	}
	return w
}
