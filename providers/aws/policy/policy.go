// Package policy computes the IAM policies that credentials of a provider configuration need for a set of resource
// types. The types come in; policy documents within AWS's limits go out, with notes for the user who attaches them.
//
// Pure: it decides from values alone.
package policy

import (
	"encoding/json"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/espalier-dev/espalier/providers/aws/hook/schema"
	"github.com/espalier-dev/espalier/providers/aws/resourcetype"
)

// MaxSize is how many characters a managed policy of IAM may have; white space does not count.
const MaxSize = 6144

// MaxAttached is how many managed policies can be attached to a role, unless AWS raises the quota.
const MaxAttached = 10

// account is the action of the Security Token Service that tells the account.
const account = "sts:GetCallerIdentity"

// cloudControl are the actions of the Cloud Control API, which belong to CloudFormation in IAM.
var cloudControl = []string{
	"cloudformation:CancelResourceRequest", "cloudformation:CreateResource", "cloudformation:DeleteResource", "cloudformation:GetResource",
	"cloudformation:GetResourceRequestStatus", "cloudformation:ListResourceRequests", "cloudformation:ListResources", "cloudformation:UpdateResource",
}

// search is the action of the Resource Groups Tagging API, which finds a lost resource quickly.
const search = "tag:GetResources"

// passRole is in a statement of its own, in order to be restricted to the roles that may be passed: with all
// roles it grants what they may do.
const passRole = "iam:PassRole"

// Document is a policy document.
type Document struct {
	Version   string
	Statement []Statement
}

// Statement allows actions.
type Statement struct {
	Sid      string
	Effect   string
	Action   []string
	Resource string
}

// Policies are documents that together allow what is needed.
type Policies struct {
	Documents []Document
	// Notes are for the user who attaches the documents.
	Notes []string
}

// Actions may contain wildcards.
var action = regexp.MustCompile(`^[a-z0-9-]+:[A-Za-z0-9*?]+$`)

// For returns the policies for types: what their handlers and hooks need, and what the provider itself needs. Equal sets
// of types have equal policies.
func For(types []*resourcetype.Type) Policies {
	var out Policies
	all := []string{account}
	unclear := map[string]bool{}
	for _, t := range types {
		if isHandled := slices.Contains(schema.Names(), t.Name); !isHandled {
			all = append(append(all, cloudControl...), search)
		}
		permissions := append(slices.Clone(OfHooks(t.Name)), t.Tagging.Permissions...)
		for _, handler := range t.Handlers {
			permissions = append(permissions, handler.Permissions...)
		}
		for _, text := range permissions {
			for _, one := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' || r == '\t' || r == '\n' }) {
				service, name, _ := strings.Cut(one, ":")
				if one = strings.ToLower(service) + ":" + name; action.MatchString(one) {
					all = append(all, one)
				} else {
					unclear[fmt.Sprintf("the schema of %s has the permission %q, which is not an action: it is left out", t.Name, one)] = true
				}
			}
		}
	}
	all = compact(all)
	passes := slices.Contains(all, passRole)
	all = slices.DeleteFunc(all, func(a string) bool { return a == passRole })
	out.Documents = split(all, passes)
	if n := len(out.Documents); n > 1 {
		note := fmt.Sprintf("the policy is split into %d documents, because a managed policy has at most %d characters: attach all of them", n, MaxSize)
		if n > MaxAttached {
			note += fmt.Sprintf(". A role can have %d managed policies, unless AWS raises the quota: use several provider configurations with fewer types each", MaxAttached)
		}
		out.Notes = append(out.Notes, note)
	}
	if passes {
		out.Notes = append(out.Notes, "the statement PassRole allows to pass all roles to services: replace its resource by the ARNs of the roles that may be passed")
	}
	for note := range unclear {
		out.Notes = append(out.Notes, note)
	}
	slices.Sort(out.Notes)
	return out
}

// It removes actions that other actions include. IAM ignores their case.
func compact(all []string) []string {
	slices.SortFunc(all, func(a, b string) int {
		if c := strings.Compare(strings.ToLower(a), strings.ToLower(b)); c != 0 {
			return c
		}
		return strings.Compare(a, b)
	})
	all = slices.CompactFunc(all, strings.EqualFold)
	var patterns []string
	for _, a := range all {
		if strings.ContainsAny(a, "*?") {
			patterns = append(patterns, strings.ToLower(a))
		}
	}
	return slices.DeleteFunc(all, func(a string) bool {
		lower := strings.ToLower(a)
		return slices.ContainsFunc(patterns, func(pattern string) bool {
			included, err := path.Match(pattern, lower)
			// Of two patterns that include each other, the first stays.
			return err == nil && included && pattern != lower
		})
	})
}

// split distributes sorted actions to documents that are not too large.
func split(all []string, passes bool) []Document {
	var out []Document
	current := document(nil, passes)
	for _, a := range all {
		longer := document(append(slices.Clone(current.Statement[0].Action), a), passes && len(out) == 0)
		if size(longer) > MaxSize {
			out = append(out, current)
			longer = document([]string{a}, false)
		}
		current = longer
	}
	return append(out, current)
}

func document(actions []string, passes bool) Document {
	d := Document{Version: "2012-10-17", Statement: []Statement{{Sid: "Espalier", Effect: "Allow", Action: actions, Resource: "*"}}}
	if passes {
		d.Statement = append(d.Statement, Statement{Sid: "PassRole", Effect: "Allow", Action: []string{passRole}, Resource: "*"})
	}
	return d
}

// size returns how many characters IAM counts.
func size(d Document) int {
	raw, err := json.Marshal(d)
	if err != nil {
		panic(err) // documents have strings only
	}
	return len(raw)
}

// JSON returns the document as text, with an action a line.
func (d Document) JSON() string {
	raw, err := json.MarshalIndent(d, "", "  ")
	if err != nil {
		panic(err) // documents have strings only
	}
	return string(raw) + "\n"
}
