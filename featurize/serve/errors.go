package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"

	"google.golang.org/grpc/codes"

	"github.com/attach-uncertainty/attach/internal/onnx/ort"
)

// refusal is an error that a client is told of.
type refusal struct {
	status int // of HTTP
	says   string
}

func (e *refusal) Error() string { return e.says }

func refuse(status int, format string, args ...any) error {
	return &refusal{status, fmt.Sprintf(format, args...)}
}

func badRequest(format string, args ...any) error {
	return refuse(http.StatusBadRequest, format, args...)
}

// Errors of a request that takes too long, for the server or for who sent it.
var (
	errTimeout    = &refusal{http.StatusServiceUnavailable, "the request took longer than it may; try again later"}
	errOwnTimeout = &refusal{http.StatusServiceUnavailable, "the request took longer than its parameter timeout says"}
)

// statusClientGone is what logs and metrics have for a client that did not wait.
const statusClientGone = 499

// statusOf is the HTTP status of an error: what the runtime or a panic says is the
// server's own, and everything else is said of the rows.
func statusOf(err error) int {
	refused, known := errors.AsType[*refusal](err)
	_, failed := errors.AsType[*ort.RuntimeError](err)
	switch {
	case err == nil:
		return http.StatusOK
	case known:
		return refused.status
	case errors.Is(err, context.Canceled):
		return statusClientGone
	case failed:
		return http.StatusInternalServerError
	}
	return http.StatusBadRequest
}

// levelOf is how loud a log is of the end of a request.
func levelOf(err error) slog.Level {
	switch status := statusOf(err); {
	case status == http.StatusInternalServerError:
		return slog.LevelError
	case status >= http.StatusTooManyRequests && status != statusClientGone:
		return slog.LevelWarn
	}
	return slog.LevelDebug
}

// codeOf is the gRPC code of an error.
func codeOf(err error) codes.Code {
	switch status := statusOf(err); status {
	case http.StatusOK:
		return codes.OK
	case http.StatusNotFound:
		return codes.NotFound
	case http.StatusRequestEntityTooLarge, http.StatusTooManyRequests:
		return codes.ResourceExhausted
	case http.StatusServiceUnavailable:
		if errors.Is(err, errTimeout) || errors.Is(err, errOwnTimeout) {
			return codes.DeadlineExceeded
		}
		return codes.Unavailable
	case statusClientGone:
		return codes.Canceled
	case http.StatusInternalServerError:
		return codes.Internal
	}
	return codes.InvalidArgument
}
