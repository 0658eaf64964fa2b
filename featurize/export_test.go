package featurize

import (
	"iter"

	"github.com/attach-uncertainty/attach/ood"
)

// Batch returns the largest number of rows in one run.
func (m *Model) Batch() int { return m.batchSize }

// Single yields one block of rows.
func Single(x ood.InputBlock) iter.Seq2[ood.InputBlock, error] { return oneBlock(x) }
