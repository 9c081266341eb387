package conformance

import (
	"strings"

	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

// plan is what a life is played under.
type plan struct {
	// set are the policies, by their first letters; "*" for all and "" for none.
	set string
	// planted says that the external resource is there already, and named.
	planted bool
}

var everything = plan{set: "*"}

// plans are the fifteen legal sets of policies. Those that don't create are played with
// nothing there, and with a resource that is.
func (tr *trial) plans() []plan {
	sets := []string{"", "*", "O", "OC", "OU", "OD", "OL", "OCU", "OCD", "OCL", "OUL", "OCUD", "OCUL", "OCDL", "OCUDL"}
	if tr.short {
		sets = []string{"*", "OU", "OC", "OCUD"}
	}
	var out []plan
	for _, set := range sets {
		p := plan{set: set}
		out = append(out, p)
		if set != "" && !p.creates() {
			out = append(out, plan{set, true})
		}
	}
	return out
}

func (p plan) creates() bool { return strings.ContainsAny(p.set, "*C") }
func (p plan) updates() bool { return strings.ContainsAny(p.set, "*U") }
func (p plan) deletes() bool { return strings.ContainsAny(p.set, "*D") }
func (p plan) paused() bool  { return p.set == "" }

// has says that there is to be an external resource.
func (p plan) has() bool { return p.planted || p.creates() }

// policies is the field of spec.
func (p plan) policies() []any {
	out := []any{}
	for _, letter := range p.set {
		out = append(out, string(map[rune]resource.Action{
			'*': resource.ActionAll, 'O': resource.ActionObserve, 'C': resource.ActionCreate, 'U': resource.ActionUpdate,
			'D': resource.ActionDelete, 'L': resource.ActionLateInitialize,
		}[letter]))
	}
	return out
}

// where says so in words.
func (p plan) where() string {
	text := "Under the policies " + p.set
	switch {
	case p.set == "*":
		text = "Under all policies"
	case p.paused():
		text = "Under an empty list of policies"
	}
	if p.planted {
		text += ", with a resource that is there"
	}
	return text
}
