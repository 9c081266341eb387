package introspect

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"os"
	"time"

	"github.com/go-logr/logr"

	"github.com/espalier-dev/espalier/internal/kube/queue"
	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/telemetry/profile"
)

const (
	readLimit  = 5 * time.Second // for a request
	writeLimit = 10 * time.Second
	stopLimit  = time.Second // for requests in flight when the program stops
	// retryInterval is the time between attempts to open the socket: another program that
	// listens on it may end, and a directory may be repaired.
	retryInterval = 10 * time.Second
)

// Server serves the watches, the queues and the profile of this program on a socket.
type Server struct {
	Path    string
	Watches func() []watch.KindStats
	Queues  func() []queue.Stats
	Profile func() profile.Reading
	// Lease is the namespace and name of this program's Lease, as NAMESPACE/NAME; empty if it has none.
	Lease string
	Log   logr.Logger

	retryInterval time.Duration // the constant by default
}

// Run serves until the context ends, and then removes the socket. It returns no error, since
// the program can run without it: if the socket cannot be opened, Run logs the reason once and
// retries, so that of two programs the one that stays serves in the end.
func (s *Server) Run(ctx context.Context) {
	interval := s.retryInterval
	if interval == 0 {
		interval = retryInterval
	}
	for logged := false; ctx.Err() == nil; {
		served, err := s.serve(ctx)
		logged = logged && !served
		if ctx.Err() != nil {
			return
		}
		if !logged {
			s.Log.Info("warning: cannot serve 'espalier watches'; retrying, and running without it", "socket", s.Path, "reason", err.Error())
			logged = true
		}
		select {
		case <-time.After(interval):
		case <-ctx.Done():
		}
	}
}

// serve serves until the context ends or the listener fails. Served is false if the socket
// could not be opened.
func (s *Server) serve(ctx context.Context) (served bool, err error) {
	l, err := open(ctx, s.Path)
	if err != nil {
		return false, err
	}
	s.Log.Info("serving 'espalier watches'", "socket", l.path)
	server := &http.Server{
		Handler:           s.handler(),
		ReadHeaderTimeout: readLimit,
		ReadTimeout:       readLimit,
		WriteTimeout:      writeLimit,
		IdleTimeout:       readLimit,
		MaxHeaderBytes:    8 << 10,
		ErrorLog:          slog.NewLogLogger(logr.ToSlogHandler(s.Log), slog.LevelError),
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	select {
	case err := <-ended:
		return true, err
	case <-ctx.Done():
	}
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopLimit)
	defer cancel()
	if server.Shutdown(stopping) != nil {
		_ = server.Close() // drops the requests that are still in flight
	}
	<-ended
	return true, nil
}

func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+watchesPath, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(Watches(s.Watches())) // the client has disconnected
	})
	mux.HandleFunc("GET "+queuesPath, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(Queues(s.Queues())) // the client has disconnected
	})
	mux.HandleFunc("GET "+profilePath, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(s.Profile()) // the client has disconnected
	})
	mux.HandleFunc("GET "+processPath, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(Process{PID: os.Getpid(), Lease: s.Lease}) // the client has disconnected
	})
	return mux
}
