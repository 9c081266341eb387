package cloud

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
)

// Properties are what a resource is asked to be: a [Network], [Subnet], [Role],
// [Cluster] or [Bucket], by value.
type Properties interface {
	// Type is the type of the resources that have such properties.
	Type() Type
	// check refuses what is wrong whatever else there is.
	check() error
	// needs lists what the properties refer to, in the order of the fields.
	needs() []need
	// fixed names the first field that differs and may not; "" for none. The others are
	// of the same type.
	fixed(old Properties) string
	clone() Properties
}

// need is a reference to a resource of the same scope, by ID.
type need struct {
	field string
	kind  Type
	id    string
}

// Network is a range of addresses.
type Network struct {
	// CIDR is the range, as "10.0.0.0/16". It may change as long as it holds the
	// network's subnets.
	CIDR string `json:"cidr"`
}

// Subnet is a part of a network. Those of one network don't overlap.
type Subnet struct {
	// Network is the ID of the network. It can't be changed.
	Network string `json:"network"`
	// CIDR is the part of its range. It can't be changed.
	CIDR string `json:"cidr"`
	// Public says that the subnet is reached from outside.
	Public bool `json:"public,omitempty"`
}

// Role is who somebody may be, and what that allows.
type Role struct {
	// Trust is who may take the role, as "cluster.sandbox".
	Trust string `json:"trust"`
	// Policies name what the role allows; none twice.
	Policies []string `json:"policies,omitempty"`
}

// Cluster runs on nodes in subnets, as a role.
type Cluster struct {
	// Subnets are the IDs of at least one subnet, none twice, all of one network.
	Subnets []string `json:"subnets"`
	// Role is the ID of a role. It can't be changed.
	Role string `json:"role"`
	// Nodes is how many nodes there are, from 0 to 1000.
	Nodes int `json:"nodes,omitempty"`
}

// Bucket holds objects.
type Bucket struct {
	// Versioning keeps what is overwritten.
	Versioning bool `json:"versioning,omitempty"`
	// Public lets everybody read.
	Public bool `json:"public,omitempty"`
}

// Type is TypeNetwork.
func (Network) Type() Type { return TypeNetwork }

// Type is TypeSubnet.
func (Subnet) Type() Type { return TypeSubnet }

// Type is TypeRole.
func (Role) Type() Type { return TypeRole }

// Type is TypeCluster.
func (Cluster) Type() Type { return TypeCluster }

// Type is TypeBucket.
func (Bucket) Type() Type { return TypeBucket }

func (n Network) check() error { return checkCIDR(n.CIDR) }

func (s Subnet) check() error {
	if err := checkID("properties.network", s.Network); err != nil {
		return err
	}
	return checkCIDR(s.CIDR)
}

func (r Role) check() error {
	if r.Trust == "" {
		return invalid("properties.trust", "somebody has to be trusted")
	}
	if err := checkText("properties.trust", r.Trust, 256); err != nil {
		return err
	}
	return checkSet("properties.policies", r.Policies)
}

func (c Cluster) check() error {
	if len(c.Subnets) == 0 {
		return invalid("properties.subnets", "at least one is needed")
	}
	if err := checkSet("properties.subnets", c.Subnets); err != nil {
		return err
	}
	for _, id := range c.Subnets {
		if err := checkID("properties.subnets", id); err != nil {
			return err
		}
	}
	if err := checkID("properties.role", c.Role); err != nil {
		return err
	}
	if c.Nodes < 0 || c.Nodes > 1000 {
		return invalid("properties.nodes", "%d is not between 0 and 1000", c.Nodes)
	}
	return nil
}

func (Bucket) check() error { return nil }

func (Network) needs() []need  { return nil }
func (s Subnet) needs() []need { return []need{{"properties.network", TypeNetwork, s.Network}} }
func (Role) needs() []need     { return nil }
func (Bucket) needs() []need   { return nil }

