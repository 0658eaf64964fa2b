package serve

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
)

// writeCertificate writes a new certificate for localhost and its key.
func writeCertificate(t *testing.T, certFile, keyFile string, serial int64) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(serial), DNSNames: []string{"localhost"}, NotAfter: time.Now().Add(time.Hour)}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	replace(t, certFile, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert})))
	replace(t, keyFile, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded})))
}

// replace replaces a file by renaming a new one.
func replace(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path+".new", []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// TestCertificate checks that changed certificates are read again, and that the previous one is
// used while the certificate and the key do not belong together.
func TestCertificate(t *testing.T) {
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	writeCertificate(t, cert, key, 1)
	var log bytes.Buffer
	f, err := follow(slog.New(slog.NewTextHandler(&log, nil)), func() (*tls.Certificate, error) { return readCertificate(cert, key) }, cert, key)
	if err != nil {
		t.Fatal(err)
	}
	f.every = 0
	check := func(what string, serial int64) {
		t.Helper()
		if got := f.get().Leaf.SerialNumber.Int64(); got != serial {
			t.Errorf("%s: certificate %d, want %d", what, got, serial)
		}
	}
	check("at first", 1)
	writeCertificate(t, cert, key+".later", 2)
	check("with the key of the first", 1)
	if n := strings.Count(log.String(), "private key does not match"); n != 1 {
		t.Errorf("%d records of a wrong key: %s", n, &log)
	}
	check("once more", 1)
	if err := os.Rename(key+".later", key); err != nil {
		t.Fatal(err)
	}
	check("with its own key", 2)
	if n := strings.Count(log.String(), "not usable"); n != 1 {
		t.Errorf("the log repeats an error: %s", &log)
	}
	replace(t, key, "no key")
	if _, err := OpenCertificate(cert, key, nil); err == nil || !strings.Contains(err.Error(), cert+" and "+key+": ") || !strings.Contains(err.Error(), "in PEM format") {
		t.Errorf("no key: %v", err)
	}
	if _, err := OpenCertificate(filepath.Join(dir, "none.pem"), key, nil); err == nil || !strings.Contains(err.Error(), "none.pem") {
		t.Errorf("no certificate: %v", err)
	}
}

// TestTokens checks which tokens a file allows, also after it changed.
func TestTokens(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens.txt")
	replace(t, path, "# of the web shop\n0123456789abcdef\n\n second-token-of-the-shop \r\n")
	f, err := follow(nil, func() (tokens, error) { return readTokens(path) }, path)
	if err != nil {
		t.Fatal(err)
	}
	f.every = 0
	check := func(token string, want bool) {
		t.Helper()
		if f.get().allow(token) != want {
			t.Errorf("token %q: allowed %v", token, !want)
		}
	}
	check("0123456789abcdef", true)
	check("second-token-of-the-shop", true)
	for _, other := range []string{"", "0123456789abcde", "0123456789abcdef0", "# of the web shop"} {
		check(other, false)
	}
	replace(t, path, "a-token-of-another-shop\n")
	check("a-token-of-another-shop", true)
	check("0123456789abcdef", false)
	for content, want := range map[string]string{
		"# nothing\n":                        "the file has no token",
		"0123456789abcdef\nsecret":           "line 2: the token has 6 characters",
		"two words that are long enough":     "line 1: the token has a space",
		"a-token-with-an-ä-which-is-no-good": "not ASCII",
	} {
		replace(t, path, content)
		if _, err := OpenTokens(path, nil); err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), path) {
			t.Errorf("%q: error %v, want %q", content, err, want)
		}
		check("a-token-of-another-shop", true) // the tokens that were read last
	}
}

// TestAllowToken checks which requests need a token.
func TestAllowToken(t *testing.T) {
	s := New(Options{AllowToken: func(token string) bool { return token == "right" }})
	defer s.Close()
	own := s.Authorize(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for _, c := range []struct {
		method, path string
		guarded      bool
		status       int // with a token
	}{
		{"GET", "/v2/health/live", false, 200}, {"GET", "/v2/health/ready", false, 503}, {"GET", "/v2/models/m/ready", false, 404}, {"GET", "/v2/models/m/versions/1/ready", false, 404},
		{"GET", "/v2", true, 200}, {"GET", "/v2/models/m", true, 404}, {"GET", "/v2/models/m/versions/ready", true, 404}, {"POST", "/v2/models/m/infer", true, 404}, {"POST", "/v2/models/m/feedback", true, 404}, {"GET", "/metrics", true, 200},
	} {
		for header, allowed := range map[string]bool{"": false, "Bearer wrong": false, "right": false, "Basic right": false, "Bearer right": true, "bearer right": true} {
			r := httptest.NewRequest(c.method, c.path, strings.NewReader("{}"))
			r.Header.Set("Authorization", header)
			w := httptest.NewRecorder()
			if handler := http.Handler(s); c.path == "/metrics" {
				own.ServeHTTP(w, r)
			} else {
				handler.ServeHTTP(w, r)
			}
			want := c.status
			if c.guarded && !allowed {
				want = http.StatusUnauthorized
			}
			if w.Code != want || (want == http.StatusUnauthorized) != (w.Header().Get("WWW-Authenticate") == "Bearer") {
				t.Errorf("%s with %q: %d %s, want %d", c.path, header, w.Code, w.Body, want)
			}
		}
	}
	with := metadata.NewIncomingContext(context.Background(), metadata.Pairs("authorization", "Bearer right"))
	for _, m := range protocolMethods() {
		open := m.MethodName == "ServerLive" || m.MethodName == "ServerReady" || m.MethodName == "ModelReady"
		if err := s.checkCall(with, m.MethodName); err != nil {
			t.Errorf("%s with a token: %v", m.MethodName, err)
		}
		decoded := false
		_, err := m.Handler(s, context.Background(), func(any) error { decoded = true; return context.Canceled }, nil)
		if decoded != open || err == nil || !open && !strings.Contains(err.Error(), codes.Unauthenticated.String()) {
			t.Errorf("%s without a token: read %v, error %v", m.MethodName, decoded, err)
		}
	}
}
