package introspect

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"time"

	"github.com/go-logr/logr"

	"github.com/espalier-dev/espalier/internal/kube/watch"
)

const (
	readLimit  = 5 * time.Second // for a request
	writeLimit = 10 * time.Second
	stopLimit  = time.Second // for answers under way when the program stops
	// openAgain is how often a socket that couldn't be opened is tried again: who
	// has it may go, and a directory may be mended.
	openAgain = 10 * time.Second
)

// Server answers who asks what is watched.
type Server struct {
	Path    string
	Watches func() []watch.KindStats
	Log     logr.Logger

	again time.Duration // openAgain by default
}

// Run answers until the context ends, and then removes the socket. It has no
// error, since the program is to work without it: what is in the way is logged
// once and looked at again and again, so that of two programs the one that stays
// is asked in the end.
func (s *Server) Run(ctx context.Context) {
	again := s.again
	if again == 0 {
		again = openAgain
	}
	for told := false; ctx.Err() == nil; {
		answered, err := s.serve(ctx)
		told = told && !answered
		if ctx.Err() != nil {
			return
		}
		if !told {
			s.Log.Info("warning: this program can't be asked by 'espalier watches'; it works all the same, and tries again", "socket", s.Path, "reason", err.Error())
			told = true
		}
		select {
		case <-time.After(again):
		case <-ctx.Done():
		}
	}
}

// serve answers until the context ends, or something fails.
func (s *Server) serve(ctx context.Context) (answered bool, err error) {
	l, err := open(ctx, s.Path)
	if err != nil {
		return false, err
	}
	s.Log.Info("answers 'espalier watches'", "socket", l.path)
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
		_ = server.Close() // whoever still asks has waited long enough
	}
	<-ended
	return true, nil
}

func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+watchesPath, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(Watches(s.Watches())) // who asked has gone
	})
	return mux
}
