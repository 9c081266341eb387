package awscloud

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

const (
	// tokenLife is how long a ClientToken is known.
	tokenLife = 36 * time.Hour
	// requestLife is how long a request can be asked about.
	requestLife = 7 * 24 * time.Hour
	// retryAfter is what events say when to ask again, if the request does not end before.
	retryAfter = 5 * time.Second

	defaultRequestsPage, maxRequestsPage = 20, 100
)

// Values of OperationStatus.
const (
	inProgress     = "IN_PROGRESS"
	success        = "SUCCESS"
	failed         = "FAILED"
	cancelComplete = "CANCEL_COMPLETE"
)

// event is what the API says about a request.
type event struct {
	TypeName        string
	Identifier      string `json:",omitempty"`
	RequestToken    string
	Operation       string
	OperationStatus string
	EventTime       float64
	ResourceModel   string  `json:",omitempty"`
	StatusMessage   string  `json:",omitempty"`
	ErrorCode       string  `json:",omitempty"`
	RetryAfter      float64 `json:",omitempty"`
}

type progress struct{ ProgressEvent event }

// tokenKey is where a ClientToken is known.
type tokenKey struct{ account, region, token string }

// request is an operation that was begun.
type request struct {
	token       string
	typeName    string
	operation   string
	account     string
	region      string
	clientToken string
	fingerprint [sha256.Size]byte
	sequence    int
	began       time.Time
	duration    time.Duration

	identifier     string
	hideIdentifier bool
	finished       bool // the effect is there, or failed
	finishedAt     time.Time
	cancelledAt    time.Time
	failure        *failure
	model          string
}

// failure is why a request ends FAILED.
type failure struct{ code, message string }

func (e *failure) Error() string { return e.code + ": " + e.message }

func (r *request) end() time.Time {
	if end := r.began.Add(r.duration); end.After(r.finishedAt) {
		return end
	}
	return r.finishedAt
}

// terminal reports whether the request does not change any more.
func (r *request) terminal(now time.Time) bool {
	return !r.cancelledAt.IsZero() || r.finished && !now.Before(r.end())
}

func (r *request) event(now time.Time) event {
	e := event{TypeName: r.typeName, RequestToken: r.token, Operation: r.operation,
		OperationStatus: inProgress, EventTime: epoch(r.began)}
	if !r.hideIdentifier {
		e.Identifier = r.identifier
	}
	switch {
	case !r.cancelledAt.IsZero():
		e.OperationStatus, e.EventTime = cancelComplete, epoch(r.cancelledAt)
	case !r.terminal(now):
		e.RetryAfter = epoch(now.Add(min(retryAfter, max(r.began.Add(r.duration).Sub(now), 0))))
	case r.failure != nil:
		e.OperationStatus, e.EventTime = failed, epoch(r.end())
		e.ErrorCode, e.StatusMessage = r.failure.code, r.failure.message
	default:
		e.OperationStatus, e.EventTime, e.ResourceModel = success, epoch(r.end()), r.model
	}
	return e
}

func epoch(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }

func fingerprint(operation string, in input) [sha256.Size]byte {
	raw, err := json.Marshal([]string{operation, in.TypeName, in.Identifier, in.DesiredState,
		in.PatchDocument, in.RoleArn, in.TypeVersionID})
	if err != nil {
		panic(err) // Strings can be written.
	}
	return sha256.Sum256(raw)
}

// repeated returns the answer to a request with a known ClientToken. It reports false if the request is new.
func (c *Cloud) repeated(operation string, in input) (any, bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	first := c.tokens[tokenKey{in.account, in.from.region, in.ClientToken}]
	if in.ClientToken == "" || first == nil || now.Sub(first.began) >= tokenLife {
		return nil, false, nil
	}
	conflict := fmt.Sprintf("Client token %s is already in use by another request.", in.ClientToken)
	if first.fingerprint != fingerprint(operation, in) {
		return nil, true, &apiError{"ClientTokenConflictException", conflict}
	}
	switch c.behavior.repeat {
	case RepeatConflicts:
		return nil, true, &apiError{"ClientTokenConflictException", conflict}
	case RepeatNamesRequest:
		return nil, true, &apiError{"ClientTokenConflictException", fmt.Sprintf(
			"ClientToken %s is already associated with an existing operation with RequestToken %s", in.ClientToken, first.token)}
	case RepeatBegins:
		return nil, false, nil
	default:
		return progress{first.event(now)}, true, nil
	}
}

