package response_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/espalier-dev/espalier/providers/aws/response"
)

type clientFunc func(*http.Request) (*http.Response, error)

func (f clientFunc) Do(r *http.Request) (*http.Response, error) { return f(r) }

// closable is a body that cannot be read after it was closed.
type closable struct {
	io.Reader
	closed bool
}

func (c *closable) Read(p []byte) (int, error) {
	if c.closed {
		return 0, errors.New("closed")
	}
	return c.Reader.Read(p)
}

func (c *closable) Close() error {
	c.closed = true
	return nil
}

// TestABodyIsSentAfterItWasClosed has a client that reads the body only after the caller has closed it.
func TestABodyIsSentAfterItWasClosed(t *testing.T) {
	var sent *http.Request
	client := response.WithBufferedBodies(clientFunc(func(r *http.Request) (*http.Response, error) {
		sent = r
		return &http.Response{Body: http.NoBody}, nil
	}))
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://127.0.0.1", &closable{Reader: strings.NewReader("Action=Describe")})
	if err != nil {
		t.Fatal(err)
	}
	answer, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(answer.Body.Close(), r.Body.Close()); err != nil {
		t.Fatal(err)
	}
	if body, err := io.ReadAll(sent.Body); err != nil || string(body) != "Action=Describe" {
		t.Errorf("%q is sent: %v", body, err)
	}
}

// TestResponsesAreLimitedTogether reads two responses of a client.
func TestResponsesAreLimitedTogether(t *testing.T) {
	client := response.Limited(clientFunc(func(*http.Request) (*http.Response, error) {
		return &http.Response{Body: io.NopCloser(strings.NewReader("12345678"))}, nil
	}), 12)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	for i, isTooLarge := range []bool{false, true} {
		answer, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_, err = io.ReadAll(answer.Body)
		var tooLarge *response.TooLargeError
		if errors.As(err, &tooLarge) != isTooLarge {
			t.Errorf("response %d: %v", i, err)
		}
		if err := answer.Body.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
