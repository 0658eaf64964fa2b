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

// refusal is an error with an HTTP status, whose message is sent to the client.
type refusal struct {
	status  int // HTTP status
	message string
}

func (e *refusal) Error() string { return e.message }

func refuse(status int, format string, args ...any) error {
	return &refusal{status, fmt.Sprintf(format, args...)}
}

func badRequest(format string, args ...any) error {
	return refuse(http.StatusBadRequest, format, args...)
}

// Errors of a request that exceeds the server's timeout, or its own.
var (
	errTimeout    = &refusal{http.StatusServiceUnavailable, "the request took longer than the server allows; try again later"}
	errOwnTimeout = &refusal{http.StatusServiceUnavailable, "the request took longer than its timeout parameter allows"}
)

// statusClientGone is the status in logs and metrics if the client closed the connection.
const statusClientGone = 499

// statusOf returns the HTTP status of an error. Errors of the runtime and panics are the
// server's fault. Any other error is the client's, because it concerns the request's rows.
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

// levelOf returns the level at which the end of a request is logged.
func levelOf(err error) slog.Level {
	switch status := statusOf(err); {
	case status == http.StatusInternalServerError:
		return slog.LevelError
	case status >= http.StatusTooManyRequests && status != statusClientGone:
		return slog.LevelWarn
	}
	return slog.LevelDebug
}

// codeOf returns the gRPC code of an error.
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
