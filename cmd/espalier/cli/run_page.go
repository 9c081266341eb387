package cli

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"

	"github.com/go-logr/logr"
	"golang.org/x/net/netutil"
	"k8s.io/client-go/rest"

	"github.com/espalier-dev/espalier/cmd/espalier/cli/ui"
	"github.com/espalier-dev/espalier/internal/observe/page"
	"github.com/espalier-dev/espalier/internal/program/manager"
	"github.com/espalier-dev/espalier/internal/program/server"
)

// Bounds of the page of the controllers, which share their memory with it.
const (
	maxPageConnections = 512    // at a time; further ones wait
	maxPageObjects     = 50_000 // in lists, of all viewers
)

// pageServer serves the page of the controllers.
type pageServer struct {
	address string
	config  *rest.Config // for where the API server is; its identity is not used
	tls     *tls.Config
	watch   func(context.Context) error // watches the certificate
	log     logr.Logger
}

// servePage returns how the page is served; nil if it is not.
func servePage(c server.UIConfiguration, config *rest.Config, log logr.Logger) (func(context.Context, manager.Introspection) error, error) {
	if c.BindAddress == "" || c.BindAddress == "0" {
		return nil, nil
	}
	certificate, watch, err := manager.ServingTLS(c.CertPath)
	if err != nil {
		return nil, fmt.Errorf("ui.certPath: %w", err)
	}
	config = rest.AnonymousClientConfig(config)
	config.UserAgent = programName + "-ui/" + Version()
	return pageServer{address: c.BindAddress, config: config, tls: certificate, watch: watch, log: log.WithName("ui")}.run, nil
}

// run serves the page until the context ends. An address that is taken is an error. What goes wrong later is logged, since the
// controllers can run without the page.
func (s pageServer) run(ctx context.Context, program manager.Introspection) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.address)
	if err != nil {
		return fmt.Errorf("--ui-bind-address: %w", err)
	}
	handler := ui.NewServer(ui.Options{Title: s.config.Host, Base: "/", LogIn: ui.TokenLogin(s.config, maxPageObjects, thisProgram(program)), Log: s.log})
	s.log.Info("serving the page", "address", listener.Addr().String())
	ctx, stop := context.WithCancel(ctx)
	var parts sync.WaitGroup
	defer parts.Wait()
	defer stop()
	parts.Go(func() { handler.Run(ctx) })
	parts.Go(func() {
		if err := s.watch(ctx); err != nil {
			s.log.Error(err, "the certificate of the page is not read again")
		}
	})
	pages := &http.Server{Handler: handler, TLSConfig: s.tls, ErrorLog: slog.NewLogLogger(logr.ToSlogHandler(s.log.V(1)), slog.LevelInfo)}
	err = servePages(ctx, pages, func(h *http.Server) error {
		return h.ServeTLS(netutil.LimitListener(listener, maxPageConnections), "", "")
	})
	if err != nil {
		s.log.Error(err, "the page is no longer served")
	}
	<-ctx.Done() // the controllers run on
	return nil
}

// thisProgram reads the watches and queues of this process.
func thisProgram(p manager.Introspection) ui.Program {
	return func(context.Context) ([]page.Watch, []page.Queue, error) {
		if !p.Leads() {
			return nil, nil, errors.New("another replica runs the controllers, and has their watches and queues; 'espalier watches' in its pod shows them")
		}
		return pageWatches(p.Watches()), pageQueues(p.Queues()), nil
	}
}
