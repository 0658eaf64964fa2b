package rows

import (
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/gonum/blas/blas32"
	"gonum.org/v1/gonum/blas/blas64"
)

// Coder is implemented by parts of a fitted value that write their own state.
type Coder interface {
	State() State
	// Restore sets the receiver from a state. It returns an error for a state that State
	// never returns.
	Restore(s State) error
}

// Restored is implemented by values that need more checks or computations after their
// fields are restored.
type Restored interface{ Restored() error }

// Save returns the state of the tagged fields of v, which is a struct or a pointer to a
// struct. For example:
//
//	Mean       []float64      `state:"mean[h]"`
//	Projection blas64.General `state:"projection[h,r]"`
//	K          int            `state:"k,least=1"`
//
// A number, boolean or string becomes a parameter. A slice of numbers or booleans becomes
// an array, as does a matrix. The brackets name the lengths of its axes, and lengths with
// the same name must be equal. The entries of a nested struct or Coder get the name of the
// field and a dot in front, for example part.mean. A pointer or an interface is stored like
// the struct or Coder that it contains. Entries of a slice of structs get a name such as
// layers.1.mean, and entries of a slice of strings a name such as names.1. Fields of
// embedded structs count as fields of the outer struct. Conditions follow after commas, and
// Restore checks them:
//
//	least=N      a number of at least N
//	positive     numbers above 0
//	below=N      numbers below N
//	rising       numbers in increasing order, some of which may be equal
//	dim=h        an integer that equals the length h
//	of=a|b       one of the strings a and b
//	optional     an array that may be nil; then a parameter "no NAME" replaces it
//
// Floating-point numbers must be finite. Save panics for a field of any other type, which
// is a programming error. Keeps finds such fields in advance.
func Save(v any) State {
	s := State{Params: map[string]any{}, Arrays: map[string]Array{}}
	save(s, "", reflect.Indirect(reflect.ValueOf(v)))
	return s
}

// Restore sets the tagged fields of v, a pointer to a struct, from a state that Save
// returned. It returns an error if entries are missing or unknown, have another type or
// shape, are not finite, or violate a condition of a tag. lengths gives the lengths that
// are already known, by the names in brackets. It may be nil.
func Restore(v any, s State, lengths map[string]int) error {
	r := restorer{state: s, used: map[string]bool{}, known: lengths}
	if err := r.restore("", reflect.ValueOf(v).Elem()); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(s.Params)) {
		if !r.used[name] {
			return fmt.Errorf("parameter %q belongs to nothing", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Arrays)) {
		if !r.used[name] {
			return fmt.Errorf("array %q belongs to nothing", name)
		}
	}
	return nil
}

// field holds the parsed tag of a struct field.
type field struct {
	name       string
	dims       []string
	conditions map[string]string
}

func parseTag(tag string) field {
	f := field{conditions: map[string]string{}}
	rest := ""
	f.name, rest, _ = strings.Cut(tag, "[")
	if rest == "" {
		f.name, rest, _ = strings.Cut(tag, ",")
	} else {
		dims, after, _ := strings.Cut(rest, "]")
		f.dims, rest = strings.Split(dims, ","), strings.TrimPrefix(after, ",")
	}
	for option := range strings.SplitSeq(rest, ",") {
		if key, value, _ := strings.Cut(option, "="); key != "" {
			f.conditions[key] = value
		}
	}
	return f
}

