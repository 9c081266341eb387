package cloud

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"
)

// Type is a type of resources.
type Type string

// The types, in the order in which their resources can be made.
const (
	TypeNetwork Type = "network"
	TypeSubnet  Type = "subnet"
	TypeRole    Type = "role"
	TypeCluster Type = "cluster"
	TypeBucket  Type = "bucket"
)

// Key is a resource's address: no two resources have the same one at the same time.
type Key struct {
	Type Type `json:"type"`
	// Scope is where the resource is. Resources see those of their own scope only.
	Scope string `json:"scope"`
	// ID is the resource's name where callers assign names, else what the cloud has
	// assigned.
	ID string `json:"id"`
}

// String is the key for people, as "subnet main/subnet-00000002".
func (k Key) String() string { return string(k.Type) + " " + k.Scope + "/" + k.ID }

// host is the name that a resource would have in a net that doesn't resolve it.
func (k Key) host() string {
	return fmt.Sprintf("%s.%s.%s.sandbox.internal", k.ID, k.Type, k.Scope)
}

// Properties are what a resource is asked to be. Each type has its own of them.
type Properties struct {
	// Network is the ID of a subnet's network.
	Network string `json:"network,omitempty"`
	// CIDR is the range of addresses of a network or subnet.
	CIDR string `json:"cidr,omitempty"`
	// Trust says who may take a role, and Policies what the role allows.
	Trust    string   `json:"trust,omitempty"`
	Policies []string `json:"policies,omitempty"`
	// Subnets and Role are the IDs of those that a cluster runs in, and as which; Nodes
	// is its size.
	Subnets []string `json:"subnets,omitempty"`
	Role    string   `json:"role,omitempty"`
	Nodes   int      `json:"nodes,omitempty"`
	// Versioning of a bucket keeps what is overwritten; Public lets everybody read.
	Versioning bool `json:"versioning,omitempty"`
	Public     bool `json:"public,omitempty"`
}

// clone is a copy that shares nothing.
func (p Properties) clone() Properties {
	p.Policies, p.Subnets = slices.Clone(p.Policies), slices.Clone(p.Subnets)
	return p
}

// needs lists what the properties refer to.
func (p Properties) needs(scope string) []Key {
	var out []Key
	if p.Network != "" {
		out = append(out, Key{TypeNetwork, scope, p.Network})
	}
	for _, id := range p.Subnets {
		out = append(out, Key{TypeSubnet, scope, id})
	}
	if p.Role != "" {
		out = append(out, Key{TypeRole, scope, p.Role})
	}
	return out
}

// check refuses what a resource of the type can't be.
func (p Properties) check(t Type) error {
	switch t {
	case TypeNetwork, TypeSubnet:
		if _, err := netip.ParsePrefix(p.CIDR); err != nil {
			return refuse(InvalidParameter, "%q is no range of addresses", p.CIDR)
		}
		if t == TypeSubnet && p.Network == "" {
			return refuse(InvalidParameter, "a subnet needs a network")
		}
	case TypeCluster:
		if len(p.Subnets) == 0 || p.Role == "" {
			return refuse(InvalidParameter, "a cluster needs a subnet and a role")
		}
	case TypeRole, TypeBucket:
	default:
		return refuse(InvalidParameter, "there is no type %q", t)
	}
	return nil
}

// State is where a resource is in its life. A step that takes no time isn't seen.
type State string

// The states.
const (
	Creating State = "CREATING"
	Active   State = "ACTIVE"
	Updating State = "UPDATING"
	Deleting State = "DELETING"
	Failed   State = "FAILED"
)

// busy says that an operation works on the resource.
func (s State) busy() bool { return s == Creating || s == Updating || s == Deleting }

// Resource is a resource as a call shows it. It is the caller's own copy.
type Resource struct {
	Key
	// Serial is how many resources the cloud had made when it made this one. It tells
	// a resource from another that had the same ID before.
	Serial int64             `json:"serial"`
	Tags   map[string]string `json:"tags,omitempty"`
	// Properties are what is in force: those of an update come with its end.
	Properties Properties `json:"properties"`
	State      State      `json:"state"`
	// Message says why the resource has FAILED.
	Message string    `json:"message,omitempty"`
	Created time.Time `json:"created"`
	// Endpoint and Certificate are how a cluster is reached, once it is ACTIVE, and URL
	// is where a bucket's objects are. The certificate only stands for one.
	Endpoint    string `json:"endpoint,omitempty"`
	Certificate string `json:"certificate,omitempty"`
	URL         string `json:"url,omitempty"`
}

func (r Resource) clone() Resource {
	r.Tags, r.Properties = maps.Clone(r.Tags), r.Properties.clone()
	return r
}

// carries says that the resource has all tags that are wanted.
func (r Resource) carries(wanted map[string]string) bool {
	for k, v := range wanted {
		if have, ok := r.Tags[k]; !ok || have != v {
			return false
		}
	}
	return true
}

// Verb is what a call does.
type Verb string

// The verbs.
const (
	VerbCreate       Verb = "Create"
	VerbGet          Verb = "Get"
	VerbList         Verb = "List"
	VerbUpdate       Verb = "Update"
	VerbDelete       Verb = "Delete"
	VerbGetOperation Verb = "GetOperation"
)

// Status is how far an operation is.
type Status string

// The statuses. Succeeded and FailedOperation are final.
const (
	Running         Status = "Running"
	Succeeded       Status = "Succeeded"
	FailedOperation Status = "Failed"
)

// Operation is work that the cloud has accepted.
type Operation struct {
	// ID is the handle to ask with; the cloud forgets it a day after the end.
	ID   string `json:"id"`
	Verb Verb   `json:"verb"`
	// Resource is what is worked on; a create's is named from the start.
	Resource Key    `json:"resource"`
	Status   Status `json:"status"`
	// Error says why it failed; nil otherwise.
	Error *Error `json:"error,omitempty"`
	// RetryAfter is when it is worth while to ask again, 0 for one that is done.
	RetryAfter time.Duration `json:"-"`
}

// Done says that the operation has come to its end, one or the other.
func (o Operation) Done() bool { return o.Status != Running }
