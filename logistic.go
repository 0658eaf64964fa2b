package attach

import (
	"github.com/attach-uncertainty/attach/internal/paired"
	"github.com/attach-uncertainty/attach/ood"
)

// pairLogits reads a classifier with a single logit as one with two.
func (b Base) pairLogits(batch ood.Batch) ood.Batch {
	if b.Task == Classification {
		return paired.Batch(batch)
	}
	return batch
}
