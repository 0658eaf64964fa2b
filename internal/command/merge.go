package command

import (
	"github.com/urfave/cli/v2"

	"github.com/attach-uncertainty/attach/internal/audit/engine"
)

// mergeFlags holds the flags of attach merge.
type mergeFlags struct {
	table
	audits inputList
	dir    string
	failIf []string
	gates  []gate
}

func mergeCommand() *cli.Command {
	f := &mergeFlags{}
	f.table = table{
		{name: "o", dest: &f.dir, required: true, usage: "DIR: folder to write scores.parquet, audit.json and report.html to"},
		{name: "fail-if", dest: &f.failIf, choices: auditFigures(), usage: "CONDITION: exit with status 3 if it holds, as for `attach audit`; may be repeated"},
	}.inGroup(groupOutput)
	parseGates := func(*cli.Context) (err error) {
		f.gates, err = parseAuditGates(f.failIf)
		return err
	}
	return f.command(cli.Command{
		Name:        "merge",
		Usage:       "combine audits of different files into one",
		UsageText:   "attach merge DIR… -o DIR",
		Description: "Combines audits that used the same .attach file and the same flags, for example one per machine. The result is byte-identical to one audit of all files.",
		CustomHelpTemplate: `attach audit digits_resnet.attach --x digits_test.npz -o part1
attach audit digits_resnet.attach --x letters.npz -o part2
attach merge part1 part2 -o all`,
	}, argument{name: "DIR…", list: (*[]string)(&f.audits)}, parseGates, f.run)
}

func (f *mergeFlags) run(c *cli.Context) error {
	a, err := engine.Merge(c.Context, f.audits, f.dir, notePrinter(c.App.ErrWriter))
	if err != nil {
		return err
	}
	printAudit(c.App.Writer, a, f.dir)
	if err := checkColumnGates(f.gates, a.Schema != nil); err != nil {
		return err
	}
	return checkAuditGates(f.gates, a)
}
