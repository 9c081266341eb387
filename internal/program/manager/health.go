package manager

import (
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// health serves probes. Readiness has notes as well, which do not make the program unready: a
// pod that is not ready receives no webhook requests, and a permission that is missing for one
// definition must not stop all deletions in the cluster.
type health struct {
	ready func() error
	notes func() []string
	// withoutDetails responds only whether the program is ready: anybody reaches the port, and
	// the notes name users and definitions.
	withoutDetails bool
}

// Limits of a probe.
const (
	probeHeaders = 5 * time.Second
	probeIdle    = 2 * time.Minute
)

// server returns a server of the probes that listens on an address already.
func (h health) server(address string, log logr.Logger) (*manager.Server, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen for probes: %w", err)
	}
	return &manager.Server{Name: "health probe", Listener: listener, Server: &http.Server{
		Handler: h.handler(), ReadHeaderTimeout: probeHeaders, IdleTimeout: probeIdle, MaxHeaderBytes: 8 << 10,
		ErrorLog: slog.NewLogLogger(logr.ToSlogHandler(log), slog.LevelError),
	}}, nil
}

func (h health) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") })
	mux.HandleFunc("GET /readyz", h.readyz)
	return mux
}

// readyz responds "ok" or, if the program is not ready or the query is ?verbose, with each
// check and note.
func (h health) readyz(w http.ResponseWriter, r *http.Request) {
	err := h.ready()
	_, verbose := r.URL.Query()["verbose"]
	switch {
	case err == nil && (!verbose || h.withoutDetails):
		fmt.Fprint(w, "ok")
		return
	case h.withoutDetails:
		http.Error(w, "readyz check failed; with --metrics-secure, "+readyzDetails+" of --metrics-bind-address has the reason", http.StatusInternalServerError)
		return
	}
	h.write(w, err)
}

// readyzDetails is the path of the details on the metrics server. Kubernetes lets everybody get
// /readyz, and its role system:monitoring the paths below.
const readyzDetails = "/readyz/verbose"

// details responds with each check and note.
func (h health) details(w http.ResponseWriter, _ *http.Request) { h.write(w, h.ready()) }

func (h health) write(w http.ResponseWriter, err error) {
	var text strings.Builder
	result := "readyz check passed"
	if err == nil {
		text.WriteString("[+]controllers ok\n")
	} else {
		fmt.Fprintf(&text, "[-]controllers failed: %v\n", err)
		result = "readyz check failed"
	}
	for _, note := range h.notes() {
		fmt.Fprintf(&text, "[!]%s\n", note)
	}
	text.WriteString(result + "\n")
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if err != nil {
		w.WriteHeader(http.StatusInternalServerError)
	}
	fmt.Fprint(w, text.String())
}
