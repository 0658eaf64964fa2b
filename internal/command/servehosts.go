package command

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
)

// hostGuard rejects requests that a web page of another site sends through a browser. The
// browser may reach the server even if the page's own host cannot.
type hostGuard struct {
	allowed   []string // values of --allow-host, without ports
	checkHost bool     // whether a request must name this machine or an allowed host
}

// newHostGuard returns the guard of a server that listens on address. If address is a
// loopback address, the guard checks host names. Only processes of this machine can reach
// such a server, so a request that names another host may come from a web page whose DNS
// name an attacker points at this machine. A proxy that passes on the host name of the
// original request looks the same, so allowed lists the names to accept.
func newHostGuard(allowed []string, address net.Addr) hostGuard {
	tcp, ok := address.(*net.TCPAddr)
	g := hostGuard{checkHost: ok && tcp.IP.IsLoopback()}
	for _, host := range allowed {
		g.allowed = append(g.allowed, hostname(host))
	}
	return g
}

// hostname returns the name or address in a Host header without port and brackets.
func hostname(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return strings.ToLower(strings.TrimSuffix(strings.TrimSuffix(strings.TrimPrefix(host, "["), "]"), "."))
}

// checkName returns an error if a request must not name this host.
func (g hostGuard) checkName(host string) error {
	name := hostname(host)
	if !g.checkHost || name == "localhost" || net.ParseIP(name).IsLoopback() || slices.Contains(g.allowed, name) {
		return nil
	}
	return fmt.Errorf("the request is for host %.100q, and this server is for localhost; start it with --allow-host NAME if a proxy sends this name", name)
}

// wrap returns a handler that checks the host of each request before it calls next. It also
// rejects requests that a page of another site sends through a browser, unless the host of
// the page is allowed. GET, HEAD and OPTIONS requests pass, because they change nothing.
func (g hostGuard) wrap(next http.Handler) http.Handler {
	reject := func(w http.ResponseWriter, err error) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusForbidden)
		_ = json.NewEncoder(w).Encode(map[string]string{"error": err.Error()}) // a client that has gone away needs no response
	}
	crossSite := http.NewCrossOriginProtection()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := g.checkName(r.Host); err != nil {
			reject(w, err)
			return
		}
		origin, err := url.Parse(r.Header.Get("Origin"))
		fromAllowedHost := err == nil && slices.Contains(g.allowed, hostname(origin.Host))
		if !fromAllowedHost && crossSite.Check(r) != nil {
			reject(w, errors.New("the request comes from a web page of another site; start the server with --allow-host NAME to trust the pages of a host"))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// checkGRPC returns a gRPC error if a call must not name this authority.
func (g hostGuard) checkGRPC(authority []string) error {
	for _, host := range authority {
		if err := g.checkName(host); err != nil {
			return grpcstatus.Error(codes.PermissionDenied, err.Error())
		}
	}
	return nil
}

// checkHostName is the rule for a host name or address without a scheme or port.
func checkHostName(value any) string {
	name := value.(string)
	address := net.ParseIP(strings.Trim(name, "[]")) != nil
	return requirement(address || name != "" && !strings.ContainsAny(name, "/:*, "), "it must be a host name or address, without a scheme or port")
}
