package command

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/attach-uncertainty/attach/internal/inference"
)

// TestHostGuard checks which requests a server rejects because of their host or origin.
func TestHostGuard(t *testing.T) {
	loopback, all := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}, &net.TCPAddr{IP: net.IPv4zero}
	for _, c := range []struct {
		name    string
		address net.Addr
		host    string
		headers map[string]string
		reason  string
	}{
		{name: "localhost", address: loopback, host: "localhost:8080"},
		{name: "upper case", address: loopback, host: "LOCALHOST."},
		{name: "IPv4", address: loopback, host: "127.0.0.1:8080"},
		{name: "IPv6", address: loopback, host: "[::1]:8080"},
		{name: "IPv6 without a port", address: &net.TCPAddr{IP: net.IPv6loopback}, host: "[::1]"},
		{name: "allowed", address: loopback, host: "models.example"},
		{name: "rebound", address: loopback, host: "evil.example:8080", reason: "--allow-host"},
		{name: "prefix", address: loopback, host: "localhost.evil.example", reason: "--allow-host"},
		{name: "rebound IPv6", address: &net.TCPAddr{IP: net.IPv6loopback}, host: "evil.example", reason: "--allow-host"},
		{name: "empty", address: loopback, host: "", reason: "--allow-host"},
		{name: "every interface", address: all, host: "evil.example"},
		{name: "form of another site", address: loopback, host: "localhost", headers: map[string]string{"Sec-Fetch-Site": "cross-site", "Origin": "https://evil.example"}, reason: "another site"},
		{name: "older browser", address: all, host: "server:8080", headers: map[string]string{"Origin": "https://evil.example"}, reason: "another site"},
		{name: "sandboxed page", address: all, host: "server:8080", headers: map[string]string{"Origin": "null"}, reason: "another site"},
		{name: "own page", address: all, host: "server:8080", headers: map[string]string{"Origin": "http://server:8080"}},
		{name: "page of an allowed host", address: all, host: "server:8080", headers: map[string]string{"Sec-Fetch-Site": "cross-site", "Origin": "https://models.example"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			reached := false
			handler := newHostGuard([]string{"Models.example"}, c.address).wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached = true }))
			r := httptest.NewRequest(http.MethodPost, "/v2/models/digits/infer", strings.NewReader("{}"))
			r.Host = c.host
			for name, value := range c.headers {
				r.Header.Set(name, value)
			}
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, r)
			if rejected := c.reason != ""; reached == rejected || rejected && (w.Code != http.StatusForbidden || !strings.Contains(w.Body.String(), c.reason)) {
				t.Errorf("served %v, %d %s; want refused %q", reached, w.Code, w.Body, c.reason)
			}
		})
	}
}

// checkHosts checks that a server on a loopback address checks the host of REST and gRPC
// requests.
func checkHosts(t *testing.T, rest, grpcAddress string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, rest+"/v2/health/live", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Host = "evil.example"
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if body, _ := io.ReadAll(answer.Body); answer.StatusCode != http.StatusForbidden || !strings.Contains(string(body), `{"error":"the request is for host`) {
		t.Errorf("another host: %d %s", answer.StatusCode, body)
	}
	for authority, want := range map[string]codes.Code{"evil.example": codes.PermissionDenied, "localhost": codes.OK} {
		conn, err := grpc.NewClient("passthrough:///"+grpcAddress, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithAuthority(authority))
		if err != nil {
			t.Fatal(err)
		}
		err = conn.Invoke(t.Context(), "/inference.GRPCInferenceService/ServerLive", &inference.ServerLiveRequest{}, &inference.ServerLiveResponse{})
		if grpcstatus.Code(err) != want {
			t.Errorf("authority %s: %v, want %v", authority, err, want)
		}
		conn.Close()
	}
}
