package inputs

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/ood"
)

// TakesOf converts a model's inputs to Takes.
func TakesOf(list []attach.Input) (takes []Takes) {
	for _, in := range list {
		takes = append(takes, Takes(in))
	}
	return takes
}

// Expect selects the target and text columns of the fit, unless o names others.
func (o *Options) Expect(b *attach.Bundle) {
	if o.Targets == nil {
		o.Targets, o.TargetOptional = b.Base.Targets, true
	}
	if b.Text != nil && o.Text == nil {
		o.Text = b.Text.Columns
	}
}

// BlockRows returns how many rows to read at a time: 64, or fewer if 64 rows need more than
// 64 MiB. If rows differ in length or are texts, it returns 1,024. The model then finds
// enough rows of the same length to run together. The model divides a block into its own
// batches.
func (s *Set) BlockRows() int {
	if n := s.RowLen(); n > 0 {
		return max(1, min(64, (16<<20)/n))
	}
	return 1024
}

// Accepts returns an error if a model cannot take the tensors of the set. It passes a block
// without rows to the model, so it needs no memory for rows. It also checks the shapes of
// images, as [Set.CheckImages] does.
func Accepts[B any](ctx context.Context, s *Set, images []int, model func(context.Context, iter.Seq2[ood.InputBlock, error]) iter.Seq2[B, error]) error {
	if err := s.CheckImages(images); err != nil {
		return err
	}
	noRows := func(yield func(ood.InputBlock, error) bool) {
		yield(ood.InputBlock{Tensors: s.src.tensors()}, nil)
	}
	for _, err := range model(ctx, noRows) {
		if err != nil {
			return err
		}
	}
	return nil
}

// LeftOut returns a note that n of all rows were left out because their target is unknown.
func LeftOut(n, all int) string {
	return fmt.Sprintf("left out %s without a target, of %s", rows.Count(n, "row"), rows.Count(all, "row"))
}

// Beside holds the labels, targets and groups of the rows of a model's inputs. A field is
// its zero value if the rows have none.
type Beside struct {
	Labels  []int
	Targets blas32.General
	Groups  []string
}

// Sure removes labels and targets that the model cannot use. It removes all labels if the
// model is a regressor, if its classes are unknown, or if one label is not a class, such as
// the label of an OOD row. It removes all targets if the model is a classifier, or if a row
// has more or fewer targets than the model has outputs. It returns a reason if labels or
// targets do not fit the outputs of the model, and nil otherwise.
func (b *Beside) Sure(base attach.Base) (reason error) {
	if base.Task == attach.Regression {
		b.Labels = nil
		if base.Outputs > 0 && b.Targets.Rows > 0 && b.Targets.Cols != base.Outputs {
			reason = fmt.Errorf("it has %s per row, but the model predicts %d", rows.Count(b.Targets.Cols, "target"), base.Outputs)
			b.Targets = blas32.General{}
		}
		return reason
	}
	if b.Labels == nil && b.Targets.Rows > 0 {
		reason = errors.New("the labels of a classifier must be whole numbers, one for each row")
	}
	b.Targets = blas32.General{}
	if err := CheckLabels(b.Labels, base.Outputs); base.Outputs == 0 {
		b.Labels = nil
	} else if err != nil {
		b.Labels, reason = nil, err
	}
	return reason
}

// With adds labels, targets and groups to blocks of rows, which must be in order.
func (b Beside) With(blocks iter.Seq2[attach.Rows, error]) iter.Seq2[attach.Rows, error] {
	return func(yield func(attach.Rows, error) bool) {
		done := 0
		for block, err := range blocks {
			if err == nil {
				end := done + block.Len()
				block.Labels, block.Groups = subslice(b.Labels, done, end), subslice(b.Groups, done, end)
				if b.Targets.Rows > 0 {
					block.Targets = rows.Slice(b.Targets, done, end)
				}
				done = end
			}
			if !yield(block, err) {
				return
			}
		}
	}
}
