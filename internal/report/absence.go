package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/attach-uncertainty/attach/ood/compare"
)

// Together merges entries with the same reason, in the order of their first occurrence. The
// name of a merged entry is the list of names. A reason that begins with the name of its
// method loses this beginning.
func Together(list []compare.Skipped) []compare.Skipped {
	var all []compare.Skipped
	index := map[string]int{}
	for _, s := range list {
		reason := s.Reason
		if rest, ok := strings.CutPrefix(reason, fmt.Sprintf("method %q", s.Name)); ok {
			reason = strings.TrimLeft(rest, ":, ")
		}
		if i, ok := index[reason]; ok {
			all[i].Name += ", " + s.Name
			continue
		}
		index[reason] = len(all)
		all = append(all, compare.Skipped{Name: s.Name, Reason: reason})
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

// bestConfig returns the configuration with the highest AUROC. Ties go to the first one. Its
// AUROC is optimistic, because the choice uses the OOD rows. Use it for plots, not for
// claims.
func bestConfig(m compare.MethodReport) compare.Config {
	return slices.MaxFunc(m.Configs, func(a, b compare.Config) int { return cmp.Compare(a.AUROC, b.AUROC) })
}
