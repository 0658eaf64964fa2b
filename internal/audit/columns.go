package audit

import (
	"fmt"

	"github.com/parquet-go/parquet-go"

	"github.com/attach-uncertainty/attach"
)

// sketchColumn is the column of sketches, which only this package reads.
const sketchColumn = "input_sketch"

// columns describes the columns of a file of scores, in order.
type columns struct {
	names       []string
	nodes       []parquet.Node
	index       map[string]int
	fileColumns []int // index of each column in the file
}

// columns returns the columns of a file of scores with this identity.
func (id Identity) columns() *columns {
	c := &columns{index: map[string]int{}}
	add, text, repeated, number, flag := c.add, parquet.String(), repeatedText(), parquet.Leaf(parquet.DoubleType), parquet.Leaf(parquet.BooleanType)
	add("key", text)
	add("shard", repeated)
	add("row", parquet.Int(64))
	add("folder", repeated)
	add("input_hash", text)
	add(sketchColumn, parquet.Leaf(parquet.ByteArrayType))
	add("used_in", repeated)
	if id.Reading.Groups != "" {
		add("group", repeated)
	}
	if id.Fitted != "" {
		add("fit_duplicate_of", text)
	}
	if id.Profiled {
		add("reason_group", repeated)
	}
	if id.Task == attach.Classification {
		add("class", parquet.Int(64))
		add("class_name", repeated)
		add("confidence", number)
	}
	if id.LabelErrorsBy != "" && id.Task == attach.Classification {
		add("label", parquet.Int(64))
		add("label_name", repeated)
		add("label_score", number)
		add("label_p_value", number)
		add("suggested_label", parquet.Int(64))
		add("suggested_label_name", repeated)
		add("label_discovery", flag)
	}
	for k := range id.Targets {
		for _, name := range []string{"prediction", "lower", "upper", "width_p_value", "target"} {
			add(id.targetColumn(name, k), number)
		}
		if id.LabelErrorsBy != "" {
			add(id.targetColumn("label_score", k), number)
			add(id.targetColumn("label_p_value", k), number)
			add(id.targetColumn("label_discovery", k), flag)
		}
	}
	add("ood_score", number)
	add("p_value", number)
	add("discovery", flag)
	return c
}

func (c *columns) add(name string, node parquet.Node) {
	c.index[name] = len(c.names)
	c.fileColumns = append(c.fileColumns, len(c.names))
	c.names, c.nodes = append(c.names, name), append(c.nodes, node)
}

// repeatedText returns the node of a text that many rows share.
func repeatedText() parquet.Node { return parquet.Encoded(parquet.String(), &parquet.RLEDictionary) }

// subset selects columns by name. The result has no nodes, so it can only be read.
func (c *columns) subset(names []string) *columns {
	subset := &columns{names: names, index: map[string]int{}}
	for i, name := range names {
		subset.index[name], subset.fileColumns = i, append(subset.fileColumns, c.index[name])
	}
	return subset
}

// targetColumn returns the name of a column for target k.
func (id Identity) targetColumn(name string, k int) string {
	if len(id.Targets) == 1 {
		return name
	}
	return fmt.Sprintf("%s_%d", name, k)
}

// orderedGroup keeps the order of the columns. A parquet.Group sorts them by name.
type orderedGroup struct {
	parquet.Group
	fields []parquet.Field
}

func (o orderedGroup) Fields() []parquet.Field { return o.fields }

func (c *columns) schema() *parquet.Schema {
	nodes, fields := parquet.Group{}, map[string]parquet.Field{}
	for i, name := range c.names {
		nodes[name] = c.nodes[i]
	}
	for _, field := range nodes.Fields() {
		fields[field.Name()] = field
	}
	root := orderedGroup{Group: nodes}
	for _, name := range c.names {
		root.fields = append(root.fields, fields[name])
	}
	return parquet.NewSchema("rows", root)
}
