package conformance

import (
	"strings"

	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

// policySet is a set of management policies to test, and whether the external resource exists
// before.
type policySet struct {
	// letters are the first letters of the policies; "*" for all and "" for none.
	letters string
	// preexisting: the external resource exists, and the annotation names it.
	preexisting bool
}

var allPolicies = policySet{letters: "*"}

// policySets are the fifteen valid sets. Those without Create are tested both without an
// external resource and with an existing one.
func (r *runner) policySets() []policySet {
	valid := []string{"", "*", "O", "OC", "OU", "OD", "OL", "OCU", "OCD", "OCL", "OUL", "OCUD", "OCUL", "OCDL", "OCUDL"}
	if r.short {
		valid = []string{"*", "OU", "OC", "OCUD"}
	}
	var out []policySet
	for _, letters := range valid {
		p := policySet{letters: letters}
		out = append(out, p)
		if letters != "" && !p.allowsCreate() {
			out = append(out, policySet{letters, true})
		}
	}
	return out
}

func (p policySet) allowsCreate() bool { return strings.ContainsAny(p.letters, "*C") }
func (p policySet) allowsUpdate() bool { return strings.ContainsAny(p.letters, "*U") }
func (p policySet) allowsDelete() bool { return strings.ContainsAny(p.letters, "*D") }
func (p policySet) isPaused() bool     { return p.letters == "" }

// wantsResource reports whether the external resource exists until the object is deleted.
func (p policySet) wantsResource() bool { return p.preexisting || p.allowsCreate() }

// field is the value of spec.managementPolicies.
func (p policySet) field() []any {
	out := []any{}
	for _, letter := range p.letters {
		out = append(out, string(map[rune]resource.Action{
			'*': resource.ActionAll, 'O': resource.ActionObserve, 'C': resource.ActionCreate, 'U': resource.ActionUpdate,
			'D': resource.ActionDelete, 'L': resource.ActionLateInitialize,
		}[letter]))
	}
	return out
}

// String describes the set in findings.
func (p policySet) String() string {
	text := "Under the policies " + p.letters
	switch {
	case p.letters == "*":
		text = "Under all policies"
	case p.isPaused():
		text = "Under an empty list of policies"
	}
	if p.preexisting {
		text += ", with an existing external resource"
	}
	return text
}
