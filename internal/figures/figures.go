// Package figures goes through structs of several figures of one type.
package figures

import "reflect"

// Of points at the fields of type T of the struct that s points to, in order.
func Of[T any](s any) []*T {
	var all []*T
	v := reflect.ValueOf(s).Elem()
	for i := range v.NumField() {
		if f, ok := v.Field(i).Addr().Interface().(*T); ok {
			all = append(all, f)
		}
	}
	return all
}
