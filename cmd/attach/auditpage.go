package main

import (
	"context"

	"github.com/attach-uncertainty/attach/internal/audit"
	"github.com/attach-uncertainty/attach/internal/report"
)

// auditPage writes the page of an audit.
type auditPage struct{}

func (f *auditing) page() auditPage { return auditPage{} }

func (p auditPage) write(ctx context.Context, path string, a *audit.Audit) error {
	return writePage(ctx, path, report.Audit(a))
}
