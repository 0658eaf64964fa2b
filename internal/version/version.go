// Package version reports the version of this module.
package version

import "runtime/debug"

// Module is the path of this module.
const Module = "github.com/attach-uncertainty/attach"

// String returns the version of this module in the running program: a tag, or the
// pseudo-version of a commit. It returns "devel" if the build recorded no version, as go
// run and go test do, or if a folder or a module of another path replaces this module.
func String() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "devel"
	}
	mod := &info.Main
	for _, dep := range info.Deps {
		if dep.Path == Module {
			if mod = dep; dep.Replace != nil {
				mod = dep.Replace
			}
		}
	}
	if mod.Path != Module || mod.Version == "" || mod.Version == "(devel)" {
		return "devel"
	}
	return mod.Version
}
