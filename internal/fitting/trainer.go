package fitting

import (
	"context"
	"fmt"

	"github.com/attach-uncertainty/attach/heads/train"
)

// checkedTrainer is a Trainer that checks whether the trained networks match the problem.
type checkedTrainer struct{ train.Trainer }

// Train implements train.Trainer.
func (t checkedTrainer) Train(ctx context.Context, p train.Problem) ([]train.Network, error) {
	networks, err := t.Trainer.Train(ctx, p)
	if err != nil {
		return nil, err
	}
	if len(networks) != len(p.Models) {
		return nil, fmt.Errorf("training returned %d networks for %d models", len(networks), len(p.Models))
	}
	inputs := p.X.Cols
	if p.Conditional {
		inputs++
	}
	for i := range networks {
		if err := networks[i].Restored(); err != nil {
			return nil, fmt.Errorf("training failed: network %d: %w", i, err)
		}
		if in, out := networks[i].Widths(); in != inputs || out != p.Outputs {
			return nil, fmt.Errorf("training failed: network %d maps %d values to %d, want %d to %d", i, in, out, inputs, p.Outputs)
		}
	}
	return networks, nil
}
