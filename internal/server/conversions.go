package server

import (
	"sync"

	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/serving/install"
)

// conversions knows where this program's webhook converts objects, once it does.
type conversions struct {
	// changed tells of it.
	changed func()

	mu      sync.Mutex
	planned bool
	at      *install.Endpoint
}

// plan says that there will be a webhook.
func (c *conversions) plan() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.planned = true
}

// announce takes note of where objects are converted from now on.
func (c *conversions) announce(at install.Endpoint) {
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
