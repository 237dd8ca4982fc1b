package server

import (
	"context"
	"errors"
	"fmt"
	"time"

	"connectrpc.com/connect"
	"github.com/headwaterdb/headwater"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
)

const (
	serviceName = "headwater.v1.Headwater"
	healthName  = "grpc.health.v1.Health"
	// watchInterval is how often a health watch looks. The conditions it tells of last for seconds at least.
	watchInterval = 200 * time.Millisecond
)

// serving says why the node should get no calls, nil if it should. A node that is catching up serves: its reads are
// late, which every answer says, and its commands are as good as any node's.
func (s *service) serving() error {
	if s.isClosing() {
		return errors.New("closing")
	}
	switch st := s.store.Status(); st.Condition {
	case headwater.Ready, headwater.CatchingUp:
		return nil
	default:
		return reasonOf(st)
	}
}

// ready says why the node is not up to date, nil if it is.
func (s *service) ready() error {
	if err := s.serving(); err != nil {
		return err
	}
	if st := s.store.Status(); st.Condition != headwater.Ready {
		return reasonOf(st)
	}
	return nil
}

func reasonOf(st headwater.Status) error {
	if st.Reason == "" {
		return errors.New(string(st.Condition))
	}
	return fmt.Errorf("%s: %s", st.Condition, st.Reason)
}

func (s *service) healthOf(name string) (healthpb.HealthCheckResponse_ServingStatus, bool) {
	switch {
	case name != "" && name != serviceName:
		return healthpb.HealthCheckResponse_SERVICE_UNKNOWN, false
	case s.serving() != nil:
		return healthpb.HealthCheckResponse_NOT_SERVING, true
	}
	return healthpb.HealthCheckResponse_SERVING, true
}

// checkHealth is grpc.health.v1.Health.Check.
func (s *service) checkHealth(_ context.Context, r *healthpb.HealthCheckRequest) (*healthpb.HealthCheckResponse, error) {
	h, ok := s.healthOf(r.GetService())
	if !ok {
		return nil, connect.NewError(connect.CodeNotFound, fmt.Errorf("unknown service %q", clip(r.GetService())))
	}
	return &healthpb.HealthCheckResponse{Status: h}, nil
}

// listHealth is grpc.health.v1.Health.List.
func (s *service) listHealth(context.Context, *healthpb.HealthListRequest) (*healthpb.HealthListResponse, error) {
	all := map[string]*healthpb.HealthCheckResponse{}
	for _, name := range []string{"", serviceName} {
		h, _ := s.healthOf(name)
		all[name] = &healthpb.HealthCheckResponse{Status: h}
	}
	return &healthpb.HealthListResponse{Statuses: all}, nil
}

// watchHealth is grpc.health.v1.Health.Watch: the status at once and whenever it changes, until the server closes, whose
// NOT_SERVING is the last.
func (s *service) watchHealth(ctx context.Context, r *healthpb.HealthCheckRequest, send func(*healthpb.HealthCheckResponse) error) error {
	tick := time.NewTicker(watchInterval)
	defer tick.Stop()
	last := healthpb.HealthCheckResponse_UNKNOWN
	for {
		closing := s.isClosing()
		if h, _ := s.healthOf(r.GetService()); h != last {
			if err := send(&healthpb.HealthCheckResponse{Status: h}); err != nil {
				return err
			}
			last = h
		}
		if closing {
			return connect.NewError(connect.CodeUnavailable, errors.New("the server is closing"))
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.closing:
		case <-tick.C:
		}
	}
}
