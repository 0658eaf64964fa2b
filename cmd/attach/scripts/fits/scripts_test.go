// Package fits tests the commands fit, predict and evaluate with scripts.
package fits

import (
	"os"
	"testing"

	"github.com/attach-uncertainty/attach/internal/scripttest"
)

func TestMain(m *testing.M) { os.Exit(scripttest.Main(m)) }

func TestScripts(t *testing.T) { scripttest.Run(t) }
