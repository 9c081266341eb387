// Package cloudcontroltest has a Cloud Control API in memory, for tests of the client: requests that take time,
// tokens, answers that are lost, throttling, and reads that show changes late. How AWS answers a token that was
// used before is not documented in all cases, so that the cloud can be made to answer in each way.
package cloudcontroltest

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudcontrol/types"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"

	"github.com/espalier-dev/espalier/providers/aws/model"
	"github.com/espalier-dev/espalier/providers/aws/resourcetype"
)

// Repetition is how the cloud answers a request with a token that was used before.
type Repetition int

// Repetitions.
const (
	// SameEvent returns the progress of the first request.
	SameEvent Repetition = iota
	// Conflict refuses the token.
	Conflict
	// Associated refuses the token, and names the request that has it.
	Associated
	// NewRequest ignores tokens.
	NewRequest
)

// tokenTTL is how long a token is valid, requestTTL how long a request is known.
const (
	tokenTTL   = 36 * time.Hour
	requestTTL = 7 * 24 * time.Hour
)

// Options are the behaviour of a cloud.
type Options struct {
	Now        func() time.Time
	Types      []*resourcetype.Type
	Repetition Repetition
	// Duration is how long operations take.
	Duration time.Duration
	// Lag is how long reads show the state before a creation or deletion.
	Lag time.Duration
	// ListOmitsTags leaves tags out of lists.
	ListOmitsTags bool
	// ConcurrentOperations: several operations of one resource may run.
	ConcurrentOperations bool
}

// Cloud is a Cloud Control API.
type Cloud struct {
	Options
	mu        sync.Mutex
	types     map[string]*resourcetype.Type
	resources map[string]*stored
	requests  map[string]*call
	ids       int
	fault     Fault
	// calls counts the calls by the name of the API's operation.
	calls map[string]int
}

// stored is a resource.
type stored struct {
	Type, ID        string
	Properties      map[string]any
	created, gone   time.Time
	isGone, isReady bool
}

// call is a request.
type call struct {
	token, requestToken string
	body                string
	operation           types.Operation
	typeName, id        string
	started, ends       time.Time
	done                bool
	code                types.HandlerErrorCode
	message             string
	model               map[string]any
	patched             map[string]any
}

// Fault is a failure of the cloud.
type Fault struct {
	// Refuse answers each call with an error of the server before it has an effect; Throttle with one that
	// asks to call later. LoseAnswer answers calls that change something with an error after their effect.
	Refuse, Throttle, LoseAnswer bool
	// Fail lets operations fail. LeaveResource lets failed creations leave their resource.
	Fail          types.HandlerErrorCode
	LeaveResource bool
}

// New returns a cloud without resources.
func New(o Options) *Cloud {
	c := &Cloud{Options: o, types: map[string]*resourcetype.Type{}, resources: map[string]*stored{}, requests: map[string]*call{}, calls: map[string]int{}}
	for _, t := range o.Types {
		c.types[t.Name] = t
	}
	return c
}

// Inject sets the fault of the following calls.
func (c *Cloud) Inject(f Fault) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fault = f
}

// Calls returns how many calls were made of an operation of the API, such as GetResource.
func (c *Cloud) Calls(operation string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.calls[operation]
}

// Count returns how many resources of a type exist or are being created.
func (c *Cloud) Count(typeName string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.settle()
	n := 0
	for _, r := range c.resources {
		if r.Type == typeName && !r.isGone {
			n++
		}
	}
	return n
}

// Snapshot returns the resources and the operations that run as a text.
func (c *Cloud) Snapshot() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.settle()
	var lines []string
	for _, key := range slices.Sorted(maps.Keys(c.resources)) {
		if r := c.resources[key]; !r.isGone {
			raw, err := json.Marshal(r)
			if err != nil {
				panic(err)
			}
			lines = append(lines, string(raw))
		}
	}
	for _, token := range slices.Sorted(maps.Keys(c.requests)) {
		if r := c.requests[token]; !r.done {
			lines = append(lines, fmt.Sprintf("%s of %s %s runs", r.operation, r.typeName, r.id))
		}
	}
	return strings.Join(lines, "\n")
}

