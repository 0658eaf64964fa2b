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

// statusError is an error whose message is sent to the client, with an HTTP status.
type statusError struct {
	status  int // HTTP status
	message string
}

func (e *statusError) Error() string { return e.message }

// statusErrorf returns a statusError with the given HTTP status and a formatted message.
func statusErrorf(status int, format string, args ...any) error {
	return &statusError{status, fmt.Sprintf(format, args...)}
}

// badRequestf returns a statusError with HTTP status 400 and a formatted message.
func badRequestf(format string, args ...any) error {
	return statusErrorf(http.StatusBadRequest, format, args...)
}

// errTimeout means that a request exceeded the server's timeout. errRequestTimeout means
// that it exceeded its own timeout parameter.
var (
	errTimeout        = &statusError{http.StatusServiceUnavailable, "the request took longer than the server allows; try again later"}
	errRequestTimeout = &statusError{http.StatusServiceUnavailable, "the request took longer than its timeout parameter allows"}
)

// statusClientGone is the status in logs and metrics if the client closed the connection
// before the response was sent.
const statusClientGone = 499

// statusOf returns the HTTP status for an error. A nil error has status 200, a statusError
// its own status, and a cancelled context statusClientGone. Errors of ONNX Runtime have
// status 500, because the server causes them. Other errors have status 400, because they
// are caused by the request.
func statusOf(err error) int {
	statusErr, isStatus := errors.AsType[*statusError](err)
	_, runtimeFailed := errors.AsType[*ort.RuntimeError](err)
	switch {
	case err == nil:
		return http.StatusOK
	case isStatus:
		return statusErr.status
	case errors.Is(err, context.Canceled):
		return statusClientGone
	case runtimeFailed:
		return http.StatusInternalServerError
	}
	return http.StatusBadRequest
}

// levelOf returns the log level for a request that ends with err.
func levelOf(err error) slog.Level {
	switch status := statusOf(err); {
	case status == http.StatusInternalServerError:
		return slog.LevelError
	case status >= http.StatusTooManyRequests && status != statusClientGone:
		return slog.LevelWarn
	}
	return slog.LevelDebug
}

// codeOf returns the gRPC code for an error.
func codeOf(err error) codes.Code {
	switch status := statusOf(err); status {
	case http.StatusOK:
		return codes.OK
	case http.StatusUnauthorized:
		return codes.Unauthenticated
	case http.StatusNotFound:
		return codes.NotFound
	case http.StatusConflict:
		return codes.AlreadyExists
	case http.StatusRequestEntityTooLarge, http.StatusTooManyRequests:
		return codes.ResourceExhausted
	case http.StatusServiceUnavailable:
		if errors.Is(err, errTimeout) || errors.Is(err, errRequestTimeout) {
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
