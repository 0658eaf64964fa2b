package inputs

import (
	"errors"
	"fmt"
	"slices"
)

// NumberLabels replaces each label, except Unlabelled, by its index in classes.
func (s *Set) NumberLabels(classes []int) error {
	labels := make([]int, len(s.Labels))
	for i, l := range s.Labels {
		if l == Unlabelled {
			labels[i] = l
		} else if labels[i] = slices.Index(classes, l); labels[i] < 0 {
			return fmt.Errorf("row %d: label %d is not one of the model's classes %v", i, l, classes)
		}
	}
	s.Labels = labels
	return nil
}

// OfClasses returns the rows whose label is in classes, and replaces each label by its
// index in classes. It is for models that were trained on some classes of a data set, or
// with the classes in a different order.
func (s *Set) OfClasses(classes []int) (*Set, error) {
	if s.Labels == nil {
		return nil, errors.New("there are no labels to select classes by")
	}
	number := make(map[int]int, len(classes))
	for i, c := range classes {
		if _, duplicate := number[c]; duplicate {
			return nil, fmt.Errorf("class %d is selected twice", c)
		}
		number[c] = i
	}
	var idx []int
	for i, l := range s.Labels {
		if _, ok := number[l]; ok {
			idx = append(idx, i)
		}
	}
	if len(idx) == 0 {
		return nil, fmt.Errorf("no row has one of the labels %v: %w", classes, ErrEmpty)
	}
	sub := s.Subset(idx)
	for i, l := range sub.Labels {
		sub.Labels[i] = number[l]
	}
	if s.ClassNames != nil {
		sub.ClassNames = nil
		for _, c := range classes {
			if c < 0 || c >= len(s.ClassNames) {
				return nil, fmt.Errorf("class %d is selected, but there are only %d", c, len(s.ClassNames))
			}
			sub.ClassNames = append(sub.ClassNames, s.ClassNames[c])
		}
	}
	return sub, nil
}