// Change changes the properties of a resource, as another client would.
func (c *Cloud) Change(typeName, id string, change func(map[string]any)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change(c.resources[typeName+" "+id].Properties)
}

// Properties returns a copy of all properties of a resource, with those that reads do not return.
func (c *Cloud) Properties(typeName, id string) map[string]any {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.settle()
	r := c.resources[typeName+" "+id]
	if r == nil || r.isGone {
		return nil
	}
	return decode(encode(r.Properties))
}

// settle ends the operations that are due.
func (c *Cloud) settle() {
	now := c.Now()
	for _, token := range slices.Sorted(maps.Keys(c.requests)) {
		r := c.requests[token]
		switch {
		case r.done && now.Sub(r.started) >= requestTTL:
			delete(c.requests, token)
		case !r.done && !now.Before(r.ends):
			c.end(r)
		}
	}
}

// end ends an operation.
func (c *Cloud) end(r *call) {
	r.done = true
	at := c.resources[r.typeName+" "+r.id]
	switch {
	case r.code != "" && r.operation == types.OperationCreate && r.message == "left":
		at.isReady, at.created = true, r.ends
	case r.code != "" && r.operation == types.OperationCreate && at != nil:
		delete(c.resources, r.typeName+" "+r.id)
		r.id = ""
	case r.code != "" || at == nil:
	case r.operation == types.OperationCreate:
		at.isReady, at.created = true, r.ends
	case r.operation == types.OperationUpdate:
		at.Properties = r.patched
	default:
		at.isGone, at.gone = true, r.ends
	}
	if at != nil && r.code == "" {
		r.model = at.Properties
	}
}

// isVisible reports whether a read shows a resource.
func (c *Cloud) isVisible(r *stored) bool {
	switch {
	case r == nil || !r.isReady:
		return false
	case r.isGone:
		return c.Now().Sub(r.gone) < c.Lag
	}
	return c.Now().Sub(r.created) >= c.Lag
}

// readable returns what a read returns of a resource.
func (c *Cloud) readable(r *stored) map[string]any {
	out := decode(encode(r.Properties))
	for _, path := range c.types[r.Type].WriteOnlyProperties {
		remove(out, path)
	}
	return out
}

func remove(value any, path resourcetype.Path) {
	switch v := value.(type) {
	case map[string]any:
		if len(path) == 1 {
			delete(v, path[0])
			return
		}
		remove(v[path[0]], path[1:])
	case []any:
		for _, item := range v {
			if path[0] == resourcetype.Any {
				remove(item, path[1:])
			}
		}
	}
}

// start begins an operation, or continues the one with the token. The lock is held.
func (c *Cloud) start(r *call) (*types.ProgressEvent, error) {
	now := c.Now()
	r.started, r.ends = now, now.Add(c.Duration)
	if known := c.byToken(r.token); known != nil && c.Repetition != NewRequest {
		switch {
		case known.body != r.body || c.Repetition == Conflict:
			return nil, &types.ClientTokenConflictException{Message: aws.String("The client token was used for another request")}
		case c.Repetition == Associated:
			return nil, &types.InvalidRequestException{Message: aws.String(fmt.Sprintf("ClientToken %s is already associated with an existing operation with RequestToken %s", r.token, known.requestToken))}
		}
		return c.event(known), nil
	}
	t := c.types[r.typeName]
	if t == nil {
		return nil, &types.TypeNotFoundException{Message: aws.String("The type " + r.typeName + " does not exist")}
	}
	if !c.ConcurrentOperations && r.id != "" {
		for _, other := range c.requests {
			if !other.done && other.typeName == r.typeName && other.id == r.id {
				return nil, &types.ConcurrentOperationException{Message: aws.String("An operation of this resource runs")}
			}
		}
	}
	if err := c.prepare(t, r); err != nil {
		return nil, err
	}
	c.ids++
	r.requestToken = fmt.Sprintf("request-%d", c.ids)
	if c.fault.Fail != "" && r.code == "" {
		if r.code = c.fault.Fail; c.fault.LeaveResource {
			r.message = "left"
		}
	}
	c.requests[r.requestToken] = r
	c.settle()
	return c.event(r), nil
}

