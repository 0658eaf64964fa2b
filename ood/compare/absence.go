package compare

import (
	"fmt"
	"strings"
)

// Absence is one reason why there is no result, and what it holds for.
type Absence struct {
	Why   string   // without a method's name
	Names []string // of methods, or of their configurations
}

// Why is the reason without the name of the method that it begins with.
func (s Skipped) Why() string {
	why, ok := strings.CutPrefix(s.Reason, fmt.Sprintf("method %q", s.Name))
	if !ok {
		return s.Reason
	}
	return strings.TrimLeft(why, ":, ")
}

// Together puts what is skipped for one and the same reason together, in the
// order in which reasons first come up.
func Together(list []Skipped) []Absence {
	var all []Absence
	at := map[string]int{}
	for _, s := range list {
		why := s.Why()
		i, ok := at[why]
		if !ok {
			i = len(all)
			at[why] = i
			all = append(all, Absence{Why: why})
		}
		all[i].Names = append(all[i].Names, s.Name)
	}
	return all
}

// Failures are the configurations that failed, each named by its method and
// parameters, by reason.
func (r *Report) Failures() []Absence {
	var list []Skipped
	for _, m := range r.Methods {
		for _, f := range m.Failed {
			list = append(list, Skipped{strings.TrimSpace(m.Name + " " + f.Params.String()), f.Error})
		}
	}
	return Together(list)
}
