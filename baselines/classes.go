package baselines

import (
	"errors"

	"github.com/attach-uncertainty/attach/internal/data/rows"
	"github.com/attach-uncertainty/attach/ood"
)

// correctClasses returns the predicted class of each training row, or −1 if the label
// differs from it. Without labels, it returns all predicted classes. It returns an error if
// no row is predicted as its label.
func correctClasses(t ood.Training) ([]int, error) {
	classes := rows.Argmax(t.Logits)
	correct := 0
	for i, predicted := range classes {
		if t.Labels != nil && t.Labels[i] != predicted {
			classes[i] = -1
			continue
		}
		correct++
	}
	if correct == 0 {
		return nil, errors.New("no training row is predicted as its label: are labels numbered like the network's outputs? " +
			"Without labels, predicted classes are used")
	}
	return classes, nil
}
