package serve

import (
	"context"
	"net/http"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	health "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

// Drain makes the server report that it is not ready, so that load balancers send new requests
// to other servers. The server still answers requests until it is closed. Its HTTP answers ask
// clients to close their connections. Streams of health and reflection end, because a graceful
// stop of a gRPC server would wait for them.
func (s *Server) Drain() { s.drainOnce.Do(func() { close(s.draining) }) }

// isDraining reports whether Drain was called.
func (s *Server) isDraining() bool {
	select {
	case <-s.draining:
		return true
	default:
		return false
	}
}

// errDraining is the status of readiness after Drain.
var errDraining = &statusError{http.StatusServiceUnavailable, "the server is about to stop"}

// checkReady returns an error unless the server is in service, with at least one model and with
// all models loaded.
func (s *Server) checkReady() error {
	if s.isDraining() {
		return errDraining
	}
	all := s.allEntries()
	for _, e := range all {
		if !e.isLoaded() {
			return statusErrorf(http.StatusServiceUnavailable, "not all models are loaded")
		}
	}
	if len(all) == 0 {
		return statusErrorf(http.StatusServiceUnavailable, "there is no model")
	}
	return nil
}

// checkModelReady returns an error unless the model is loaded and the server is in service. An
// empty version means the latest version.
func (s *Server) checkModelReady(name, version string) error {
	e, err := s.find(name, version)
	switch {
	case err != nil:
		return err
	case s.isDraining():
		return errDraining
	case !e.isLoaded():
		return statusErrorf(http.StatusServiceUnavailable, "the model %q is not loaded yet", e.name)
	}
	return nil
}

// announce tells streams of health that a model was added, loaded or removed.
func (s *Server) announce() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.changed)
	s.changed = make(chan struct{})
}

// nextChange returns a channel that is closed at the next change that is announced.
func (s *Server) nextChange() <-chan struct{} {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.changed
}

// RegisterHealth adds the service grpc.health.v1.Health to a gRPC server. The empty service name
// and the name of the protocol's service mean all models. NAME and NAME/VERSION mean one model.
func (s *Server) RegisterHealth(r grpc.ServiceRegistrar) {
	health.RegisterHealthServer(r, healthService{server: s})
}

// healthService implements grpc.health.v1 for a server.
type healthService struct {
	health.UnimplementedHealthServer
	server *Server
}

// statusOf returns the health of a service. It returns SERVICE_UNKNOWN if there is no such model.
func (h healthService) statusOf(service string) health.HealthCheckResponse_ServingStatus {
	var err error
	if service == "" || service == serviceName {
		err = h.server.checkReady()
	} else {
		name, version, _ := strings.Cut(service, "/")
		err = h.server.checkModelReady(name, version)
	}
	switch statusOf(err) {
	case http.StatusOK:
		return health.HealthCheckResponse_SERVING
	case http.StatusNotFound:
		return health.HealthCheckResponse_SERVICE_UNKNOWN
	}
	return health.HealthCheckResponse_NOT_SERVING
}

// Check returns the health of a service.
func (h healthService) Check(_ context.Context, in *health.HealthCheckRequest) (*health.HealthCheckResponse, error) {
	s := h.statusOf(in.GetService())
	if s == health.HealthCheckResponse_SERVICE_UNKNOWN {
		return nil, status.Errorf(codes.NotFound, "there is no service or model %.100q", in.GetService())
	}
	return &health.HealthCheckResponse{Status: s}, nil
}

// List returns the health of the server and of every model.
func (h healthService) List(context.Context, *health.HealthListRequest) (*health.HealthListResponse, error) {
	services := []string{"", serviceName}
	for _, e := range h.server.allEntries() {
		services = append(services, e.name, e.name+"/"+e.version)
	}
	out := &health.HealthListResponse{Statuses: map[string]*health.HealthCheckResponse{}}
	for _, service := range services {
		out.Statuses[service] = &health.HealthCheckResponse{Status: h.statusOf(service)}
	}
	return out, nil
}

// Watch sends the health of a service now and after each change, until the server drains.
func (h healthService) Watch(in *health.HealthCheckRequest, stream health.Health_WatchServer) error {
	var last health.HealthCheckResponse_ServingStatus = -1
	for {
		changed, draining := h.server.nextChange(), h.server.isDraining() // before the status, so that no change is missed
		if s := h.statusOf(in.GetService()); s != last {
			if err := stream.Send(&health.HealthCheckResponse{Status: s}); err != nil {
				return err
			}
			last = s
		}
		if draining {
			return status.Error(codes.Unavailable, errDraining.message)
		}
		select {
		case <-changed:
		case <-h.server.draining:
		case <-stream.Context().Done():
			return stream.Context().Err()
		}
	}
}
