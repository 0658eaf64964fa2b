// Package inputs holds scripts of the rows that commands read: arrays, tables, folders, archives, and what is wrong with them.
package inputs

import (
	"os"
	"testing"

	"github.com/attach-uncertainty/attach/internal/scripttest"
)

func TestMain(m *testing.M) { os.Exit(scripttest.Main(m)) }

func TestScripts(t *testing.T) { scripttest.Run(t) }
