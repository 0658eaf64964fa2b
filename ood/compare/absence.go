package compare

import (
	"fmt"
	"strings"
)

// Why is the reason without the name of the method that it begins with.
func (s Skipped) Why() string {
	why, ok := strings.CutPrefix(s.Reason, fmt.Sprintf("method %q", s.Name))
	if !ok {
		return s.Reason
	}
	return strings.TrimLeft(why, ":, ")
}

// Together puts what is skipped for one and the same reason together, in the
// order in which reasons first come up: its name is then the list of names, and
// its reason Why.
func Together(list []Skipped) []Skipped {
	var all []Skipped
	at := map[string]int{}
	for _, s := range list {
		why := s.Why()
		if i, ok := at[why]; ok {
			all[i].Name += ", " + s.Name
			continue
		}
		at[why] = len(all)
		all = append(all, Skipped{s.Name, why})
	}
	return all
}

// Failures are the configurations that failed, each named by its method and
// parameters, by reason.
func (r *Report) Failures() []Skipped {
	var list []Skipped
	for _, m := range r.Methods {
		for _, f := range m.Failed {
			list = append(list, Skipped{strings.TrimSpace(m.Name + " " + f.Params.String()), f.Error})
		}
	}
	return Together(list)
}