// begin begins a request, and its effect in the background. The effect returns the resource's properties.
func (c *Cloud) begin(verb, operation string, in input, identifier string,
	effect func(*request) (map[string]any, error)) (any, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	c.sequence++
	r := &request{
		token: fmt.Sprintf("%08x-0000-4000-8000-%012x", c.sequence,
			now.UnixNano()&0xffffffffffff), typeName: in.TypeName, operation: verb,
		account: in.account, region: in.from.region, clientToken: in.ClientToken, fingerprint: fingerprint(operation, in), sequence: c.sequence,
		began: now, duration: c.behavior.duration(in.TypeName, operation), identifier: identifier,
	}
	if identifier != "" {
		k := keyOf(in, identifier)
		if other := c.busy[k]; other != nil && !other.terminal(now) {
			return nil, &apiError{"ConcurrentOperationException", fmt.Sprintf(
				"Another operation on resource of type '%s' with identifier '%s' is in progress with RequestToken %s.", in.TypeName, identifier, other.token)}
		}
		c.busy[k] = r
	}
	c.requests[r.token] = r
	if in.ClientToken != "" {
		c.tokens[tokenKey{in.account, in.from.region, in.ClientToken}] = r
	}
	c.effects.Go(func() { c.run(r, in.outcome, effect) })
	return progress{r.event(now)}, nil
}

// run makes the effect of a request, and records what came of it.
func (c *Cloud) run(r *request, outcome *Outcome, effect func(*request) (map[string]any, error)) {
	var model map[string]any
	var err error
	if outcome == nil || outcome.Effect {
		model, err = effect(r)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	r.finished, r.finishedAt = true, c.now()
	if model != nil {
		raw, marshalErr := json.Marshal(model)
		if marshalErr != nil {
			panic(marshalErr) // It was read from JSON.
		}
		r.model = string(raw)
	}
	switch {
	case err != nil:
		r.failure = classify(err)
	case outcome != nil:
		r.failure, r.hideIdentifier = &failure{outcome.Code, outcome.Message}, outcome.HideIdentifier
		if !outcome.Effect && r.operation == "CREATE" {
			r.hideIdentifier = true
		}
	}
}

func (c *Cloud) typeOfRequest(token string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r := c.requests[token]; r != nil {
		return r.typeName
	}
	return ""
}

// known returns a request that has not expired.
func (c *Cloud) known(in input) (*request, error) {
	r := c.requests[in.RequestToken]
	now := c.now()
	if r == nil || r.account != in.account || r.region != in.from.region || r.terminal(now) && now.Sub(r.end()) >= requestLife {
		return nil, &apiError{"RequestTokenNotFoundException", fmt.Sprintf(
			"Request with token %s was not found.", in.RequestToken)}
	}
	return r, nil
}

func (c *Cloud) status(in input) (any, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r, err := c.known(in)
	if err != nil {
		return nil, err
	}
	return progress{r.event(c.now())}, nil
}

func (c *Cloud) cancelRequest(in input) (any, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r, err := c.known(in)
	if err != nil {
		return nil, err
	}
	now := c.now()
	if r.terminal(now) {
		return nil, &apiError{"ConcurrentModificationException", "The request has ended and cannot be cancelled."}
	}
	r.cancelledAt = now
	return progress{r.event(now)}, nil
}

func (c *Cloud) listRequests(in input) (any, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	var events []event
	for _, r := range c.sorted() {
		in.RequestToken = r.token
		if _, err := c.known(in); err != nil {
			continue
		}
		e := r.event(now)
		if selected(in.Filter.Operations, e.Operation) && selected(in.Filter.OperationStatuses, e.OperationStatus) {
			events = append(events, e)
		}
	}
	size := in.MaxResults
	if size <= 0 {
		size = defaultRequestsPage
	}
	page, next, err := pageOf(events, in.NextToken, min(size, maxRequestsPage))
	if err != nil {
		return nil, err
	}
	return struct {
		ResourceRequestStatusSummaries []event
		NextToken                      string `json:",omitempty"`
	}{page, next}, nil
}

// sorted returns the requests, the newest one first.
func (c *Cloud) sorted() []*request {
	out := make([]*request, 0, len(c.requests))
	for _, r := range c.requests {
		out = append(out, r)
	}
	slices.SortFunc(out, func(a, b *request) int { return b.sequence - a.sequence })
	return out
}

func selected(wanted []string, v string) bool { return len(wanted) == 0 || slices.Contains(wanted, v) }

// pageOf returns a page of a list, and the token of the next one. A token is the number of items before the page.
func pageOf[T any](all []T, token string, size int) ([]T, string, error) {
	start := 0
	if token != "" {
		if _, err := fmt.Sscanf(token, "after-%d", &start); err != nil || start < 0 || start > len(all) {
			return nil, "", &apiError{"InvalidRequestException", "The NextToken is not valid."}
		}
	}
	end := min(start+size, len(all))
	if end == len(all) {
		return all[start:end], "", nil
	}
	return all[start:end], fmt.Sprintf("after-%d", end), nil
}
