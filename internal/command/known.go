package command

import "github.com/attach-uncertainty/attach/internal/modelrows"

// knownFields appends the fields that the row itself holds: its group, its label with the
// label's name, and its target.
func knownFields(k *modelrows.Known, dst []field, row int) []field {
	if k.Groups != nil {
		dst = append(dst, field{"group", k.Groups[row]})
	}
	if k.Labels != nil {
		dst = append(dst, field{"label", max(k.Labels[row], -1)}) // inputs.Unlabelled is written as -1, too
	}
	if k.Names != nil {
		dst = append(dst, field{"label_name", k.Names[row]})
	}
	switch t := k.Targets; {
	case t.Cols == 1:
		dst = append(dst, field{"target", number{float64(t.Data[row*t.Stride]), true}})
	case t.Cols > 1:
		list := make([]number, t.Cols)
		for j := range list {
			list[j] = number{float64(t.Data[row*t.Stride+j]), true}
		}
		dst = append(dst, field{"target", list})
	}
	return dst
}
