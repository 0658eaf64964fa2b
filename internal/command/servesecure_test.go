package command

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	health "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/attach-uncertainty/attach/internal/inference"
)

// writeFiles writes files to a folder.
func writeFiles(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// TestServeSecure checks a server with a certificate and tokens, over REST and gRPC.
func TestServeSecure(t *testing.T) {
	path, dir := toyFile(t), t.TempDir()
	example := httptest.NewTLSServer(nil) // it has a certificate for 127.0.0.1, and a client that trusts it
	defer example.Close()
	pair := example.TLS.Certificates[0]
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	const token = "a-token-of-the-web-shop"
	writeFiles(t, dir, map[string]string{
		"cert.pem":   string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]})),
		"key.pem":    string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})),
		"tokens.txt": token + "\n",
		"short.txt":  "secret\n",
	})
	cert, keyFile := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for _, c := range []struct{ args, want string }{
		{"--tls-cert " + cert, "--tls-cert needs --tls-key FILE"},
		{"--tls-key " + keyFile, "--tls-key needs --tls-cert FILE"},
		{"--tls-cert " + cert + " --tls-key " + cert, "--tls-cert: " + cert},
		{"--token-file " + filepath.Join(dir, "short.txt"), "--token-file: " + filepath.Join(dir, "short.txt") + ": line 1: the token has 6 characters"},
	} {
		var errs strings.Builder
		if code := Run(t.Context(), append([]string{"serve", path, "--http", "127.0.0.1:0", "--grpc", ""}, strings.Fields(c.args)...), nil, io.Discard, &errs); code == exitDone || !strings.Contains(errs.String(), c.want) {
			t.Errorf("%s: %d, %s, want %q", c.args, code, errs.String(), c.want)
		}
	}
	address, grpcAddress, end := startServerGRPC(t, path, "--grpc", "127.0.0.1:0", "--tls-cert", cert, "--tls-key", keyFile, "--token-file", filepath.Join(dir, "tokens.txt"))
	address = strings.TrimPrefix(address, "http://")
	for _, c := range []struct {
		method, path, token string
		status              int
	}{
		{"GET", "/v2/health/ready", "", http.StatusOK},
		{"GET", "/metrics", "", http.StatusUnauthorized},
		{"GET", "/metrics", token, http.StatusOK},
		{"POST", "/v2/models/toy/infer", "", http.StatusUnauthorized},
		{"POST", "/v2/models/toy/infer", token, http.StatusOK},
	} {
		r, err := http.NewRequest(c.method, "https://"+address+c.path, strings.NewReader(toyRequest))
		if err != nil {
			t.Fatal(err)
		}
		if c.token != "" {
			r.Header.Set("Authorization", "Bearer "+c.token)
		}
		answer, err := example.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != c.status {
			t.Errorf("%s with the token %q: %d, want %d", c.path, c.token, answer.StatusCode, c.status)
		}
	}
	if r, err := http.Get("http://" + address + "/v2/health/live"); err == nil {
		r.Body.Close()
		if r.StatusCode == http.StatusOK {
			t.Error("the server answers without encryption")
		}
	}
	trusted := x509.NewCertPool()
	trusted.AddCert(example.Certificate())
	conn, err := grpc.NewClient(grpcAddress(), grpc.WithTransportCredentials(credentials.NewClientTLSFromCert(trusted, "")))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	call := func(ctx context.Context) codes.Code {
		return grpcstatus.Code(conn.Invoke(ctx, "/inference.GRPCInferenceService/ModelMetadata", &inference.ModelMetadataRequest{Name: "toy"}, &inference.ModelMetadataResponse{}))
	}
	if code := call(t.Context()); code != codes.Unauthenticated {
		t.Errorf("gRPC without a token: %v", code)
	}
	if code := call(metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+token)); code != codes.OK {
		t.Errorf("gRPC with a token: %v", code)
	}
	if out, err := health.NewHealthClient(conn).Check(t.Context(), &health.HealthCheckRequest{Service: "toy"}); err != nil || out.Status != health.HealthCheckResponse_SERVING {
		t.Errorf("health without a token: %v, error %v", out, err)
	}
	if code, log := end(); code != exitDone {
		t.Errorf("it ends with %d: %s", code, log)
	}
}

// TestServeUnix checks a server on Unix sockets. It replaces the socket of a server that was
// killed, not that of one that runs, and removes its sockets at the end.
func TestServeUnix(t *testing.T) {
	path := toyFile(t)
	t.Chdir(t.TempDir()) // the path of a Unix socket must be short
	killed, err := net.ListenUnix("unix", &net.UnixAddr{Name: "rest.sock"})
	if err != nil {
		t.Skip("there are no Unix sockets: ", err)
	}
	killed.SetUnlinkOnClose(false)
	killed.Close()
	args := []string{"serve", path, "--http", "unix:rest.sock", "--grpc", "unix:grpc.sock"}
	ctx, cancel := context.WithCancel(t.Context())
	log, status := &serverLog{}, make(chan int, 1)
	go func() { status <- Run(ctx, args, nil, io.Discard, log) }()
	log.find(t, "ready", "level")

	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", "rest.sock")
	}}}
	r, err := client.Post("http://server/v2/models/toy/infer", "application/json", strings.NewReader(toyRequest))
	if err != nil {
		t.Fatal(err)
	}
	r.Body.Close()
	if r.StatusCode != http.StatusOK {
		t.Errorf("status %d", r.StatusCode)
	}
	conn, err := grpc.NewClient("unix:grpc.sock", grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.Invoke(t.Context(), "/inference.GRPCInferenceService/ServerLive", &inference.ServerLiveRequest{}, &inference.ServerLiveResponse{}); err != nil {
		t.Error(err)
	}
	var errs strings.Builder
	if code := Run(t.Context(), args, nil, io.Discard, &errs); code != exitFailed || !strings.Contains(errs.String(), "--http: listen unix rest.sock: bind: address already in use") {
		t.Errorf("two servers of a socket: %d, %s", code, errs.String())
	}
	cancel()
	if code := <-status; code != exitDone {
		t.Errorf("it ends with %d: %s", code, log.written.String())
	}
	for _, socket := range []string{"rest.sock", "grpc.sock"} {
		if _, err := os.Lstat(socket); err == nil {
			t.Errorf("%s is left behind", socket)
		}
	}
}
