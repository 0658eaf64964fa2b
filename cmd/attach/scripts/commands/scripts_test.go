// Package commands tests the other commands with scripts, and what all commands have in
// common.
package commands

import (
	"os"
	"testing"

	"github.com/attach-uncertainty/attach/internal/scripttest"
)

func TestMain(m *testing.M) { os.Exit(scripttest.Main(m)) }

func TestScripts(t *testing.T) { scripttest.Run(t) }
