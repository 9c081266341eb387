package introspect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/espalier-dev/espalier/internal/telemetry/profile"
)

const (
	watchesPath = "/watches"
	queuesPath  = "/queues"
	profilePath = "/profile"
	processPath = "/process"

	requestLimit = 10 * time.Second
	answerLimit  = 64 << 20 // bytes: room for more than a hundred thousand watches
)

// NotListeningError says that no program listens on a socket.
type NotListeningError struct{ Socket string }

func (e *NotListeningError) Error() string { return "no program listens on " + e.Socket }

// ListWatches returns the watches of the program that listens on a socket. If none does, the
// error is a NotListeningError. It refuses a socket in a directory that other users can write
// to: any of them could be listening.
func ListWatches(ctx context.Context, path string) ([]Watch, error) {
	return read(ctx, path, watchesPath, "watches", decode)
}

// ListQueues returns the queues of the program that listens on a socket, as ListWatches does the watches.
func ListQueues(ctx context.Context, path string) ([]Queue, error) {
	return read(ctx, path, queuesPath, "queues", func(from io.Reader, limit int64) (queues []Queue, err error) {
		return queues, decodeInto(&queues, "a list of queues", from, limit)
	})
}

// ReadProfile returns what the program has measured that listens on a socket, as ListWatches does the watches.
func ReadProfile(ctx context.Context, path string) (profile.Reading, error) {
	return read(ctx, path, profilePath, "the profile", func(from io.Reader, limit int64) (reading profile.Reading, err error) {
		return reading, decodeInto(&reading, "a profile", from, limit)
	})
}

// CheckCoordination returns an error if a program that coordinates with no other listens on a socket: it reconciles the
// cluster whatever other controllers do. What cannot be read, as from a program of an earlier version, is no error.
func CheckCoordination(ctx context.Context, path string) error {
	other, err := read(ctx, path, processPath, "the process", func(from io.Reader, limit int64) (p Process, err error) {
		return p, decodeInto(&p, "a process", from, limit)
	})
	if err != nil || other.Lease != "" {
		return nil
	}
	return fmt.Errorf("process %d reconciles this cluster already, without a Lease: 'espalier up' runs the controllers itself. Stop that process, or choose another cluster with --kubeconfig or --context", other.PID)
}

func read[T any](ctx context.Context, path, of, what string, decode func(io.Reader, int64) (T, error)) (none T, err error) {
	path, err = socketPath(path)
	if err != nil {
		return none, err
	}
	err = checkPrivate(filepath.Dir(path), os.Getuid())
	if errors.Is(err, fs.ErrNotExist) {
		return none, &NotListeningError{path}
	}
	if err != nil {
		return none, err
	}
	response, err := get(ctx, path, of)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) {
		return none, &NotListeningError{path}
	}
	if err != nil {
		return none, fmt.Errorf("read %s from %s: %w", what, path, err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return none, fmt.Errorf("the program that listens on %s responded %s; it might be another version of espalier", path, response.Status)
	}
	out, err := decode(response.Body, answerLimit)
	if err != nil {
		return none, fmt.Errorf("read %s from %s: %w", what, path, err)
	}
	return out, nil
}

func get(ctx context.Context, socket, of string) (*http.Response, error) {
	client := http.Client{
		Timeout: requestLimit, // until the response is read
		Transport: &http.Transport{
			DisableKeepAlives: true,
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, "unix", socket)
			},
		},
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://espalier"+of, nil)
	if err != nil {
		return nil, err
	}
	response, err := client.Do(request)
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		return nil, wrapped.Err // without the URL, which is artificial
	}
	return response, err
}

// decode reads a response of at most limit bytes.
func decode(from io.Reader, limit int64) (watches []Watch, err error) {
	return watches, decodeInto(&watches, "a list of watches", from, limit)
}

func decodeInto(out any, what string, from io.Reader, limit int64) error {
	raw, err := io.ReadAll(io.LimitReader(from, limit+1))
	if err != nil {
		return err
	}
	if int64(len(raw)) > limit {
		return fmt.Errorf("the response is longer than %d bytes", limit)
	}
	if err := json.Unmarshal(raw, out); err != nil {
		return fmt.Errorf("the response is not %s: %w", what, err)
	}
	return nil
}
