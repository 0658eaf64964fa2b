package attach

import (
	"github.com/attach-uncertainty/attach/internal/fitting/binarylogit"
	"github.com/attach-uncertainty/attach/ood"
)

// pairLogits reads a classifier with a single logit as one with two.
func (b Base) pairLogits(batch ood.Batch) ood.Batch {
	if b.Task == Classification {
		return binarylogit.Batch(batch)
	}
	return batch
}
