// Package audits tests the commands audit and merge with scripts.
package audits

import (
	"os"
	"testing"

	"github.com/attach-uncertainty/attach/internal/scripttest"
)

func TestMain(m *testing.M) { os.Exit(scripttest.Main(m)) }

func TestScripts(t *testing.T) { scripttest.Run(t) }
