package inputs

import "testing"

// TestListOfItself: a list may name lists, and one that leads back to itself has an end.
func TestListOfItself(t *testing.T) {
	path := writeFile(t, t.TempDir(), "list", "")
	writeFile(t, "", path, "@"+path+"\n")
	_, err := Shards("@" + path)
	wantError(t, err, path, "lists name other lists more than 8 levels deep")
}
