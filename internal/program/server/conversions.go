package server

import (
	"sync"

	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/serving/install"
)

// conversions has the address of this program's conversion webhook. It is safe for concurrent
// use.
type conversions struct {
	// changed is called when the address has changed.
	changed func()

	mu      sync.Mutex
	planned bool
	at      *install.Endpoint
}

// expectEndpoint records that there will be a webhook.
func (c *conversions) expectEndpoint() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.planned = true
}

// setEndpoint records the address of the webhook.
func (c *conversions) setEndpoint(at install.Endpoint) {
	c.mu.Lock()
	same := c.at != nil && object.Digest(*c.at) == object.Digest(at)
	c.at = &at
	c.mu.Unlock()
	if !same {
		c.changed()
	}
}

// Endpoint implements definition.Conversions.
func (c *conversions) Endpoint() (at *install.Endpoint, planned bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at, c.planned
}
