package ood

// Variant is implemented by scorers that may stand in for what their method
// does, where the network lacks what it asks for.
type Variant interface {
	Scorer
	// Variant says in a few words what stands in, such as "inserted dropout",
	// or is empty where nothing does.
	Variant() string
}

// VariantOf is what s says of itself, or "".
func VariantOf(s Scorer) string {
	if v, ok := s.(Variant); ok {
		return v.Variant()
	}
	return ""
}
