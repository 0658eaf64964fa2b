package command

import (
	"fmt"
	"io"
	"strings"

	"github.com/parquet-go/parquet-go"

	"github.com/attach-uncertainty/attach/internal/version"
)

// parquetTable writes a .parquet file with typed columns. A field with several values
// becomes a list. Samples of several targets and matrices become a list of lists.
type parquetTable struct {
	output io.Writer
	w      *parquet.GenericWriter[any]
	row    parquet.Row // reused for the next row
	// buffered is the number of values that the writer holds in memory.
	buffered int
}

// maxBuffered is the number of values at which the writer flushes them to the file.
const maxBuffered = 1 << 21

func (t *parquetTable) write(row []field) error {
	if t.w == nil {
		t.writeHeader(row)
	}
	t.row = t.row[:0]
	for column, f := range row {
		t.row = appendParquet(t.row, column, f.value)
	}
	if _, err := t.w.WriteRows([]parquet.Row{t.row}); err != nil {
		return err
	}
	if t.buffered += len(t.row); t.buffered < maxBuffered {
		return nil
	}
	t.buffered = 0
	return t.w.Flush()
}

func (t *parquetTable) writeHeader(row []field) error {
	t.w = parquet.NewGenericWriter[any](t.output, parquetSchema(row), parquet.Compression(&parquet.Snappy), parquet.CreatedBy("attach", version.String(), ""))
	return nil
}

func (t *parquetTable) close() error {
	if t.w == nil {
		return nil
	}
	return t.w.Close()
}

// orderedGroup is a parquet.Group that keeps the order of its columns. A plain parquet.Group
// sorts them by name.
type orderedGroup struct {
	parquet.Group
	fields []parquet.Field
}

func (o orderedGroup) Fields() []parquet.Field { return o.fields }

// parquetSchema returns the schema for rows with the fields of row.
func parquetSchema(row []field) *parquet.Schema {
	nodes := parquet.Group{}
	for _, f := range row {
		nodes[f.name] = parquetNode(f.value)
	}
	fieldByName := map[string]parquet.Field{}
	for _, field := range nodes.Fields() {
		fieldByName[field.Name()] = field
	}
	root := orderedGroup{Group: nodes}
	for _, f := range row {
		root.fields = append(root.fields, fieldByName[f.name])
	}
	return parquet.NewSchema("predictions", root)
}

func parquetNode(value any) parquet.Node {
	switch v := value.(type) {
	case int:
		return parquet.Int(64)
	case bool:
		return parquet.Leaf(parquet.BooleanType)
	case number:
		if v.isFloat32 {
			return parquet.Leaf(parquet.FloatType)
		}
		return parquet.Leaf(parquet.DoubleType)
	case []number:
		return parquet.List(parquetNode(v[0]))
	case []int:
		return parquet.List(parquet.Int(64))
	case []string:
		return parquet.List(parquet.String())
	case samples:
		if len(v) > 1 {
			return parquet.List(parquetNode(v[0]))
		}
		return parquetNode(v[0])
	case matrix:
		return parquet.List(parquetNode(v[0]))
	}
	return parquet.String()
}

// appendParquet appends the values of one column to a row. The repetition level of a value
// says whether it begins a new list. Its definition level says how many of the nested lists
// around it are not empty.
func appendParquet(row parquet.Row, column int, value any) parquet.Row {
	add := func(v parquet.Value, repetition, definition int) {
		row = append(row, v.Level(repetition, definition, column))
	}
	list := func(n int, valueAt func(i int) parquet.Value) {
		if n == 0 {
			add(parquet.NullValue(), 0, 0)
		}
		for i := range n {
			add(valueAt(i), min(i, 1), 1)
		}
	}
	switch v := value.(type) {
	case []number:
		list(len(v), func(i int) parquet.Value { return parquetValue(v[i]) })
	case []int:
		list(len(v), func(i int) parquet.Value { return parquetValue(v[i]) })
	case []string:
		list(len(v), func(i int) parquet.Value { return parquetValue(v[i]) })
	case samples:
		if len(v) == 1 {
			return appendParquet(row, column, v[0])
		}
		return appendParquet(row, column, matrix(v))
	case matrix:
		for i, list := range v {
			for j, x := range list {
				repetition := 2
				if j == 0 {
					repetition = min(i, 1)
				}
				add(parquetValue(x), repetition, 2)
			}
		}
	default:
		add(parquetValue(value), 0, 0)
	}
	return row
}

func parquetValue(value any) parquet.Value {
	switch v := value.(type) {
	case int:
		return parquet.Int64Value(int64(v))
	case bool:
		return parquet.BooleanValue(v)
	case number:
		if v.isFloat32 {
			return parquet.FloatValue(float32(v.x))
		}
		return parquet.DoubleValue(v.x)
	}
	return parquet.ByteArrayValue([]byte(strings.ToValidUTF8(fmt.Sprint(value), "\ufffd")))
}
