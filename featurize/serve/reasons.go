package serve

import (
	"slices"
	"strings"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/ood"
	"github.com/attach-uncertainty/attach/schema"
)

// reasonsOutput is the name of the output with the reasons of each row.
const reasonsOutput = "reasons"

// setReasons sets the reasons of the predictions. It reserves memory for them, because a row
// can have a reason for each of its cells.
func (m *model) setReasons(c *call) error {
	const (
		blockRows   = 256 // rows that are compared at a time
		reasonBytes = 256 // bytes of a reason and its text
	)
	all := m.profiledBlock(c.job.block)
	for i := 0; i < all.Len(); i += blockRows {
		for k, list := range m.matcher.Reasons(m.matcher.Values(all.Slice(i, min(i+blockRows, all.Len())))) {
			if err := c.reserve(reasonBytes * int64(len(list))); err != nil {
				return err
			}
			c.job.predictions[i+k].Reasons = list
		}
	}
	return nil
}

// profiledBlock returns a block in which the texts for the tokenizer have the names that they
// have in the profile, because clients choose other names.
func (m *model) profiledBlock(b ood.InputBlock) ood.InputBlock {
	if m.bundle.Text == nil {
		return b
	}
	isInput := func(name string) bool {
		return slices.ContainsFunc(m.inputs, func(in attach.Input) bool { return in.Name == name })
	}
	var names []string
	for _, c := range m.bundle.Profile.Columns {
		if c.Quantity == "words" && !isInput(c.Input) {
			names = append(names, c.Input)
		}
	}
	b.Tensors = slices.Clone(b.Tensors)
	for i, t := range b.Tensors {
		if t.Strings != nil && !isInput(t.Name) && len(names) > 0 {
			b.Tensors[i].Name, names = names[0], names[1:]
		}
	}
	return b
}

// reasonsText returns the reasons of a row as one text.
func reasonsText(p *attach.Prediction) string {
	texts := make([]string, len(p.Reasons))
	for i, r := range p.Reasons {
		texts[i] = r.String()
	}
	return strings.Join(texts, "; ")
}

// columnsOf returns the names of the table columns in a row of an input, in order. It returns
// nil if the model was not fitted on a table.
func (m *model) columnsOf(input string) (names []string) {
	if m.bundle.Profile == nil || m.bundle.Base.Columns == nil {
		return nil
	}
	for _, c := range m.bundle.Profile.Columns {
		if c.Input == input && c.Kind != schema.Measure {
			names = append(names, c.Name)
		}
	}
	return names
}
