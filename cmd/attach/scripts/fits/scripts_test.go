// Package fits tests with scripts how attach fits models, and how other commands, mainly
// predict, evaluate and inspect, use the resulting .attach files.
package fits

import (
	"os"
	"testing"

	"github.com/attach-uncertainty/attach/internal/scripttest"
)

func TestMain(m *testing.M) { os.Exit(scripttest.Main(m)) }

func TestScripts(t *testing.T) { scripttest.Run(t) }
