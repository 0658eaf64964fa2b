package result

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// File is the name of the file in the folder of an audit that holds its Audit.
const File = "audit.json"

// Read reads the results of the finished audit in a folder. Fields that audit.json leaves out
// are zero, such as Row.Shown.
func Read(dir string) (*Audit, error) {
	path := filepath.Join(dir, File)
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	a := new(Audit)
	if err := json.Unmarshal(text, a); err != nil {
		return nil, fmt.Errorf("%s: it is not the result of an audit: %w", path, err)
	}
	return a, nil
}
