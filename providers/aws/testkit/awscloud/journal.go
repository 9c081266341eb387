package awscloud

import (
	"slices"
	"time"
)

// Call is a call of an API of the cloud.
type Call struct {
	// Time is when it arrived, on the cloud's clock.
	Time time.Time
	// Service is the service that the call is signed for; that of the Cloud Control API is cloudcontrolapi.
	Service string
	// Operation is the operation, as in Fault.
	Operation string
	// Type, Identifier and Token are of calls of the Cloud Control API. Identifier is the RequestToken of
	// GetResourceRequestStatus and CancelResourceRequest; their type is that of the request.
	Type, Identifier, Token string
	// Body is what was sent to the Cloud Control API.
	Body []byte
	// AccessKey is of the credentials.
	AccessKey string
}

// Calls returns the calls since the start or the last ResetCalls, in the order in which they arrived.
func (c *Cloud) Calls() []Call {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.journal)
}

// Count returns how many calls there were of an operation and type; empty ones stand for all.
func (c *Cloud) Count(operation, typeName string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for _, call := range c.journal {
		if (operation == "" || call.Operation == operation) && (typeName == "" || call.Type == typeName) {
			n++
		}
	}
	return n
}

// ResetCalls forgets the calls.
func (c *Cloud) ResetCalls() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.journal = nil
}

func (c *Cloud) record(call Call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	call.Time = c.now()
	c.journal = append(c.journal, call)
}
