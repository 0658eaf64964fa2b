package audit

import (
	"fmt"

	"github.com/parquet-go/parquet-go"

	"github.com/attach-uncertainty/attach"
)

// columns are the columns of a file of scores, in order.
type columns struct {
	names []string
	nodes []parquet.Node
	at    map[string]int
	file  []int // numbers of the columns in the file
}

// columns returns the columns of scores with this identity.
func (id Identity) columns() *columns {
	c := &columns{at: map[string]int{}}
	add := func(name string, node parquet.Node) {
		c.at[name] = len(c.names)
		c.file = append(c.file, len(c.names))
		c.names, c.nodes = append(c.names, name), append(c.nodes, node)
	}
	text, number := parquet.String(), parquet.Leaf(parquet.DoubleType)
	few := parquet.Encoded(text, &parquet.RLEDictionary)
	add("key", text)
	add("shard", few)
	add("row", parquet.Int(64))
	add("folder", few)
	add("input_hash", text)
	if id.Reading.Groups != "" {
		add("group", few)
	}
	if id.Fitted != "" {
		add("fit_duplicate_of", text)
	}
	if id.Task == attach.Classification {
		add("class", parquet.Int(64))
		add("class_name", few)
		add("confidence", number)
	}
	for k := range id.Targets {
		for _, of := range []string{"prediction", "lower", "upper", "width_p_value", "target"} {
			add(id.column(of, k), number)
		}
	}
	add("ood_score", number)
	add("p_value", number)
	add("discovery", parquet.Leaf(parquet.BooleanType))
	return c
}

// only selects columns by name.
func (c *columns) only(names []string) *columns {
	some := &columns{names: names, at: map[string]int{}}
	for i, name := range names {
		some.at[name], some.file = i, append(some.file, c.at[name])
	}
	return some
}

// column is the name of a column of target k.
func (id Identity) column(of string, k int) string {
	if len(id.Targets) == 1 {
		return of
	}
	return fmt.Sprintf("%s_%d", of, k)
}

// ordered keeps the order of the columns. A parquet.Group sorts them by name.
type ordered struct {
	parquet.Group
	fields []parquet.Field
}

func (o ordered) Fields() []parquet.Field { return o.fields }

func (c *columns) schema() *parquet.Schema {
	nodes, of := parquet.Group{}, map[string]parquet.Field{}
	for i, name := range c.names {
		nodes[name] = c.nodes[i]
	}
	for _, field := range nodes.Fields() {
		of[field.Name()] = field
	}
	root := ordered{Group: nodes}
	for _, name := range c.names {
		root.fields = append(root.fields, of[name])
	}
	return parquet.NewSchema("scores", root)
}
