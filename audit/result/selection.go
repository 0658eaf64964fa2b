package result

// Selection selects inputs of an audit. Its zero value selects all of them.
type Selection struct {
	// Discovery selects the discoveries if it is true, and all other inputs if it is false.
	Discovery *bool
	// LabelErrors selects the inputs with a label that is called wrong.
	LabelErrors bool
	// Within is the name of a file, folder, group or cluster, "class" and the name of a predicted
	// class, or "label" and the name of a given label. It selects the inputs in it, also those in
	// its sub-folders.
	Within string
	// Top selects the inputs with the highest scores, or with LabelErrors the most suspicious
	// labels, in this order. Otherwise inputs are in the order of the files.
	Top int
}
