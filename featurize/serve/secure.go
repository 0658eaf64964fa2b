package serve

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/attach-uncertainty/attach/internal/data/regularfile"
)

// OpenCertificate reads a certificate and its private key, both in PEM format. It returns a
// function for tls.Config.GetCertificate, which reads changed files again. If they cannot be
// read, it logs an error and returns the previous certificate. log may be nil.
func OpenCertificate(certFile, keyFile string, log *slog.Logger) (func(*tls.ClientHelloInfo) (*tls.Certificate, error), error) {
	f, err := follow(log, func() (*tls.Certificate, error) { return readCertificate(certFile, keyFile) }, certFile, keyFile)
	if err != nil {
		return nil, err
	}
	return func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return f.get(), nil }, nil
}

func readCertificate(certFile, keyFile string) (*tls.Certificate, error) {
	cert, err := regularfile.ReadFile(certFile)
	if err != nil {
		return nil, err
	}
	key, err := regularfile.ReadFile(keyFile)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("%s and %s: %w; give a certificate, with its chain, and its private key, both in PEM format", certFile, keyFile, err)
	}
	return &pair, nil
}

// OpenTokens reads bearer tokens from a file with a token in each line. Empty lines and lines that
// begin with # are ignored. It returns a function for Options.AllowToken, which reads a changed
// file again. If the file cannot be read, it logs an error and uses the previous tokens. log may
// be nil.
func OpenTokens(path string, log *slog.Logger) (func(token string) bool, error) {
	f, err := follow(log, func() (tokens, error) { return readTokens(path) }, path)
	if err != nil {
		return nil, err
	}
	return func(token string) bool { return f.get().allow(token) }, nil
}

// tokens holds the hashes of the tokens that are allowed.
type tokens [][sha256.Size]byte

// allow reports whether a token is allowed.
func (known tokens) allow(token string) bool {
	given, found := sha256.Sum256([]byte(token)), 0
	for i := range known { // without an early end, so that the time tells nothing about tokens
		found |= subtle.ConstantTimeCompare(given[:], known[i][:])
	}
	return found == 1
}

// minToken is the least number of characters of a token. A shorter one could be guessed.
const minToken = 16

// readTokens returns the hashes of the tokens in a file.
func readTokens(path string) (hashes tokens, err error) {
	content, err := regularfile.ReadFile(path)
	if err != nil {
		return nil, err
	}
	number := 0
	for line := range bytes.Lines(content) {
		number++
		token := bytes.TrimSpace(line)
		switch {
		case len(token) == 0 || token[0] == '#':
			continue
		case len(token) < minToken:
			return nil, fmt.Errorf("%s: line %d: the token has %d characters, which others can guess; use %d or more, for example from `openssl rand -hex 32`", path, number, len(token), minToken)
		case bytes.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }):
			return nil, fmt.Errorf("%s: line %d: the token has a space or a character that is not ASCII; write one token in each line", path, number)
		}
		hashes = append(hashes, sha256.Sum256(token))
	}
	if len(hashes) == 0 {
		return nil, fmt.Errorf("%s: the file has no token; write one in each line", path)
	}
	return hashes, nil
}

// follower holds what was read from files, and reads them again after they change.
type follower[T any] struct {
	paths []string
	read  func() (T, error)
	log   *slog.Logger
	every time.Duration // least time between two checks

	mu      sync.Mutex
	checked time.Time
	state   fileState // state of the files when they were last read, even if that failed
	value   T
}

// follow reads files and returns their follower.
func follow[T any](log *slog.Logger, read func() (T, error), paths ...string) (*follower[T], error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	f := &follower[T]{paths: paths, read: read, log: log, every: time.Second, checked: time.Now()}
	f.state = f.current()
	var err error
	f.value, err = read()
	return f, err
}

// current returns the current state of the files.
func (f *follower[T]) current() (s fileState) {
	for _, path := range f.paths {
		s.add(path)
	}
	return s
}

// get returns the value of the files.
func (f *follower[T]) get() T {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	if now.Sub(f.checked) < f.every {
		return f.value
	}
	f.checked = now
	state := f.current() // before the files are read, so that a change meanwhile is noticed
	if state.equal(f.state) {
		return f.value
	}
	f.state = state
	value, err := f.read()
	if err != nil {
		f.log.Error("changed file not usable; the previous one is still used", "error", err.Error())
		return f.value
	}
	f.value = value
	f.log.Info("changed file read", "files", strings.Join(f.paths, ", "))
	return f.value
}

// Authorize returns a handler that calls next for requests whose bearer token is allowed by
// Options.AllowToken. A program uses it for routes of its own, such as metrics.
func (s *Server) Authorize(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := s.checkToken(r.Header.Get("Authorization")); err != nil {
			writeError(w, err)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// checkToken returns an error if an Authorization header has no bearer token that is allowed.
func (s *Server) checkToken(header string) error {
	if s.opts.AllowToken == nil {
		return nil
	}
	scheme, token, _ := strings.Cut(header, " ")
	if strings.EqualFold(scheme, "Bearer") && s.opts.AllowToken(strings.TrimSpace(token)) {
		return nil
	}
	if n := s.tokenThrottle.record(time.Now()); n > 0 {
		s.opts.Log.Warn("requests without a valid token", "refused", n)
	}
	return statusErrorf(http.StatusUnauthorized, "the request has no valid bearer token; send the header `Authorization: Bearer TOKEN`")
}
