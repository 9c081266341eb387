package cloud

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

var (
	scopes = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(/[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)
	ids    = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)
)

// checkCreate refuses a create for what it says itself.
func (w *world) checkCreate(q request) error {
	if !scopes.MatchString(q.Key.Scope) || len(q.Key.Scope) > 128 {
		return invalid("scope", "%q is no words of small letters, digits and dashes with slashes between them", q.Key.Scope)
	}
	if w.behaviour(q.Key.Type).callerNames() {
		if err := checkID("name", q.Name); err != nil {
			return err
		}
	} else if err := checkText("name", q.Name, 256); err != nil {
		return err
	}
	if err := w.checkTags(q, nil); err != nil {
		return err
	}
	if err := checkToken(q.Token); err != nil {
		return err
	}
	return q.Properties.check()
}

// checkUpdate refuses an update for what it says itself, given the resource.
func (w *world) checkUpdate(q request, r row) error {
	if err := checkToken(q.Token); err != nil {
		return err
	}
	if q.Retags {
		if err := w.checkTags(q, &r); err != nil {
			return err
		}
	}
	return checkSuccessor(q.Properties, r)
}

// checkSuccessor refuses properties that the resource can't have next.
func checkSuccessor(next box, r row) error {
	if next.IsZero() {
		return nil
	}
	if next.Type() != r.Type {
		return invalid("properties", "are those of a %s, not of a %s", next.Type(), r.Type)
	}
	if err := next.check(); err != nil {
		return err
	}
	if field := next.fixed(r.Properties.Properties); field != "" {
		return invalid(field, "can't be changed")
	}
	return nil
}

// checkTags refuses tags that a resource can't carry: a new one, if none is given.
func (w *world) checkTags(q request, r *row) error {
	behaviour := w.behaviour(q.Key.Type)
	if behaviour.Tags == TagsNone && len(q.Tags) > 0 {
		return invalid("tags", "a %s has none", q.Key.Type)
	}
	if r != nil && behaviour.TagsFixed && !maps.Equal(r.Tags, q.Tags) {
		return invalid("tags", "are set when a %s is created, and not later", q.Key.Type)
	}
	return checkTags(q.Tags)
}

func checkTags(tags map[string]string) error {
	if len(tags) > 50 {
		return invalid("tags", "there are %d, and at most 50 may be", len(tags))
	}
	for _, k := range slices.Sorted(maps.Keys(tags)) {
		if k == "" {
			return invalid("tags", "one has no key")
		}
		if err := cmp.Or(checkText("tags", k, 128), checkText("tags", tags[k], 256)); err != nil {
			return err
		}
	}
	return nil
}

func checkID(field, id string) error {
	if len(id) > 63 || !ids.MatchString(id) {
		return invalid(field, "%q is not 1 to 63 small letters, digits and dashes with a letter or digit at both ends", id)
	}
	return nil
}

func checkToken(token string) error { return checkText("token", token, 64) }

// checkText refuses what is too long, and what JSON couldn't keep as it is.
func checkText(field, text string, limit int) error {
	if len(text) > limit || !utf8.ValidString(text) {
		return invalid(field, "%q has more than %d bytes or is no UTF-8", text, limit)
	}
	return nil
}

// fits refuses properties that don't go with what else there is. What the resource
// refers to already, by its old properties, need not be in order.
func (w *world) fits(k Key, b, old box) error {
	for _, n := range b.needs() {
		needed := Key{n.kind, k.Scope, n.id}
		if !old.IsZero() && refersTo(old, needed) {
			continue
		}
		switch r, ok := w.resources.rows[needed.id()]; {
		case !ok:
			e := refuse(NotFound, "there is no %s", needed)
			e.Field = n.field
			return e
		case !r.State.usable():
			e := refuse(InvalidState, "%s is %s", needed, r.State)
			e.Field = n.field
			return e
		}
	}
	switch p := b.Properties.(type) {
	case Network:
		return w.holds(k, p)
	case Subnet:
		return w.within(k, p)
	case Cluster:
		return w.together(k, p)
	}
	return nil
}

// holds refuses a network that hasn't room for its subnets.
func (w *world) holds(k Key, p Network) error {
	var out []Key
	for _, r := range w.resources.rows {
		if s, ok := r.Properties.Properties.(Subnet); ok && r.Scope == k.Scope && s.Network == k.ID && !holds(p.CIDR, s.CIDR) {
			out = append(out, r.Key)
		}
	}
	if len(out) == 0 {
		return nil
	}
	slices.SortFunc(out, Key.Compare)
	return violates(out, "%s doesn't hold all subnets", p.CIDR)
}

// within refuses a subnet that isn't in its network, as that is and as it will be, or
// overlaps another.
func (w *world) within(k Key, p Subnet) error {
	network := w.resources.rows[Key{TypeNetwork, k.Scope, p.Network}.id()]
	for _, b := range []box{network.Properties, network.Next} {
		if n, ok := b.Properties.(Network); ok && !holds(n.CIDR, p.CIDR) {
			return invalid("properties.cidr", "%s is not in %s of %s", p.CIDR, n.CIDR, network.Key)
		}
	}
	var out []Key
	for _, r := range w.resources.rows {
		s, ok := r.Properties.Properties.(Subnet)
		if ok && r.Scope == k.Scope && s.Network == p.Network && r.Key != k && prefix(s.CIDR).Overlaps(prefix(p.CIDR)) {
			out = append(out, r.Key)
		}
	}
	if len(out) > 0 {
		slices.SortFunc(out, Key.Compare)
		return invalid("properties.cidr", "%s overlaps %s", p.CIDR, out[0])
	}
	return nil
}

// together refuses a cluster whose subnets are of several networks.
func (w *world) together(k Key, p Cluster) error {
	network := ""
	for _, id := range p.Subnets {
		s, _ := w.resources.rows[Key{TypeSubnet, k.Scope, id}.id()].Properties.Properties.(Subnet)
		if network == "" {
			network = s.Network
		}
		if s.Network != network {
			return invalid("properties.subnets", "%s is of network %s, and %s of another", p.Subnets[0], network, id)
		}
	}
	return nil
}

// holds says whether a range of addresses is part of another.
func holds(outer, inner string) bool {
	o, i := prefix(outer), prefix(inner)
	return o.IsValid() && i.IsValid() && o.Bits() <= i.Bits() && o.Contains(i.Addr())
}

// violates refuses because of others, and names them.
func violates(users []Key, format string, args ...any) *Error {
	e := refuse(DependencyViolation, format, args...)
	names := make([]string, len(users))
	for i, k := range users {
		names[i] = k.String()
	}
	e.Message += ": " + strings.Join(names, ", ")
	e.Dependants = users
	return e
}
