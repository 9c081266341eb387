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

// The types, in the order of their references.
const (
	TypeNetwork Type = "network"
	TypeSubnet  Type = "subnet"
	TypeRole    Type = "role"
	TypeCluster Type = "cluster"
	TypeBucket  Type = "bucket"
)

// Key identifies a resource. It is unique at any time.
type Key struct {
	Type Type `json:"type"`
	// Scope is the region. Resources only refer to resources of their own scope.
	Scope string `json:"scope"`
	// ID is the name if callers assign names, and otherwise assigned by the cloud.
	ID string `json:"id"`
}

// String returns the key for messages, such as "subnet main/subnet-00000002".
func (k Key) String() string { return string(k.Type) + " " + k.Scope + "/" + k.ID }

// host returns the DNS name of a resource in outputs. It does not resolve.
func (k Key) host() string {
	return fmt.Sprintf("%s.%s.%s.sandbox.internal", k.ID, k.Type, k.Scope)
}

// Properties are the desired properties of a resource. Each type uses some of them.
type Properties struct {
	// Network is the ID of a subnet's network.
	Network string `json:"network,omitempty"`
	// CIDR is the range of addresses of a network or subnet.
	CIDR string `json:"cidr,omitempty"`
	// Trust is who may assume a role, and Policies what the role allows.
	Trust    string   `json:"trust,omitempty"`
	Policies []string `json:"policies,omitempty"`
	// Subnets and Role are the IDs of a cluster's subnets and role; Nodes is its size.
	Subnets []string `json:"subnets,omitempty"`
	Role    string   `json:"role,omitempty"`
	Nodes   int      `json:"nodes,omitempty"`
	// Versioning keeps old versions of a bucket's objects; Public allows everybody to read.
	Versioning bool `json:"versioning,omitempty"`
	Public     bool `json:"public,omitempty"`
}

// clone returns a deep copy.
func (p Properties) clone() Properties {
	p.Policies, p.Subnets = slices.Clone(p.Policies), slices.Clone(p.Subnets)
	return p
}

// references returns the keys that the properties refer to.
func (p Properties) references(scope string) []Key {
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

// check validates the properties for a type.
func (p Properties) check(t Type) error {
	switch t {
	case TypeNetwork, TypeSubnet:
		if _, err := netip.ParsePrefix(p.CIDR); err != nil {
			return errorf(InvalidParameter, "%q is not a CIDR range", p.CIDR)
		}
		if t == TypeSubnet && p.Network == "" {
			return errorf(InvalidParameter, "a subnet needs a network")
		}
	case TypeCluster:
		if len(p.Subnets) == 0 || p.Role == "" {
			return errorf(InvalidParameter, "a cluster needs a subnet and a role")
		}
	case TypeRole, TypeBucket:
	default:
		return errorf(InvalidParameter, "unknown type %q", t)
	}
	return nil
}

// State is the state of a resource. A state that takes no time is not visible.
type State string

// The states.
const (
	Creating State = "CREATING"
	Active   State = "ACTIVE"
	Updating State = "UPDATING"
	Deleting State = "DELETING"
	Failed   State = "FAILED"
)

// isBusy reports whether an operation is running on the resource.
func (s State) isBusy() bool { return s == Creating || s == Updating || s == Deleting }

// Resource is a resource as calls return it. It is a copy.
type Resource struct {
	Key
	// Serial is the number of the resource in order of creation. It distinguishes resources
	// that have the same ID one after the other.
	Serial int64             `json:"serial"`
	Tags   map[string]string `json:"tags,omitempty"`
	// Properties are the current properties. An update sets them at its end.
	Properties Properties `json:"properties"`
	State      State      `json:"state"`
	// Message is why the resource is FAILED.
	Message string    `json:"message,omitempty"`
	Created time.Time `json:"created"`
	// Endpoint and Certificate are the address of an ACTIVE cluster, and a placeholder for its
	// certificate. URL is the address of a bucket.
	Endpoint    string `json:"endpoint,omitempty"`
	Certificate string `json:"certificate,omitempty"`
	URL         string `json:"url,omitempty"`
}

func (r Resource) clone() Resource {
	r.Tags, r.Properties = maps.Clone(r.Tags), r.Properties.clone()
	return r
}

// hasTags reports whether the resource has all of the tags.
func (r Resource) hasTags(wanted map[string]string) bool {
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

// Status is the status of an operation.
type Status string

// The statuses. Succeeded and FailedOperation are final.
const (
	Running         Status = "Running"
	Succeeded       Status = "Succeeded"
	FailedOperation Status = "Failed"
)

// Operation is an asynchronous operation.
type Operation struct {
	// ID identifies it until a day after its end.
	ID   string `json:"id"`
	Verb Verb   `json:"verb"`
	// Resource is the key of the resource, which is known from the start of a create.
	Resource Key    `json:"resource"`
	Status   Status `json:"status"`
	// Error is why it has failed; otherwise nil.
	Error *Error `json:"error,omitempty"`
	// RetryAfter is when to poll again; 0 if it is done.
	RetryAfter time.Duration `json:"-"`
}

// Done reports whether the operation has succeeded or failed.
func (o Operation) Done() bool { return o.Status != Running }
