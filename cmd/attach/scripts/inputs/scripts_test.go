// Package inputs tests with scripts how commands read rows from arrays, tables, folders and
// archives, and which errors they report.
package inputs

import (
	"os"
	"testing"

	"github.com/attach-uncertainty/attach/internal/scripttest"
)

func TestMain(m *testing.M) { os.Exit(scripttest.Main(m)) }

func TestScripts(t *testing.T) { scripttest.Run(t) }
