package manager

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
)

// OwnNamespace is the pod's namespace, as every pod with a service account has it,
// or else default.
func OwnNamespace() string {
	raw, err := os.ReadFile("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
	if name := strings.TrimSpace(string(raw)); err == nil && name != "" {
		return name
	}
	return "default"
}

var libraries sync.Once

// LogFormat is how log lines are written.
type LogFormat string

// The formats: lines of key=value, and lines that are JSON objects.
const (
	LogText LogFormat = "text"
	LogJSON LogFormat = "json"
)

// ParseLogFormat reads the name of a format.
func ParseLogFormat(name string) (LogFormat, error) {
	if f := LogFormat(name); f == LogText || f == LogJSON {
		return f, nil
	}
	return "", fmt.Errorf("--log-format must be %s or %s, not %q", LogText, LogJSON, name)
}

// NewLogger returns a logger that writes lines in a format. The libraries, which have one
// logger for the whole process, use the first one.
func NewLogger(to io.Writer, format LogFormat, verbosity int) logr.Logger {
	options := &slog.HandlerOptions{Level: slog.Level(-verbosity)}
	var handler slog.Handler = slog.NewTextHandler(to, options)
	if format == LogJSON {
		handler = slog.NewJSONHandler(to, options)
	}
	log := logr.FromSlogHandler(handler)
	libraries.Do(func() {
		klog.SetLogger(log)
		ctrl.SetLogger(log)
	})
	return log
}
