package command

import (
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"
)

// completionFlag is the last argument of a call in which a shell asks for completions of the
// argument before it.
const completionFlag = "--generate-bash-completion"

// completeWords returns a function that prints the possible words for the last argument,
// one per line. It prints nothing if a file name may stand there, because shells complete
// file names themselves.
func completeWords(commands []*cli.Command, flags table, arguments []string) cli.BashCompleteFunc {
	return func(c *cli.Context) {
		args := append([]string{"", ""}, c.Args().Slice()...)
		before, word := args[len(args)-2], args[len(args)-1]
		if word == `""` {
			word = "" // PowerShell passes an empty argument as ""
		}
		words, start := []string{"--help"}, ""
		o := flags.find(strings.TrimLeft(before, "-"))
		switch {
		case strings.HasPrefix(before, "-") && o != nil && !o.isSwitch():
			words = o.choices
			if i := strings.LastIndex(word, ","); o.list && i >= 0 {
				start, word = word[:i+1], word[i+1:]
			}
		case strings.HasPrefix(word, "-"):
			for _, o := range flags {
				words = append(words, dashedName(o.name))
			}
			if flags.find("o") != nil {
				words = append(words, "--output")
			}
		default:
			words = append(namesOfCommands(commands), arguments...)
		}
		for _, w := range words {
			if strings.HasPrefix(w, word) {
				fmt.Fprintln(c.App.Writer, start+w)
			}
		}
	}
}

func namesOfCommands(commands []*cli.Command) []string {
	var names []string
	for _, c := range commands {
		names = append(names, c.Name)
	}
	return names
}
