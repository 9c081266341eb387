package cloud

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
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

// Types lists them all.
func Types() []Type { return []Type{TypeNetwork, TypeSubnet, TypeRole, TypeCluster, TypeBucket} }

func (t Type) known() bool { return slices.Contains(Types(), t) }

// prefix is what an ID begins with that the cloud has assigned.
func (t Type) prefix() string {
	return map[Type]string{TypeNetwork: "net", TypeSubnet: "subnet", TypeRole: "role", TypeCluster: "cluster", TypeBucket: "bucket"}[t]
}

// Key is a resource's address: no two resources have the same one at the same time.
type Key struct {
	Type Type `json:"type"`
	// Scope is where the resource is and whose, as "eu-north-1/dev". Resources see
	// those of their own scope only.
	Scope string `json:"scope"`
	// ID is the resource's name where callers assign names, else what the cloud has
	// assigned.
	ID string `json:"id"`
}

// String is the key for people, as "subnet eu-north-1/dev/subnet-00000002".
func (k Key) String() string { return string(k.Type) + " " + k.Scope + "/" + k.ID }

// id is the key as the one of a table. What no scope and no ID may hold parts them, so
// that no wrong key finds anything.
func (k Key) id() string { return string(k.Type) + " " + k.Scope + ":" + k.ID }

// Compare orders keys by type, scope and ID.
func (k Key) Compare(other Key) int {
	return cmp.Or(cmp.Compare(k.Type, other.Type), cmp.Compare(k.Scope, other.Scope), cmp.Compare(k.ID, other.ID))
}

// State is where a resource is in its life. It begins with Creating, and goes
//
//	CREATING  to ACTIVE or FAILED
//	ACTIVE    to UPDATING or DELETING
//	UPDATING  to ACTIVE or FAILED
//	FAILED    to UPDATING or DELETING
//	DELETING  to FAILED, or is gone
//
// Only an [Admin] makes a resource vanish from any other state. A step that takes no
// time isn't seen.
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

// usable says that others may be built on the resource.
func (s State) usable() bool { return s == Active || s == Updating }

// Outputs is what the cloud adds to what it was asked for, once a resource is ACTIVE.
type Outputs struct {
	// Endpoint is where a cluster's API is served: an HTTPS URL.
	Endpoint string `json:"endpoint,omitempty"`
	// Certificate is the one that a cluster's endpoint would be served with, as PEM. It
	// is real, signed by itself, and its key is thrown away.
	Certificate string `json:"certificate,omitempty"`
	// URL is where a bucket's objects are.
	URL string `json:"url,omitempty"`
	// Objects is how many objects a bucket holds.
	Objects int `json:"objects,omitempty"`
}

// Resource is a resource as a call shows it. It is the caller's own copy.
type Resource struct {
	Key
	// Name is what the caller has called it: its ID where callers assign names, else a
	// text that may be empty and that others may have as well.
	Name string `json:"name,omitempty"`
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
	// Version changes with everything that is shown here; it is opaque, and never
	// comes back, not even with another resource of the same ID.
	Version string  `json:"version"`
	Outputs Outputs `json:"outputs,omitzero"`
}

// row is a resource as the cloud keeps it. What it refers to is never changed in
// place, so that rows may be copied by assignment.
type row struct {
	Key
	Name       string            `json:"name,omitempty"`
	Serial     int64             `json:"serial"`
	Tags       map[string]string `json:"tags,omitempty"`
	Properties box               `json:"properties"`
	State      State             `json:"state"`
	Message    string            `json:"message,omitempty"`
	Created    time.Time         `json:"created"`
	Revision   int64             `json:"revision"`
	Outputs    Outputs           `json:"outputs,omitzero"`
	// Visible is when reads begin to show it.
	Visible time.Time `json:"visible"`
	// Operation is the number of the operation that works on it, 0 for none.
	Operation int64 `json:"operation,omitempty"`
	// Next is what the running update makes of the properties; it holds nothing if
	// there is none.
	Next box `json:"next,omitzero"`
}

func (r row) id() string { return r.Key.id() }

func (r row) version() string {
	return strconv.FormatInt(r.Serial, 10) + "." + strconv.FormatInt(r.Revision, 10)
}

func (r row) view() Resource {
	return Resource{
		Key: r.Key, Name: r.Name, Serial: r.Serial, Tags: maps.Clone(r.Tags), Properties: r.Properties.clone(),
		State: r.State, Message: r.Message, Created: r.Created, Version: r.version(), Outputs: r.Outputs,
	}
}

// copied takes a copy of tags. None are none, in memory as on disk.
func copied(tags map[string]string) map[string]string {
	if len(tags) == 0 {
		return nil
	}
	return maps.Clone(tags)
}
