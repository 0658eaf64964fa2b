package command

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"sync"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/attach-uncertainty/attach/internal/data/atomicfile"
	"github.com/attach-uncertainty/attach/internal/display"
	"github.com/attach-uncertainty/attach/internal/modelrows"
	"github.com/attach-uncertainty/attach/internal/report"
)

// printf prints text for people. It escapes arguments with display.Printable, because names
// of files, tensors and sets may come from strangers.
func printf(w io.Writer, format string, args ...any) (int, error) {
	for i, a := range args {
		switch a := a.(type) {
		case string:
			args[i] = display.Printable(a)
		case error:
			args[i] = errorText(a)
		}
	}
	return fmt.Fprintf(w, format, args...)
}

// notePrinter returns a function that prints notes to w.
func notePrinter(w io.Writer) modelrows.Note {
	return func(format string, args ...any) { printf(w, format+"\n", args...) }
}

// printFact prints one line of a summary: a label and a value.
func printFact(w io.Writer, label, format string, args ...any) (int, error) {
	return printf(w, "%-10s %s\n", label, fmt.Sprintf(format, args...))
}

// writeJSON prints v as indented JSON. It escapes characters that control a terminal, but
// not characters such as <.
func writeJSON(w io.Writer, v any) error {
	var encoded bytes.Buffer
	enc := json.NewEncoder(&encoded)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return err
	}
	var b bytes.Buffer
	for _, r := range encoded.String() {
		if display.Visible(r) || r == '\n' {
			b.WriteRune(r)
			continue
		}
		for _, unit := range utf16.AppendRune(nil, r) {
			fmt.Fprintf(&b, `\u%04x`, unit)
		}
	}
	_, err := w.Write(b.Bytes())
	return err
}

// terminal writes text to a terminal. It escapes control characters as display.Printable
// does, because names of files, classes, columns and tensors may come from strangers.
type terminal struct {
	mu         sync.Mutex
	raw        io.Writer
	incomplete []byte // beginning of a character that the last write ended with
}

// escapeOnTerminal returns a writer that escapes text if w is a terminal. Otherwise it
// returns w.
func escapeOnTerminal(w io.Writer) io.Writer {
	switch f := w.(type) {
	case *os.File:
		if st, err := f.Stat(); err != nil || st.Mode()&os.ModeCharDevice == 0 {
			return w
		}
	case interface{ IsTerminal() bool }:
		if !f.IsTerminal() {
			return w
		}
	default:
		return w
	}
	return &terminal{raw: w}
}

// Write writes text. An incomplete character at the end waits for the next call.
func (t *terminal) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := append(t.incomplete, b...)
	end := len(all)
	for i := max(0, end-utf8.UTFMax); i < end; i++ {
		if utf8.RuneStart(all[i]) && !utf8.FullRune(all[i:]) {
			end = i
		}
	}
	t.incomplete = append([]byte(nil), all[end:]...)
	return len(b), t.write(all[:end])
}

// Close writes an incomplete character that is still waiting. It does not close the
// terminal.
func (t *terminal) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	cut := t.incomplete
	t.incomplete = nil
	return t.write(cut)
}

// closeTerminals closes those writers that are terminals.
func closeTerminals(writers ...io.Writer) {
	for _, w := range writers {
		if t, ok := w.(*terminal); ok {
			t.Close()
		}
	}
}

func (t *terminal) write(text []byte) error {
	if len(text) == 0 {
		return nil
	}
	_, err := io.WriteString(t.raw, display.PrintableExcept(string(text), "\n\t"))
	return err
}

// maxErrorBytes is the maximum number of bytes of an error message. It is needed because
// names and lists in a message may be arbitrarily long.
const maxErrorBytes = 4000

// errorText returns the message of an error on one line. It leaves out the name of the
// system call.
func errorText(err error) string {
	text := err.Error()
	var pathErr *fs.PathError
	if errors.As(err, &pathErr) {
		text = strings.Replace(text, pathErr.Error(), pathErr.Path+": "+pathErr.Err.Error(), 1)
	}
	lines := strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\r' })
	text = strings.Join(lines, "; ")
	// Keep the end of the message, because it says what to do.
	if len(text) > maxErrorBytes {
		text = text[:maxErrorBytes/2] + " … " + text[len(text)-maxErrorBytes/2:]
	}
	return display.Printable(text)
}

// writePage writes a page to the file at path.
func writePage(ctx context.Context, path string, page report.Page) error {
	return atomicfile.WriteFile(ctx, path, func(w io.Writer) error { return report.Write(w, page) })
}
