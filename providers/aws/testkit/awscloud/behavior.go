package awscloud

import (
	"time"
)

// Operations of the Cloud Control API.
const (
	CreateResource           = "CreateResource"
	GetResource              = "GetResource"
	UpdateResource           = "UpdateResource"
	DeleteResource           = "DeleteResource"
	ListResources            = "ListResources"
	GetResourceRequestStatus = "GetResourceRequestStatus"
	ListResourceRequests     = "ListResourceRequests"
	CancelResourceRequest    = "CancelResourceRequest"
)

// Repeat is how the cloud answers a request that repeats an earlier one with its ClientToken. AWS's
// documentation does not say which of these it does.
type Repeat int

const (
	// RepeatAnswersEvent answers with the event of the first request.
	RepeatAnswersEvent Repeat = iota
	// RepeatConflicts answers with ClientTokenConflictException.
	RepeatConflicts
	// RepeatNamesRequest answers with ClientTokenConflictException and the RequestToken of the first request in its
	// message, which users have seen.
	RepeatNamesRequest
	// RepeatBegins begins another request, as AWS does 36 hours after the first.
	RepeatBegins
)

// behavior is what tests change.
type behavior struct {
	repeat    Repeat
	durations map[[2]string]time.Duration
	lag       time.Duration
	fullLists bool
}

// SetRepeat sets how requests with a known ClientToken are answered.
func (c *Cloud) SetRepeat(r Repeat) { c.change(func(b *behavior) { b.repeat = r }) }

// SetDuration sets how long a request takes from its beginning until it succeeds or fails, at least.
// The resource is changed at once. The empty string stands for all types, and for CreateResource,
// UpdateResource and DeleteResource; the most specific setting counts, that of a type before that of an operation.
func (c *Cloud) SetDuration(typeName, operation string, d time.Duration) {
	c.change(func(b *behavior) {
		if b.durations == nil {
			b.durations = map[[2]string]time.Duration{}
		}
		b.durations[[2]string{typeName, operation}] = d
	})
}

// SetReadLag sets how long reads and lists of the Cloud Control API show the state before a change.
// Native APIs show it at once.
func (c *Cloud) SetReadLag(d time.Duration) { c.change(func(b *behavior) { b.lag = d }) }

// SetFullLists sets whether ListResources returns all properties of resources, as few of AWS's handlers
// do, and not only their identifiers.
func (c *Cloud) SetFullLists(full bool) { c.change(func(b *behavior) { b.fullLists = full }) }

func (c *Cloud) change(f func(*behavior)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f(&c.behavior)
}

func (b *behavior) duration(typeName, operation string) time.Duration {
	for _, at := range [][2]string{{typeName, operation}, {typeName, ""}, {"", operation}, {"", ""}} {
		if d, ok := b.durations[at]; ok {
			return d
		}
	}
	return 0
}
