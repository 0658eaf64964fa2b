package baselines

import (
	"errors"

	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/ood"
)

// correctClasses returns the class that each training row is an example of: the
// one predicted for it, or −1 where its label says otherwise. Without labels
// predictions are believed.
func correctClasses(t ood.Training) ([]int, error) {
	classes := rows.Argmax(t.Logits)
	right := 0
	for i, predicted := range classes {
		if t.Labels != nil && t.Labels[i] != predicted {
			classes[i] = -1
			continue
		}
		right++
	}
	if right == 0 {
		return nil, errors.New("no training row is predicted as its label: are labels numbered as the network's outputs are? " +
			"Without labels, predictions are taken in their place")
	}
	return classes, nil
}
