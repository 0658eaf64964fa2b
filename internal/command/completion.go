package command

import (
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
)

// completionScripts holds one script for each shell, which lets the shell complete commands,
// flags and values. The scripts call attach with the arguments so far and the flag
// completionFlag.
var completionScripts = map[string]string{
	"bash": `# attach completion bash
_attach() {
    local IFS=$'\n' word="${COMP_WORDS[COMP_CWORD]}"
    COMPREPLY=($("${COMP_WORDS[@]:0:COMP_CWORD}" "$word" ` + completionFlag + ` 2>/dev/null))
    if [ "${#COMPREPLY[@]}" -eq 1 ] && [ "${COMPREPLY[0]%:}" != "${COMPREPLY[0]}" ]; then
        compopt -o nospace # a number follows
    fi
}
complete -o bashdefault -o default -F _attach attach
`,
	"zsh": `#compdef attach
_attach() {
    local -a replies
    replies=("${(@f)$("${(@Q)words[1,CURRENT-1]}" "${(Q)words[CURRENT]}" ` + completionFlag + ` 2>/dev/null)}")
    if [[ -n "${replies[1]}" ]]; then
        compadd -- "${replies[@]}"
    else
        _files
    fi
}
if [ "${funcstack[1]}" = "_attach" ]; then
    _attach "$@"
else
    compdef _attach attach
fi
`,
	"fish": `# attach completion fish
function __attach_complete
    set -l words (commandline -opc)
    set -l word (commandline -ct)
    command $words "$word" ` + completionFlag + ` 2>/dev/null
end
complete -c attach -n 'test (count (__attach_complete)) -gt 0' -f -a '(__attach_complete)'
`,
	"powershell": `# attach completion powershell
Register-ArgumentCompleter -Native -CommandName attach -ScriptBlock {
    param($wordToComplete, $commandAst, $cursorPosition)
    $words = @($commandAst.CommandElements | ForEach-Object { $_.ToString() })
    if ($wordToComplete -ne '') { $words = @($words | Select-Object -SkipLast 1) }
    $word = if ($wordToComplete -eq '') { '""' } else { $wordToComplete }
    $rest = @($words | Select-Object -Skip 1)
    & $words[0] @rest $word '` + completionFlag + `' 2>$null |
        ForEach-Object { [System.Management.Automation.CompletionResult]::new($_, $_, 'ParameterValue', $_) }
}
`,
}

func completionCommand() *cli.Command {
	shells, shell := slices.Sorted(maps.Keys(completionScripts)), ""
	return table{}.command(cli.Command{
		Name:        "completion",
		Usage:       "print a script that completes commands and flags in your shell",
		UsageText:   "attach completion bash|fish|powershell|zsh",
		Description: "With the script, the tab key completes commands, flags, and values such as the names of methods. Load it where your shell starts.",
		CustomHelpTemplate: `# bash, for this session; add the line to ~/.bashrc to keep it
source <(attach completion bash)
# zsh: a file in a folder of $fpath
attach completion zsh > "${fpath[1]}/_attach"
# fish
attach completion fish > ~/.config/fish/completions/attach.fish
# PowerShell: add the line to $PROFILE
attach completion powershell | Out-String | Invoke-Expression`,
	}, argument{name: "a shell: " + strings.Join(shells, ", "), dest: &shell, choices: shells}, func(c *cli.Context) error {
		script, ok := completionScripts[shell]
		if !ok {
			return usagef("there is no completion for %q; %s", shell, suggest(shell, shells, "shells are "+strings.Join(shells, ", ")))
		}
		_, err := io.WriteString(c.App.Writer, script)
		return err
	})
}
