package cli

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"sync"

	"github.com/espalier-dev/espalier/cmd/espalier/cli/follow"
	"github.com/espalier-dev/espalier/internal/kube/embedded"
	"github.com/espalier-dev/espalier/internal/manager"
	"github.com/espalier-dev/espalier/internal/server"
	"github.com/espalier-dev/espalier/sdk/managed"
)

// startPlane starts a control plane whose data are removed at the end.
func (s *demoStory) startPlane(ctx context.Context) (string, error) {
	dir, err := os.MkdirTemp("", "espalier-demo-")
	if err != nil {
		return "", fmt.Errorf("create a data directory: %w", err)
	}
	s.addCleanup(func() { _ = os.RemoveAll(dir) }) // the system clears its temporary directory otherwise
	s.dir = dir
	s.plane, err = embedded.Start(ctx, embedded.Options{DataDir: dir, NoFsync: true, Log: s.log})
	if err != nil {
		return "", err
	}
	s.addCleanup(func() {
		stopping, cancel := context.WithTimeout(context.Background(), stopLimit)
		defer cancel()
		_ = s.plane.Stop(stopping) // it kills the process if need be
	})
	watching, stop := context.WithCancel(context.Background())
	s.addCleanup(stop)
	go func() {
		select {
		case <-s.plane.Done():
			s.fail(errors.New("the API server exited unexpectedly"))
		case <-watching.Done():
		}
	}()
	config := s.plane.Config()
	if s.cluster, err = follow.New(config); err != nil {
		return "", err
	}
	where, err := url.Parse(config.Host)
	if err != nil {
		return "", err
	}
	return "on " + where.Host, nil
}

// startControllers starts what `espalier run` runs, in this process, and the cloud for it.
func (s *demoStory) startControllers(ctx context.Context) (string, error) {
	provider, cloud, err := s.cloud.start(ctx, s)
	if err != nil {
		return "", err
	}
	ready := make(chan struct{})
	m, err := server.NewManager(server.ManagerOptions{
		Options: manager.Options{
			Name: "espalier", Config: s.plane.Config(), Version: Version(), Log: manager.NewLogger(s.log, manager.LogText, 0),
			HealthAddress: "0", MetricsAddress: "0", Ready: ready,
		},
		Workers: 16, AdditionalPrinterColumns: true, AdmissionPolicies: true, Providers: []managed.Provider{provider},
	})
	if err != nil {
		return "", err
	}
	s.background(func(ctx context.Context) {
		if err := m.Run(ctx); err != nil {
			s.fail(fmt.Errorf("the controllers ended: %w", err))
		}
	})
	select {
	case <-ready:
		return "in this process, with " + cloud, nil
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// background runs a function until the demo is over.
func (s *demoStory) background(run func(context.Context)) {
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { run(ctx) })
	s.addCleanup(func() {
		stop()
		running.Wait()
	})
}