// eachField visits the tagged fields of a struct and of its embedded structs.
func eachField(v reflect.Value, visit func(f field, v reflect.Value) error) error {
	for i := range v.NumField() {
		t := v.Type().Field(i)
		tag, tagged := t.Tag.Lookup("state")
		var err error
		switch {
		case tagged:
			if err = visit(parseTag(tag), v.Field(i)); err != nil {
				return err
			}
		case t.Anonymous && t.Type.Kind() == reflect.Struct:
			err = eachField(v.Field(i), visit)
		case t.Anonymous && t.Type.Kind() == reflect.Pointer && t.Type.Elem().Kind() == reflect.Struct:
			if v.Field(i).IsNil() {
				v.Field(i).Set(reflect.New(t.Type.Elem()))
			}
			err = eachField(v.Field(i).Elem(), visit)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// inner returns the struct that v is, points to or contains as an interface. It reports
// whether there is one.
func inner(v reflect.Value) (reflect.Value, bool) {
	for v.Kind() == reflect.Interface || v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	return v, v.Kind() == reflect.Struct
}

func asCoder(v reflect.Value) (Coder, bool) {
	if v.Kind() == reflect.Pointer && v.IsNil() && v.CanSet() {
		v.Set(reflect.New(v.Type().Elem()))
	}
	if v.Kind() != reflect.Interface && v.Kind() != reflect.Pointer && v.CanAddr() {
		v = v.Addr()
	}
	c, ok := v.Interface().(Coder)
	return c, ok
}

func save(s State, prefix string, v reflect.Value) {
	_ = eachField(v, func(f field, v reflect.Value) error {
		name := prefix + f.name
		if _, ok := f.conditions["optional"]; ok && v.IsZero() {
			s.Params[prefix+"no "+f.name] = true
			return nil
		}
		switch x := v.Interface().(type) {
		case int:
			s.Params[name] = float64(x)
		case float64, bool, string:
			s.Params[name] = x
		case float32:
			s.Params[name] = float64(x)
		case uint64:
			s.Params[name] = strconv.FormatUint(x, 10)
		case int64:
			s.Params[name] = strconv.FormatInt(x, 10)
		case []bool:
			s.Arrays[name] = Array{Shape: []int{len(x)}, Data: boolBytes(x)}
		case []float32, []float64, []int64, []uint8:
			s.Arrays[name] = Array{Shape: []int{v.Len()}, Data: x}
		case []int:
			s.Arrays[name] = intArray(x)
		case []int32:
			s.Arrays[name] = intArray(x)
		case blas32.General:
			s.Arrays[name] = Array{Shape: []int{x.Rows, x.Cols}, Data: contiguous(x.Data, x.Rows, x.Cols, x.Stride)}
		case Matrix:
			a := Array{Shape: []int{x.Rows, x.Cols}, Data: x.Double}
			if x.Single != nil {
				a.Data = x.Single
			}
			s.Arrays[name] = a
		case blas64.General:
			s.Arrays[name] = Array{Shape: []int{x.Rows, x.Cols}, Data: contiguous(x.Data, x.Rows, x.Cols, x.Stride)}
		default:
			if v.Kind() == reflect.String {
				s.Params[name] = v.String()
				return nil
			}
			saveNested(s, name, v)
		}
		return nil
	})
}

func saveNested(s State, name string, v reflect.Value) {
	if v.Kind() == reflect.String {
		s.Params[name] = v.String()
		return
	}
	if c, ok := asCoder(v); ok {
		nested := c.State()
		for k, p := range nested.Params {
			s.Params[name+"."+k] = p
		}
		for k, a := range nested.Arrays {
			s.Arrays[name+"."+k] = a
		}
		return
	}
	if x, ok := inner(v); ok {
		save(s, name+".", x)
		return
	}
	if v.Kind() != reflect.Slice && v.Kind() != reflect.Array {
		panic(fmt.Sprintf("rows: a %v cannot be saved as %q", v.Type(), name))
	}
	s.Params[name] = float64(v.Len())
	for i := range v.Len() {
		saveNested(s, name+"."+strconv.Itoa(i), v.Index(i))
	}
}

func boolBytes(x []bool) []uint8 {
	data := make([]uint8, len(x))
	for i, set := range x {
		if set {
			data[i] = 1
		}
	}
	return data
}

// Keeps returns an error for the first tagged field of t whose type would make Save panic.
// t is a struct type or a pointer to one.
func Keeps(t reflect.Type) error { return checkFields(t, map[reflect.Type]bool{}) }

func checkFields(t reflect.Type, seen map[reflect.Type]bool) error {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if seen[t] {
		return nil
	}
	seen[t] = true
	for i := range t.NumField() {
		f := t.Field(i)
		_, tagged := f.Tag.Lookup("state")
		fieldType := f.Type
		if !tagged {
			if fieldType.Kind() == reflect.Pointer {
				fieldType = fieldType.Elem()
			}
			if !f.Anonymous || fieldType.Kind() != reflect.Struct {
				continue
			}
		} else if !f.IsExported() {
			return fmt.Errorf("the field %s of %v has a tag, and is not exported", f.Name, t)
		} else if slices.Contains(storedTypes(), fieldType) {
			continue
		}
		for fieldType.Kind() == reflect.Slice || fieldType.Kind() == reflect.Array {
			fieldType = fieldType.Elem()
		}
		switch kind := fieldType.Kind(); {
		case kind == reflect.String || kind == reflect.Interface: // an interface can contain anything
		case fieldType.Implements(reflect.TypeFor[Coder]()) || reflect.PointerTo(fieldType).Implements(reflect.TypeFor[Coder]()):
		case kind == reflect.Struct || kind == reflect.Pointer && fieldType.Elem().Kind() == reflect.Struct:
			if err := checkFields(fieldType, seen); err != nil {
				return err
			}
		default:
			return fmt.Errorf("the field %s of %v is of type %v, which no file keeps", f.Name, t, f.Type)
		}
	}
	return nil
}

// storedTypes returns the types of fields that Save stores as a single parameter or array,
// except types of strings.
func storedTypes() []reflect.Type {
	return []reflect.Type{
		reflect.TypeFor[int](), reflect.TypeFor[int64](), reflect.TypeFor[uint64](), reflect.TypeFor[float32](), reflect.TypeFor[float64](), reflect.TypeFor[bool](),
		reflect.TypeFor[[]float32](), reflect.TypeFor[[]float64](), reflect.TypeFor[[]int](), reflect.TypeFor[[]int32](), reflect.TypeFor[[]int64](),
		reflect.TypeFor[[]uint8](), reflect.TypeFor[[]bool](), reflect.TypeFor[blas32.General](), reflect.TypeFor[blas64.General](), reflect.TypeFor[Matrix](),
	}
}

func intArray[T int | int32](x []T) Array {
	data := make([]int64, len(x))
	for i, n := range x {
		data[i] = int64(n)
	}
	return Array{Shape: []int{len(x)}, Data: data}
}

func restoreInts[T int | int32](r restorer, f field, lengths map[string]int, to *[]T) error {
	var data []int64
	if err := restoreSlice(r, f, lengths, &data); err != nil {
		return err
	}
	*to = make([]T, len(data))
	for i, n := range data {
		if (*to)[i] = T(n); int64((*to)[i]) != n {
			return fmt.Errorf("array %q has %d at %d", f.name, n, i)
		}
	}
	return nil
}

func contiguous[T float32 | float64](data []T, rows, cols, stride int) []T {
	if stride == cols {
		return data[:rows*cols]
	}
	out := make([]T, 0, rows*cols)
	for i := range rows {
		out = append(out, data[i*stride:i*stride+cols]...)
	}
	return out
}

type restorer struct {
	state State
	used  map[string]bool
	known map[string]int // known lengths by name
}

func (r restorer) restore(prefix string, v reflect.Value) error {
	lengths := map[string]int{}
	maps.Copy(lengths, r.known)
	err := eachField(v, func(f field, v reflect.Value) error {
		f.name = prefix + f.name
		return r.restoreField(prefix, f, v, lengths)
	})
	if err != nil {
		return err
	}
	if checked, ok := v.Addr().Interface().(Restored); ok {
		if err := checked.Restored(); err != nil && prefix != "" {
			return fmt.Errorf("%s: %w", strings.TrimSuffix(prefix, "."), err)
		} else if err != nil {
			return err
		}
	}
	return nil
}

func (r restorer) restoreField(prefix string, f field, v reflect.Value, lengths map[string]int) error {
	if _, ok := f.conditions["optional"]; ok {
		absent := prefix + "no " + strings.TrimPrefix(f.name, prefix)
		if isAbsent, _ := r.state.Params[absent].(bool); isAbsent {
			r.used[absent] = true
			v.SetZero()
			return nil
		}
	}
	if v.Kind() == reflect.String && v.Type() != reflect.TypeFor[string]() {
		v = reflect.NewAt(reflect.TypeFor[string](), v.Addr().UnsafePointer()).Elem()
	}
	switch x := v.Addr().Interface().(type) {
	case *int:
		n, err := param[float64](r, f)
		if err == nil && (n != math.Trunc(n) || math.Abs(n) > math.MaxUint32) {
			err = fmt.Errorf("parameter %q must be a whole number, not %v", f.name, n)
		}
		if err != nil {
			return err
		}
		*x = int(n)
		if dim, ok := f.conditions["dim"]; ok {
			if err := bindLength(lengths, dim, *x, fmt.Sprintf("parameter %q", f.name)); err != nil {
				return err
			}
		}
		return f.checkNumber(n)
	case *float64:
		n, err := param[float64](r, f)
		if err != nil {
			return err
		}
		*x = n
		return f.checkNumber(n)
	case *float32:
		n, err := param[float64](r, f)
		if err != nil {
			return err
		}
		if *x = float32(n); float64(*x) != n {
			return fmt.Errorf("parameter %q must be a number of 32 bits, not %v", f.name, n)
		}
		return f.checkNumber(n)
	case *bool:
		b, err := param[bool](r, f)
		*x = b
		return err
	case *string:
		s, err := param[string](r, f)
		if of, ok := f.conditions["of"]; ok && err == nil && !slices.Contains(strings.Split(of, "|"), s) {
			err = fmt.Errorf("parameter %q must be one of %s, not %q", f.name, strings.ReplaceAll(of, "|", ", "), s)
		}
		*x = s
		return err
	case *uint64:
		s, err := param[string](r, f)
		if err == nil {
			if *x, err = strconv.ParseUint(s, 10, 64); err != nil {
				err = fmt.Errorf("parameter %q must be a whole number of 64 bits, not %q", f.name, s)
			}
		}
		return err
	case *int64:
		s, err := param[string](r, f)
		if err != nil {
			return err
		}
		if *x, err = strconv.ParseInt(s, 10, 64); err != nil {
			return fmt.Errorf("parameter %q must be a whole number of 64 bits, not %q", f.name, s)
		}
		return f.checkNumber(float64(*x))
	case *[]bool:
		f.conditions = map[string]string{"below": "2"}
		_, data, err := array[uint8](r, f, lengths)
		*x = make([]bool, len(data))
		for i, bit := range data {
			(*x)[i] = bit == 1
		}
		return err
	case *[]float32:
		return restoreSlice(r, f, lengths, x)
	case *[]float64:
		return restoreSlice(r, f, lengths, x)
	case *[]int64:
		return restoreSlice(r, f, lengths, x)
	case *[]uint8:
		return restoreSlice(r, f, lengths, x)
	case *[]int:
		return restoreInts(r, f, lengths, x)
	case *[]int32:
		return restoreInts(r, f, lengths, x)
	case *blas32.General:
		shape, data, err := array[float32](r, f, lengths)
		if err == nil {
			*x = blas32.General{Rows: shape[0], Cols: shape[1], Stride: shape[1], Data: data}
		}
		return err
	case *Matrix:
		var shape []int
		var err error
		if _, single := r.state.Arrays[f.name].Data.([]float32); single {
			shape, x.Single, err = array[float32](r, f, lengths)
		} else {
			shape, x.Double, err = array[float64](r, f, lengths)
		}
		if err == nil {
			x.Rows, x.Cols = shape[0], shape[1]
		}
		return err
	case *blas64.General:
		shape, data, err := array[float64](r, f, lengths)
		if err == nil {
			*x = blas64.General{Rows: shape[0], Cols: shape[1], Stride: shape[1], Data: data}
		}
		return err
	}
	if len(f.dims) == 1 && v.Kind() == reflect.Slice {
		if n, ok := r.state.Params[f.name].(float64); ok {
			if err := bindLength(lengths, f.dims[0], int(n), fmt.Sprintf("the length of %q", f.name)); err != nil {
				return err
			}
		}
	}
	return r.restoreNested(f, v)
}

func (r restorer) restoreNested(f field, v reflect.Value) error {
	if v.Kind() == reflect.String {
		s, err := param[string](r, f)
		v.SetString(s)
		return err
	}
	if c, ok := asCoder(v); ok {
		nested := State{Params: map[string]any{}, Arrays: map[string]Array{}}
		for k, p := range r.state.Params {
			if rest, ok := strings.CutPrefix(k, f.name+"."); ok {
				nested.Params[rest], r.used[k] = p, true
			}
		}
		for k, a := range r.state.Arrays {
			if rest, ok := strings.CutPrefix(k, f.name+"."); ok {
				nested.Arrays[rest], r.used[k] = a, true
			}
		}
		if err := c.Restore(nested); err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
		return nil
	}
	if x, ok := inner(v); ok {
		return r.restore(f.name+".", x)
	}
	n, err := param[float64](r, f)
	if err != nil {
		return err
	}
	// Each element has at least one entry in the state, so a larger number is wrong. The
	// check also limits the memory for a damaged file.
	if n != math.Trunc(n) || n < 0 || n > float64(len(r.state.Params)+len(r.state.Arrays)) {
		return fmt.Errorf("parameter %q must be the number of its parts, not %v", f.name, n)
	}
	if err := f.checkNumber(n); err != nil {
		return err
	}
	if v.Kind() == reflect.Slice && v.Len() != int(n) {
		v.Set(reflect.MakeSlice(v.Type(), int(n), int(n)))
	}
	if v.Len() != int(n) {
		return fmt.Errorf("parameter %q must be %d, not %v", f.name, v.Len(), n)
	}
	for i := range v.Len() {
		if err := r.restoreNested(field{name: f.name + "." + strconv.Itoa(i)}, v.Index(i)); err != nil {
			return err
		}
	}
	return nil
}

func param[T float64 | bool | string](r restorer, f field) (T, error) {
	v, ok := r.state.Params[f.name].(T)
	r.used[f.name] = true
	if !ok {
		return v, fmt.Errorf("parameter %q must be a %T, not %v", f.name, v, r.state.Params[f.name])
	}
	if n, ok := any(v).(float64); ok && (math.IsNaN(n) || math.IsInf(n, 0)) {
		return v, fmt.Errorf("parameter %q is %v", f.name, n)
	}
	return v, nil
}

func restoreSlice[T float32 | float64 | int64 | uint8](r restorer, f field, lengths map[string]int, x *[]T) error {
	_, data, err := array[T](r, f, lengths)
	*x = data
	return err
}

// array returns the array of a field and checks the conditions of its tag.
func array[T float32 | float64 | int64 | uint8](r restorer, f field, lengths map[string]int) ([]int, []T, error) {
	a, ok := r.state.Arrays[f.name]
	r.used[f.name] = true
	if !ok {
		return nil, nil, fmt.Errorf("array %q is missing", f.name)
	}
	data, ok := a.Data.([]T)
	if !ok || len(a.Shape) != len(f.dims) || Elements(a.Shape) != len(data) {
		return nil, nil, fmt.Errorf("array %q must hold %T of shape [%s], not %T of shape %v", f.name, data, strings.Join(f.dims, " "), a.Data, a.Shape)
	}
	for i, dim := range f.dims {
		if err := bindLength(lengths, dim, a.Shape[i], fmt.Sprintf("axis %d of array %q", i, f.name)); err != nil {
			return nil, nil, err
		}
	}
	return a.Shape, data, checkElements(f, data)
}

// bindLength records that the named length is n. It returns an error if the length is already
// known to be different, or if n is less than 1.
func bindLength(lengths map[string]int, dim string, n int, what string) error {
	if have, ok := lengths[dim]; ok && have != n {
		return fmt.Errorf("%s must be %d, not %d", what, have, n)
	}
	if n < 1 {
		return fmt.Errorf("%s must be at least 1, not %d", what, n)
	}
	lengths[dim] = n
	return nil
}

// bounds holds the conditions that each number of a field must meet.
type bounds struct {
	least, below float64
	positive     bool
}

func (f field) bounds() bounds {
	number := func(option string, otherwise float64) float64 {
		text, ok := f.conditions[option]
		if !ok {
			return otherwise
		}
		n, err := strconv.ParseFloat(text, 64)
		if err != nil {
			panic("rows: " + err.Error())
		}
		return n
	}
	_, positive := f.conditions["positive"]
	return bounds{number("least", math.Inf(-1)), number("below", math.Inf(1)), positive}
}

// check returns an error for a number that violates the bounds.
func (b bounds) check(n float64) error {
	switch {
	case b.positive && !(n > 0):
		return fmt.Errorf("must be above 0, not %v", n)
	case n < b.least:
		return fmt.Errorf("must be at least %v, not %v", b.least, n)
	case n >= b.below:
		return fmt.Errorf("must be below %v, not %v", b.below, n)
	}
	return nil
}

// checkNumber returns an error for a number that violates the bounds.
func (f field) checkNumber(n float64) error {
	if err := f.bounds().check(n); err != nil {
		return fmt.Errorf("parameter %q %w", f.name, err)
	}
	return nil
}

// checkElements returns an error if an element of an array violates the conditions of its
// tag.
func checkElements[T float32 | float64 | int64 | uint8](f field, data []T) error {
	b := f.bounds()
	_, rising := f.conditions["rising"]
	for i, v := range data {
		n := float64(v)
		if !Finite(n) {
			return fmt.Errorf("array %q has %v at %d", f.name, n, i)
		}
		if rising && i > 0 && v < data[i-1] {
			return fmt.Errorf("array %q falls at %d", f.name, i)
		}
		if err := b.check(n); err != nil {
			return fmt.Errorf("array %q, at %d, %w", f.name, i, err)
		}
	}
	return nil
}
