package inputs

import (
	"context"
	"errors"
	"io"
	"os"

	"github.com/attach-uncertainty/attach/internal/regular"
)

// openStream opens a file that may be a pipe. Waiting for who writes to the
// pipe ends with the context.
func openStream(ctx context.Context, path string) (io.ReadCloser, error) {
	f, err := regular.Open(path)
	if !errors.Is(err, regular.ErrSpecial) {
		return f, err
	}
	r, w := io.Pipe()
	go func() {
		f, err := os.Open(path)
		if err == nil {
			_, err = io.Copy(w, f)
			f.Close()
		}
		w.CloseWithError(err)
	}()
	context.AfterFunc(ctx, func() { w.CloseWithError(ctx.Err()) })
	return r, nil
}
