package command

import (
	"io"
	"os"
	"sync"
	"unicode/utf8"
)

// terminal writes text to a terminal. Names of files, classes, columns and tensors, which
// strangers may have chosen, are part of results, notes and errors: what would steer the
// terminal is escaped as printable does, whoever prints it.
type terminal struct {
	mu  sync.Mutex
	raw io.Writer
	cut []byte // the beginning of a character that the last write ended in
}

// onTerminal returns a writer that escapes, if w is a terminal, and w otherwise.
func onTerminal(w io.Writer) io.Writer {
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

// Write writes text. The end of a character that is cut waits for the rest.
func (t *terminal) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := append(t.cut, b...)
	end := len(all)
	for i := max(0, end-utf8.UTFMax); i < end; i++ {
		if utf8.RuneStart(all[i]) && !utf8.FullRune(all[i:]) {
			end = i
		}
	}
	t.cut = append([]byte(nil), all[end:]...)
	return len(b), t.write(all[:end])
}

// Close writes what was cut. It leaves the terminal open.
func (t *terminal) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	cut := t.cut
	t.cut = nil
	return t.write(cut)
}

// closeTerminals closes those of some writers that are terminals.
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
	_, err := io.WriteString(t.raw, escapedBut(string(text), "\n\t"))
	return err
}
