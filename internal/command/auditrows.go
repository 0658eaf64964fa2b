package command

import (
	"context"
	"io"
	"iter"

	"github.com/urfave/cli/v2"

	"github.com/attach-uncertainty/attach"
	"github.com/attach-uncertainty/attach/internal/audit/engine"
	"github.com/attach-uncertainty/attach/internal/data/inputs"
	"github.com/attach-uncertainty/attach/ood"
)

// Load implements [engine.Rows].
func (m *attached) Load(ctx context.Context) error { return m.openNet(ctx) }

// Open implements [engine.Rows].
func (m *attached) Open(ctx context.Context, path string, quiet bool) (*inputs.Set, int, error) {
	if quiet {
		defer func(w io.Writer) { m.stderr = w }(m.stderr)
		m.stderr = io.Discard
	}
	opened, err := m.openRows(ctx, path, "", inputs.Slice{})
	if err != nil {
		return nil, 0, err
	}
	return opened.set, opened.n, nil
}

// Features implements [engine.Rows].
func (m *attached) Features(ctx context.Context, path string, of inputs.Slice) iter.Seq2[attach.Rows, error] {
	opened, err := m.precomputed(ctx, path, "", of)
	if err != nil {
		return func(yield func(attach.Rows, error) bool) { yield(attach.Rows{}, err) }
	}
	return opened.blocks(true)
}

// Made implements [engine.Rows].
func (m *attached) Made(ctx context.Context, set *inputs.Set, blocks iter.Seq2[ood.InputBlock, error]) iter.Seq2[attach.Rows, error] {
	made := &attachedRows{n: set.Len(), batches: m.net.Rows(ctx, blocks), known: knownOf(set, m.classes, m.bundle.Base)}
	return made.blocks(true)
}

// NewAuditWorker is a worker of an audit that is asked for elsewhere. The network is loaded
// with the first file.
func NewAuditWorker(ctx context.Context, o engine.Options, stderr io.Writer, storage engine.Storage) (*engine.Worker, error) {
	f := &auditing{}
	f.flags()
	hint := func(err error) error { return hinted(err, f.table.useful) }
	e, _, err := f.prepare(ctx, o, onTerminal(stderr), storage)
	if err != nil {
		return nil, hint(err)
	}
	return e.Worker(hint), nil
}

// RunAudit is as Run with "audit" before args, but that a pipeline scores.
func RunAudit(ctx context.Context, args []string, stdout, stderr io.Writer, elsewhere Pipeline) int {
	stdout, stderr = onTerminal(stdout), onTerminal(stderr)
	defer closeTerminals(stdout, stderr)
	app := newApp(nil, stdout, stderr)
	app.Commands = []*cli.Command{auditCommand(elsewhere)}
	return status(ctx, run(ctx, app, append([]string{"audit"}, args...)), stderr)
}
