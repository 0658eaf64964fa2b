package command

import (
	"github.com/urfave/cli/v2"
)

// mergeFlags holds the flags of attach merge.
type mergeFlags struct {
	table
	finishedFlags
	audits []string
}

func mergeCommand() *cli.Command {
	f := &mergeFlags{}
	f.table = join(f.rateOptions(), table{
		{name: "o", dest: &f.out, usage: "DIR: folder to write the merged audit to, or FILE of --list; without it, results are only printed"},
		f.failIfOption(),
	}.inGroup(groupOutput), f.listOptions())
	return f.command(cli.Command{
		Name:        "merge",
		Usage:       "combine audits of different files into one",
		UsageText:   "attach merge DIR… [-o DIR] [--fdr 0.2]",
		Description: "Combines audits that used the same .attach file and the same flags, for example one per machine. The result is byte-identical to one audit of all files. Error rates may be new: it needs neither the inputs nor the model.",
		CustomHelpTemplate: `attach audit digits_resnet.attach --x digits_test.npz -o part1
attach audit digits_resnet.attach --x letters.npz -o part2
attach merge part1 part2 -o all`,
	}, argument{name: "DIR…", list: &f.audits}, f.parseGates, f.table.pick("report").checkWritable, f.run)
}

func (f *mergeFlags) run(c *cli.Context) error { return f.answer(c, f.audits) }
