package command

import (
	"github.com/urfave/cli/v2"

	"github.com/attach-uncertainty/attach/internal/audit/engine"
)

// merging is a call of attach merge.
type merging struct {
	table
	audits inputList
	dir    string
	failIf []string
	gates  []gate
}

func mergeCommand() *cli.Command {
	f := &merging{}
	f.table = table{
		{name: "o", to: &f.dir, needed: true, usage: "DIR: folder to write scores.parquet, audit.json and report.html to"},
		{name: "fail-if", to: &f.failIf, usage: "GATE: exit with status 3 if that is so, as of `attach audit`; repeat for more"},
	}
	choose := func(*cli.Context) (err error) {
		f.gates, err = parseAuditGates(f.failIf)
		return err
	}
	return f.command(cli.Command{
		Name:        "merge",
		Usage:       "make one audit of several",
		UsageText:   "attach merge DIR… -o DIR",
		Description: "Makes of audits of different files with the same M.attach and the same options the audit of all of them, to the byte what `attach audit` of all at once would have written.",
	}, argument{name: "DIR…", list: (*[]string)(&f.audits)}, choose, f.run)
}

func (f *merging) run(c *cli.Context) error {
	a, err := engine.Merge(c.Context, f.audits, f.dir, noting(c.App.ErrWriter))
	if err != nil {
		return err
	}
	printAudit(c.App.Writer, a, f.dir)
	return checkAuditGates(f.gates, a)
}
