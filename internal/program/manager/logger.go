package manager

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/espalier-dev/espalier/internal/diag"
)

// PodNamespace returns the namespace of the pod that this program runs in; empty outside of a
// pod or without a service account.
func PodNamespace() string {
	raw, err := os.ReadFile("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(raw))
}

var setLibraryLoggers sync.Once

// LogFormat is the format of log lines.
type LogFormat string

// The formats: lines of key=value, and lines that are JSON objects.
const (
	LogText LogFormat = "text"
	LogJSON LogFormat = "json"
)

// ParseLogFormat returns the format of a name. The error names the flag --log-format.
func ParseLogFormat(name string) (LogFormat, error) {
	if f := LogFormat(name); f == LogText || f == LogJSON {
		return f, nil
	}
	return "", fmt.Errorf("--log-format must be %s or %s, not %q", LogText, LogJSON, name)
}

// NewLogger returns a logger that writes lines in a format. The first logger becomes that of
// klog and controller-runtime, which have one for the whole process.
func NewLogger(to io.Writer, format LogFormat, verbosity int) logr.Logger {
	options := &slog.HandlerOptions{Level: slog.Level(-verbosity), ReplaceAttr: bounded}
	var handler slog.Handler = slog.NewTextHandler(to, options)
	if format == LogJSON {
		handler = slog.NewJSONHandler(to, options)
	}
	log := logr.FromSlogHandler(levels{handler})
	setLibraryLoggers.Do(func() {
		klog.SetLogger(log)
		ctrl.SetLogger(log)
	})
	return log
}

// warning begins messages with the level of warnings, which logr does not have.
const warning = "warning: "

// levels gives warnings their level. It drops two errors that are none: of a lease that the process released itself when it
// was told to stop, which controller-runtime logs each time; and of an event about an object in a namespace that is being
// deleted, where nothing can be created.
type levels struct{ slog.Handler }

func (l levels) Handle(ctx context.Context, r slog.Record) error {
	switch r.Message {
	case "error received after stop sequence was engaged":
		if hasError(r, func(err error) bool { return err.Error() == "leader election lost" }) {
			return nil
		}
	case "Server rejected event (will not retry!)":
		if hasError(r, func(err error) bool { return apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) }) {
			return nil
		}
	}
	if text, is := strings.CutPrefix(r.Message, warning); is && r.Level == slog.LevelInfo {
		warned := slog.NewRecord(r.Time, slog.LevelWarn, text, r.PC)
		r.Attrs(func(a slog.Attr) bool { warned.AddAttrs(a); return true })
		r = warned
	}
	return l.Handler.Handle(ctx, r)
}

func (l levels) WithAttrs(attrs []slog.Attr) slog.Handler { return levels{l.Handler.WithAttrs(attrs)} }

func (l levels) WithGroup(name string) slog.Handler { return levels{l.Handler.WithGroup(name)} }

// hasError says whether a record has an error that matches.
func hasError(r slog.Record, matches func(error) bool) (found bool) {
	r.Attrs(func(a slog.Attr) bool {
		err, is := a.Value.Any().(error)
		found = found || is && matches(err)
		return !found
	})
	return found
}

// maxLogged bounds one value of a log line, in bytes.
const maxLogged = 32 << 10

// bounded shortens the value of an attribute, and escapes its control characters, which not all
// handlers do.
func bounded(_ []string, a slog.Attr) slog.Attr {
	switch v := a.Value.Any().(type) {
	case string:
		a.Value = boundedText(a.Value, v)
	case error:
		a.Value = boundedText(a.Value, v.Error())
	}
	return a
}

func boundedText(value slog.Value, text string) slog.Value {
	if safe := diag.TruncateLines(text, maxLogged); safe != text {
		return slog.StringValue(safe)
	}
	return value
}

// SilenceLibraries discards what klog and controller-runtime log, in the whole process. It has no
// effect once there is a logger of NewLogger.
func SilenceLibraries() { NewLogger(io.Discard, LogText, 0) }
