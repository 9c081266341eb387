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
)

const (
	watchesPath = "/watches"

	askLimit    = 10 * time.Second
	answerLimit = 64 << 20 // bytes: room for more than a hundred thousand watches
)

// NobodyError says that no program listens on a socket.
type NobodyError struct{ Socket string }

func (e *NobodyError) Error() string { return "nobody listens on " + e.Socket }

// Ask asks the program that listens on a socket what it watches. Where none
// does, the error is a NobodyError. A socket in a directory that isn't this
// user's alone isn't asked: anybody could answer.
func Ask(ctx context.Context, path string) ([]Watch, error) {
	path, err := absolute(path)
	if err != nil {
		return nil, err
	}
	err = private(filepath.Dir(path), os.Getuid())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &NobodyError{path}
	}
	if err != nil {
		return nil, err
	}
	answer, err := get(ctx, path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) {
		return nil, &NobodyError{path}
	}
	if err != nil {
		return nil, fmt.Errorf("ask on %s: %w", path, err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("ask on %s: the program that listens there answers %s; is it another version of espalier?", path, answer.Status)
	}
	watches, err := decode(answer.Body, answerLimit)
	if err != nil {
		return nil, fmt.Errorf("ask on %s: %w", path, err)
	}
	return watches, nil
}

func get(ctx context.Context, socket string) (*http.Response, error) {
	client := http.Client{
		Timeout: askLimit, // to the end of the answer
		Transport: &http.Transport{
			DisableKeepAlives: true,
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, "unix", socket)
			},
		},
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://espalier"+watchesPath, nil)
	if err != nil {
		return nil, err
	}
	answer, err := client.Do(request)
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		return nil, wrapped.Err // its URL is made up, and would only confuse
	}
	return answer, err
}

// decode reads an answer of at most so many bytes.
func decode(from io.Reader, limit int64) ([]Watch, error) {
	raw, err := io.ReadAll(io.LimitReader(from, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(raw)) > limit {
		return nil, fmt.Errorf("the answer is longer than %d bytes", limit)
	}
	var watches []Watch
	if err := json.Unmarshal(raw, &watches); err != nil {
		return nil, fmt.Errorf("the answer is no list of watches: %w", err)
	}
	return watches, nil
}
