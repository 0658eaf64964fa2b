package command

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/attach-uncertainty/attach/internal/data/rows"
)

// progress shows a line of progress that it overwrites. It prints nothing if the output is
// not a terminal.
type progress struct {
	mu        sync.Mutex
	w         io.Writer // nil if the output is not a terminal
	label     string
	started   time.Time
	lastShown time.Time // zero if no line is shown
}

func newProgress(w io.Writer, label string) *progress {
	p := &progress{label: label, started: time.Now()}
	if t, ok := w.(*terminal); ok {
		p.w = t.raw // the terminal would escape the sequence that erases the line
	}
	return p
}

func (p *progress) set(done, total int) {
	if p.w == nil || total <= 0 {
		return
	}
	p.show(float64(done)/float64(total), fmt.Sprintf("%d of %d", done, total))
}

func (p *progress) show(fraction float64, what string) {
	if p.w == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if now.Sub(p.lastShown) < 100*time.Millisecond && fraction < 1 {
		return
	}
	p.lastShown = now
	remaining := ""
	if elapsed := now.Sub(p.started); fraction > 0.02 && fraction < 1 && elapsed > 2*time.Second {
		remaining = fmt.Sprintf(", %v left", (time.Duration(float64(elapsed) * (1 - fraction) / fraction)).Round(time.Second))
	}
	printf(p.w, "\r\x1b[K%s: %s%s", p.label, what, remaining)
}

// rate returns how many inputs are done, and how many are done per second.
func (p *progress) rate(done int) string {
	if p.w == nil {
		return ""
	}
	text := rows.Count(done, "input")
	if elapsed := time.Since(p.started).Seconds(); elapsed > 1 {
		text += fmt.Sprintf(", %.3g a second", float64(done)/elapsed)
	}
	return text
}

// end erases the line of progress.
func (p *progress) end() {
	if p.w == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.lastShown.IsZero() {
		fmt.Fprint(p.w, "\r\x1b[K")
		p.lastShown = time.Time{}
	}
}