// prepare checks a request, and gives a creation its identifier.
func (c *Cloud) prepare(t *resourcetype.Type, r *call) error {
	if r.operation == types.OperationCreate {
		return c.prepareCreate(t, r)
	}
	at := c.resources[r.typeName+" "+r.id]
	if at == nil || at.isGone || !at.isReady {
		return &types.ResourceNotFoundException{Message: aws.String("Resource " + r.id + " was not found")}
	}
	if r.operation == types.OperationDelete {
		return nil
	}
	patch, err := jsonpatch.DecodePatch([]byte(r.body))
	if err != nil {
		return &types.InvalidRequestException{Message: aws.String(err.Error())}
	}
	raw, err := patch.Apply([]byte(encode(c.readable(at)))) // so that write-only values are lost without the patch
	if err != nil {
		return &types.InvalidRequestException{Message: aws.String(err.Error())}
	}
	r.patched = decode(string(raw))
	for _, path := range slices.Concat(t.CreateOnlyProperties, t.ReadOnlyProperties) {
		if len(path) == 1 && encode(r.patched[path[0]]) != encode(c.readable(at)[path[0]]) {
			r.code, r.message = types.HandlerErrorCodeNotUpdatable, path.String()+" cannot be changed"
		}
	}
	return nil
}

func (c *Cloud) prepareCreate(t *resourcetype.Type, r *call) error {
	properties, err := model.Decode([]byte(r.body))
	if err != nil {
		return &types.InvalidRequestException{Message: aws.String(err.Error())}
	}
	for name := range properties {
		if t.Properties[name] == nil {
			return &types.InvalidRequestException{Message: aws.String("Model validation failed: " + name + " is not permitted")}
		}
	}
	for _, name := range t.Required {
		if properties[name] == nil {
			return &types.InvalidRequestException{Message: aws.String("Model validation failed: " + name + " is required")}
		}
	}
	for _, part := range t.PrimaryIdentifier {
		if len(part) == 1 && properties[part[0]] == nil {
			c.ids++
			properties[part[0]] = fmt.Sprintf("%s-%08x", strings.ToLower(part[0]), c.ids)
		}
	}
	r.id = model.IdentifierOf(t, properties)
	key := r.typeName + " " + r.id
	if has := c.resources[key]; has != nil && !has.isGone {
		r.code, r.message, r.id = types.HandlerErrorCodeAlreadyExists, "Resource "+r.id+" already exists", ""
		return nil
	}
	c.resources[key] = &stored{Type: r.typeName, ID: r.id, Properties: properties}
	r.model = decode(r.body)
	return nil
}

func (c *Cloud) byToken(token string) *call {
	for _, r := range c.requests {
		if token != "" && r.token == token && c.Now().Sub(r.started) < tokenTTL {
			return r
		}
	}
	return nil
}

// event returns the progress of a request.
func (c *Cloud) event(r *call) *types.ProgressEvent {
	e := &types.ProgressEvent{
		TypeName: &r.typeName, RequestToken: &r.requestToken, Operation: r.operation, OperationStatus: types.OperationStatusInProgress,
		EventTime: aws.Time(r.started),
	}
	if r.id != "" && (r.done || r.operation != types.OperationCreate || !model.IsServerAssigned(c.types[r.typeName])) {
		e.Identifier = &r.id
	}
	switch {
	case !r.done:
		e.RetryAfter = aws.Time(c.Now().Add(2 * time.Second))
	case r.code != "":
		e.OperationStatus, e.ErrorCode, e.StatusMessage = types.OperationStatusFailed, r.code, aws.String(r.message)
	default:
		e.OperationStatus = types.OperationStatusSuccess
	}
	if r.model != nil {
		e.ResourceModel = aws.String(encode(r.model))
	}
	return e
}

func encode(value any) string {
	raw, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return string(raw)
}

func decode(raw string) map[string]any {
	out, err := model.Decode([]byte(raw))
	if err != nil {
		panic(err)
	}
	return out
}
