package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/attach-uncertainty/attach/ood/compare"
)

// Together merges entries with the same reason, in the order of their first occurrence. The
// name of a merged entry is the list of names. Its reason does not repeat a name.
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

// failures lists the configurations that failed, and merges those with the same reason. The
// name of a configuration is its method and its parameters.
func failures(r *compare.Report) []compare.Skipped {
	var list []compare.Skipped
	for _, m := range r.Methods {
		for _, f := range m.Failed {
			list = append(list, compare.Skipped{Name: strings.TrimSpace(m.Name + " " + f.Params.String()), Reason: f.Error})
		}
	}
	return Together(list)
}

// best returns the configuration with the highest AUROC. Ties go to the first one. Its
// AUROC is optimistic, because the choice uses the OOD rows. Use it for plots, not for
// claims.
func best(m compare.MethodReport) compare.Config {
	return slices.MaxFunc(m.Configs, func(a, b compare.Config) int { return cmp.Compare(a.AUROC, b.AUROC) })
}
