package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/attach-uncertainty/attach/ood/compare"
)

// Together merges entries with the same reason, in the order of their first occurrence. The
// name of a merged entry is the list of names, and its reason does not begin with a name.
func Together(list []compare.Skipped) []compare.Skipped {
	var all []compare.Skipped
	at := map[string]int{}
	for _, s := range list {
		why := s.Reason
		if rest, ok := strings.CutPrefix(why, fmt.Sprintf("method %q", s.Name)); ok {
			why = strings.TrimLeft(rest, ":, ")
		}
		if i, ok := at[why]; ok {
			all[i].Name += ", " + s.Name
			continue
		}
		at[why] = len(all)
		all = append(all, compare.Skipped{Name: s.Name, Reason: why})
	}
	return all
}

// failures returns the configurations that failed, by reason. Each is named by its method and
// parameters.
func failures(r *compare.Report) []compare.Skipped {
	var list []compare.Skipped
	for _, m := range r.Methods {
		for _, f := range m.Failed {
			list = append(list, compare.Skipped{Name: strings.TrimSpace(m.Name + " " + f.Params.String()), Reason: f.Error})
		}
	}
	return Together(list)
}

// best returns the configuration with the highest AUROC, or the first of several. The choice
// uses the OOD rows, so its AUROC is optimistic: it is for plots, not for claims.
func best(m compare.MethodReport) compare.Config {
	return slices.MaxFunc(m.Configs, func(a, b compare.Config) int { return cmp.Compare(a.AUROC, b.AUROC) })
}
