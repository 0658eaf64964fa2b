package measure

import "reflect"

// Figures returns pointers to all fields of type T of the struct that s points to, in the
// order of the fields.
func Figures[T any](s any) []*T {
	var all []*T
	v := reflect.ValueOf(s).Elem()
	for i := range v.NumField() {
		if f, ok := v.Field(i).Addr().Interface().(*T); ok {
			all = append(all, f)
		}
	}
	return all
}
