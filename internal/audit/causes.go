package audit

import (
	"fmt"
	"slices"
	"strings"

	"github.com/attach-uncertainty/attach/internal/display"
	"github.com/attach-uncertainty/attach/schema"
)

// A file is the cause of the unusual values of a column if it has at least minCauseShare of
// them, and there are at least minCauseValues. Fewer can be in one file by chance.
const minCauseShare, minCauseValues = 0.9, 10

// ColumnText describes a column that differs from the fit rows. If one of several files is the
// cause of its unusual values, the text names this file.
func (a *Audit) ColumnText(c schema.ColumnSummary) string {
	unusual := c.NewGaps + c.NewCategories + c.OutOfRange
	if unusual < minCauseValues || len(a.Shards) < 2 {
		return c.String()
	}
	inFile, most := map[string]int{}, ""
	for _, g := range a.ReasonGroups {
		if !namesColumn(g.Reasons, c.Column) {
			continue
		}
		for _, p := range g.Places {
			if inFile[p.Shard] += p.Inputs; inFile[p.Shard] > inFile[most] {
				most = p.Shard
			}
		}
	}
	switch n := inFile[most]; {
	case n == unusual:
		return fmt.Sprintf("%v; all unusual values are in %s", c, most)
	case float64(n) >= minCauseShare*float64(unusual):
		return fmt.Sprintf("%v; %s of %s unusual values are in %s", c, display.Count(n), display.Count(unusual), most)
	}
	return c.String()
}

// namesColumn reports whether one of the reasons of a ReasonGroup is about a column.
func namesColumn(reasons, column string) bool {
	return slices.ContainsFunc([]schema.Cause{schema.NewGap, schema.NewCategory, schema.OutOfRange}, func(cause schema.Cause) bool {
		reason := schema.Group([]schema.Reason{{Column: column, Cause: cause}})
		rest, ok := strings.CutPrefix(reasons, reason)
		if !ok {
			_, rest, ok = strings.Cut(reasons, ", "+reason)
		}
		return ok && (rest == "" || strings.HasPrefix(rest, ", ") || strings.HasPrefix(rest, " and "))
	})
}
