// Package commands tests with scripts the behaviour that all commands have in common. It also
// tests compare, export, gradient, inspect and the other commands without a package of scripts.
package commands

import (
	"os"
	"testing"

	"github.com/attach-uncertainty/attach/internal/scripttest"
)

func TestMain(m *testing.M) { os.Exit(scripttest.Main(m)) }

func TestScripts(t *testing.T) { scripttest.Run(t) }
