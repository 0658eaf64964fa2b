package command

import (
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"
	"github.com/xrash/smetrics"
)

// completing is the last argument of a call that a shell makes to complete the argument
// before it.
const completing = "--generate-bash-completion"

// complete returns a function that prints the words that may stand in place of the last
// argument, one a line. It prints nothing where a file may stand, as shells know files.
func complete(commands []*cli.Command, flags table) cli.BashCompleteFunc {
	return func(c *cli.Context) {
		args := append([]string{"", ""}, c.Args().Slice()...)
		before, word := args[len(args)-2], args[len(args)-1]
		words := []string{"--help"}
		o := flags.find(strings.TrimLeft(before, "-"))
		switch {
		case strings.HasPrefix(before, "-") && o != nil && !o.stands():
			words = o.choices
		case strings.HasPrefix(word, "-"):
			for _, o := range flags {
				words = append(words, dashed(o.name))
			}
		default:
			words = namesOfCommands(commands)
		}
		for _, w := range words {
			if strings.HasPrefix(w, word) {
				fmt.Fprintln(c.App.Writer, w)
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

// leastLikeness is how much a name resembles one that is suggested in its place, from 0 to 1.
const leastLikeness = .88

// meant returns the name that was probably meant by one that is not known, or "". It
// compares as the library does, which suggests a name however little it resembles.
func meant(given string, names []string) (name string) {
	likeness := leastLikeness
	for _, n := range names {
		if l := smetrics.JaroWinkler(n, given, .7, 4); l > likeness {
			name, likeness = n, l
		}
	}
	return name
}
