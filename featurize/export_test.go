package featurize

import (
	"iter"

	"github.com/attach-uncertainty/attach/ood"
)

// Batch is the number of rows in one run.
func (m *Model) Batch() int { return m.batch }

// Single is rows in one block, whole or not.
func Single(x ood.InputBlock) iter.Seq2[ood.InputBlock, error] { return single(x) }
