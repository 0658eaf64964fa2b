package inputs

import "testing"

// TestListOfItself checks that a list that contains itself is an error.
func TestListOfItself(t *testing.T) {
	path := writeFile(t, t.TempDir(), "list", "")
	writeFile(t, "", path, "@"+path+"\n")
	_, err := Shards("@" + path)
	wantError(t, err, path, "lists name other lists more than 8 levels deep")
}
