package command

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/urfave/cli/v2"

	"github.com/attach-uncertainty/attach/internal/version"
)

// markdownReference prints docs/reference/commands.md, the reference of all commands.
func markdownReference(b *strings.Builder, app *cli.App) {
	b.WriteString("# Commands\n\n" +
		"<!-- Written by `attach help --markdown`; change the help of the command instead. -->\n\n" +
		"`attach COMMAND --help` prints the same on a terminal. The examples work in the folder that `attach demo` writes.\n\n")
	for _, g := range commandGroups {
		var links []string
		for _, name := range g.commands {
			links = append(links, fmt.Sprintf("[%s](#attach-%[1]s)", name))
		}
		fmt.Fprintf(b, "- %s: %s\n", g.name, strings.Join(links, ", "))
	}
	var links []string
	for _, t := range topics() {
		links = append(links, fmt.Sprintf("[%s](#%[1]s)", t.name))
	}
	fmt.Fprintf(b, "- Topics: %s\n", strings.Join(links, ", "))
	for _, g := range commandGroups {
		for _, name := range g.commands {
			if c := app.Command(name); c != nil {
				markdownCommand(b, app.Name+" "+name, c)
			}
		}
	}
	for _, t := range topics() {
		fmt.Fprintf(b, "\n## %s\n", t.name)
		for _, p := range paragraphs(t.intro) {
			fmt.Fprintf(b, "\n%s\n", escapeMarkdown(p))
		}
		b.WriteString("\n| | |\n|---|---|\n")
		for _, r := range t.rows {
			fmt.Fprintf(b, "| %s | %s |\n", escapeMarkdown(r[0]), escapeMarkdown(r[1]))
		}
		for _, p := range paragraphs(t.outro) {
			fmt.Fprintf(b, "\n%s\n", escapeMarkdown(p))
		}
	}
}

func markdownCommand(b *strings.Builder, name string, c *cli.Command) {
	fmt.Fprintf(b, "\n## %s\n\n%s\n\n```\n%s\n```\n", name, toSentence(c.Usage), c.UsageText)
	for _, p := range paragraphs(c.Description) {
		fmt.Fprintf(b, "\n%s\n", escapeMarkdown(p))
	}
	if c.CustomHelpTemplate != "" {
		fmt.Fprintf(b, "\nExamples:\n\n```sh\n%s\n```\n", c.CustomHelpTemplate)
	}
	for _, g := range groupFlags(c.Flags) {
		fmt.Fprintf(b, "\n| %s | |\n|---|---|\n", g.name)
		for _, o := range g.flags {
			head, text := o.describe()
			fmt.Fprintf(b, "| `%s` | %s |\n", strings.ReplaceAll(head, "|", `\|`), escapeMarkdown(text))
		}
	}
	for _, sub := range c.Subcommands {
		markdownCommand(b, name+" "+sub.Name, sub)
	}
}

// toSentence turns the summary of a command into a sentence.
func toSentence(summary string) string {
	return strings.ToUpper(summary[:1]) + summary[1:] + "."
}

// escapeMarkdown escapes characters that have a meaning in a Markdown table. In inline
// code, it escapes only "|".
func escapeMarkdown(text string) string {
	parts := strings.Split(text, "`")
	for i := range parts {
		parts[i] = strings.ReplaceAll(parts[i], "|", `\|`)
		if i%2 == 0 {
			parts[i] = strings.NewReplacer("<", "&lt;", "*", `\*`, "_", `\_`).Replace(parts[i])
		}
	}
	return strings.Join(parts, "`")
}

// manPage writes the manual page of attach, in the format that the program man reads.
func manPage(b *strings.Builder, app *cli.App) {
	fmt.Fprintf(b, ".TH ATTACH 1 \"\" \"attach %s\" \"User Commands\"\n", version.String())
	fmt.Fprintf(b, ".SH NAME\nattach \\- %s\n.SH SYNOPSIS\n.B attach\n.I COMMAND\n[arguments]\n", escapeRoff(app.Usage))
	b.WriteString(".SH DESCRIPTION\n" + escapeRoff(aboutAttach) + "\n.SH FIRST STEPS\n")
	manBlock(b, strings.TrimSuffix(firstSteps, "\n"))
	b.WriteString(".SH COMMANDS\n")
	for _, g := range commandGroups {
		for _, name := range g.commands {
			if c := app.Command(name); c != nil {
				manCommand(b, app.Name+" "+name, c)
			}
		}
	}
	for _, t := range topics() {
		fmt.Fprintf(b, ".SH %s\n", escapeRoff(strings.ToUpper(strings.ReplaceAll(t.name, "-", " "))))
		for _, p := range paragraphs(t.intro) {
			fmt.Fprintf(b, ".PP\n%s\n", escapeRoff(p))
		}
		for _, r := range t.rows {
			fmt.Fprintf(b, ".TP\n.B %s\n%s\n", escapeRoff(r[0]), escapeRoff(r[1]))
		}
		for _, p := range paragraphs(t.outro) {
			fmt.Fprintf(b, ".PP\n%s\n", escapeRoff(p))
		}
	}
}

// aboutAttach is the description in the man page.
const aboutAttach = "attach adds calibrated uncertainty to an ONNX model you already have: images, text or tables, without retraining it. " +
	"It flags inputs that are unlike the calibration data, and gives prediction intervals for regressors and prediction sets for classifiers."

func manCommand(b *strings.Builder, name string, c *cli.Command) {
	fmt.Fprintf(b, ".SS %s\n%s\n", escapeRoff(name), escapeRoff(toSentence(c.Usage)))
	manBlock(b, c.UsageText)
	for _, p := range paragraphs(c.Description) {
		fmt.Fprintf(b, ".PP\n%s\n", escapeRoff(p))
	}
	if c.CustomHelpTemplate != "" {
		b.WriteString(".PP\nExamples:\n")
		manBlock(b, c.CustomHelpTemplate)
	}
	for _, g := range groupFlags(c.Flags) {
		fmt.Fprintf(b, ".PP\n.I %s\n", escapeRoff(g.name))
		for _, o := range g.flags {
			head, text := o.describe()
			fmt.Fprintf(b, ".TP\n.B %s\n%s\n", escapeRoff(head), escapeRoff(text))
		}
	}
	for _, sub := range c.Subcommands {
		manCommand(b, name+" "+sub.Name, sub)
	}
}

// manBlock prints text as it is, line by line.
func manBlock(b *strings.Builder, text string) {
	b.WriteString(".PP\n.nf\n.RS\n")
	for line := range strings.SplitSeq(text, "\n") {
		b.WriteString(escapeRoff(line) + "\n")
	}
	b.WriteString(".RE\n.fi\n")
}

// escapeRoff escapes text for a man page. Characters outside ASCII are escaped, because some
// formatters expect ASCII. Text that begins with . or ' is escaped, because its first line
// would be a command. Backticks are left out.
func escapeRoff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`, "`", "").Replace(text)
	var b strings.Builder
	for _, r := range text {
		if r < utf8.RuneSelf {
			b.WriteRune(r)
		} else {
			fmt.Fprintf(&b, `\[u%04X]`, r)
		}
	}
	text = b.String()
	if strings.HasPrefix(text, ".") || strings.HasPrefix(text, "'") {
		text = `\&` + text
	}
	return text
}
