package audit

import "github.com/attach-uncertainty/attach/audit/result"

// Identity describes what was scored, and how. Only parts with equal identities are merged.
type Identity result.Settings

// Audit is the result of an audit, with what only its report needs.
type Audit struct {
	result.Audit
	// folders holds the counts of folders with their sub-folders.
	folders  []Group
	retained retainedRows
	mapped   []MapRow // in the order of retained.mapRows, without positions
	used     usedCounts
	cautions int // Notes[:cautions] are cautions
	labels   []*labelTally
}

// Cautions returns the notes with reasons why the guarantee does not hold.
func (a *Audit) Cautions() []string { return a.Notes[:a.cautions] }

// These are the types of results.
type (
	Reading     = result.Reading
	Storey      = result.Storey
	Shift       = result.Shift
	AnyShift    = result.AnyShift
	Place       = result.Place
	Threshold   = result.Threshold
	Group       = result.Group
	Class       = result.Class
	Interval    = result.Interval
	ReasonGroup = result.ReasonGroup
	ReasonPlace = result.ReasonPlace
	Cluster     = result.Cluster
	Majority    = result.Majority
	Shard       = result.Shard
	Row         = result.Row
	Selection   = result.Selection
	JSONFloat   = result.Float
	LabelErrors = result.LabelErrors
	Confusion   = result.Confusion
	Copies      = result.Copies
	Copied      = result.Copied
	FileCopies  = result.FileCopies
	Shown       = result.Shown
	Cell        = result.Cell
	Word        = result.Word
)