func (c Cluster) needs() []need {
	var out []need
	for _, id := range c.Subnets {
		out = append(out, need{"properties.subnets", TypeSubnet, id})
	}
	return append(out, need{"properties.role", TypeRole, c.Role})
}

func (Network) fixed(Properties) string { return "" }
func (Role) fixed(Properties) string    { return "" }
func (Bucket) fixed(Properties) string  { return "" }

func (s Subnet) fixed(old Properties) string {
	switch old := old.(Subnet); {
	case s.Network != old.Network:
		return "properties.network"
	case s.CIDR != old.CIDR:
		return "properties.cidr"
	}
	return ""
}

func (c Cluster) fixed(old Properties) string {
	if c.Role != old.(Cluster).Role {
		return "properties.role"
	}
	return ""
}

func (n Network) clone() Properties { return n }
func (s Subnet) clone() Properties  { return s }
func (b Bucket) clone() Properties  { return b }

func (r Role) clone() Properties {
	r.Policies = append([]string(nil), r.Policies...) // none are none, in memory as on disk
	return r
}

func (c Cluster) clone() Properties {
	c.Subnets = slices.Clone(c.Subnets)
	return c
}

// prefix is the range that a CIDR says; none if it says none.
func prefix(cidr string) netip.Prefix {
	p, _ := netip.ParsePrefix(cidr) // an error gives the zero range, which holds nothing
	return p
}

func checkCIDR(cidr string) error {
	switch p, err := netip.ParsePrefix(cidr); {
	case err != nil:
		return invalid("properties.cidr", "%q is no range of addresses", cidr)
	case p != p.Masked():
		return invalid("properties.cidr", "%s has bits of a host; the range is %s", cidr, p.Masked())
	}
	return nil
}

// checkSet refuses empty members and those that come twice.
func checkSet(field string, members []string) error {
	for i, m := range members {
		if m == "" {
			return invalid(field, "number %d is empty", i+1)
		}
		if slices.Contains(members[:i], m) {
			return invalid(field, "%q comes twice", m)
		}
		if err := checkText(field, m, 256); err != nil {
			return err
		}
	}
	return nil
}

// box carries properties through JSON, as an object whose one field says the type:
// {"network": {"cidr": "10.0.0.0/16"}}.
type box struct{ Properties }

// IsZero says that the box is empty.
func (b box) IsZero() bool { return b.Properties == nil }

// MarshalJSON writes null for an empty box.
func (b box) MarshalJSON() ([]byte, error) {
	if b.IsZero() {
		return []byte("null"), nil
	}
	return json.Marshal(map[Type]Properties{b.Type(): b.Properties})
}

// UnmarshalJSON reads what MarshalJSON has written.
func (b *box) UnmarshalJSON(data []byte) error {
	var found map[Type]json.RawMessage
	if err := json.Unmarshal(data, &found); err != nil || found == nil {
		return err
	}
	if len(found) != 1 {
		return errors.New("properties need exactly one type")
	}
	for kind, raw := range found {
		read, ok := readers[kind]
		if !ok {
			return fmt.Errorf("no type %q", kind)
		}
		p, err := read(raw)
		b.Properties = p
		return err
	}
	return nil
}

var readers = map[Type]func([]byte) (Properties, error){
	TypeNetwork: read[Network], TypeSubnet: read[Subnet], TypeRole: read[Role], TypeCluster: read[Cluster], TypeBucket: read[Bucket],
}

func read[P Properties](raw []byte) (Properties, error) {
	var p P
	err := json.Unmarshal(raw, &p)
	return p, err
}

// packed takes a copy of what a caller hands in. Pointers are refused: what they
// point at could change later.
func packed(p Properties) (box, error) {
	switch p := p.(type) {
	case Network, Subnet, Role, Cluster, Bucket:
		return box{p.clone()}, nil
	case nil:
		return box{}, nil
	}
	return box{}, invalid("properties", "%T is none of Network, Subnet, Role, Cluster and Bucket, by value", p)
}
