// Package response has HTTP clients for the SDK of AWS: one that limits what is read from services, because a response
// takes much more memory once it is decoded, and one that receives whole responses however fast a service is.
package response

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"

	"github.com/aws/aws-sdk-go-v2/aws"
)

// TooLargeError is returned by the read of responses that are larger than is allowed.
type TooLargeError struct {
	// Limit is in bytes, of one response or of several ones together.
	Limit int64
}

// Error returns a message.
func (e *TooLargeError) Error() string {
	return fmt.Sprintf("the response is larger than %d bytes", e.Limit)
}

// Limited returns an HTTP client with at most limit bytes of responses, all of them together. The read of more returns
// a TooLargeError.
func Limited(client aws.HTTPClient, limit int64) aws.HTTPClient {
	l := &limited{HTTPClient: client, limit: limit}
	l.left.Store(limit)
	return l
}

type limited struct {
	aws.HTTPClient
	limit int64
	left  atomic.Int64
}

// Do makes a request.
func (l *limited) Do(r *http.Request) (*http.Response, error) {
	response, err := l.HTTPClient.Do(r)
	if err != nil {
		return nil, err
	}
	response.Body = &body{response.Body, l}
	return response, nil
}

type body struct {
	io.ReadCloser
	of *limited
}

// Read reads a part of the response.
func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.of.left.Add(-int64(n)) < 0 {
		return 0, &TooLargeError{b.of.limit}
	}
	return n, err
}

// WithBufferedBodies returns a client that sends a copy of each request's body. The SDK closes the body of a request once it has the
// header of the response. A service on the same machine may send that before the client has seen the end of the body; the client then
// takes the closed body for a failure, and closes the connection in the middle of the response.
func WithBufferedBodies(client aws.HTTPClient) aws.HTTPClient { return buffered{client} }

type buffered struct{ aws.HTTPClient }

// Do makes a request.
func (b buffered) Do(r *http.Request) (*http.Response, error) {
	if r.Body == nil || r.Body == http.NoBody {
		return b.HTTPClient.Do(r)
	}
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	if err := r.Body.Close(); err != nil {
		return nil, err
	}
	r = r.WithContext(r.Context()) // a copy
	r.Body = io.NopCloser(bytes.NewReader(raw))
	return b.HTTPClient.Do(r)
}
