package resource_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

var letters = map[rune]resource.Action{
	'*': resource.ActionAll, 'O': resource.ActionObserve, 'C': resource.ActionCreate,
	'U': resource.ActionUpdate, 'D': resource.ActionDelete, 'L': resource.ActionLateInitialize,
}

func set(text string) resource.Policies {
	out := resource.Policies{}
	for _, r := range text {
		out = append(out, letters[r])
	}
	return out
}

// TestFifteenSetsOfPoliciesAreValid validates each of the 64 sets of the six actions.
func TestFifteenSetsOfPoliciesAreValid(t *testing.T) {
	want := strings.Fields("* O OC OU OD OL OCU OCD OCL OUL OCUD OCUL OCDL OCUDL")
	valid, invalid := 0, 0
	for bits := range 64 {
		var text string
		for i, r := range "*OCUDL" {
			if bits&(1<<i) != 0 {
				text += string(r)
			}
		}
		err := set(text).Validate()
		if isValid := text == "" || slices.Contains(want, text); isValid != (err == nil) {
			t.Errorf("%q: %v", text, err)
		}
		if err != nil {
			invalid++
			if len(err.Error()) < 60 {
				t.Errorf("%q: the error does not say what to do: %v", text, err)
			}
			continue
		}
		valid++
		if reversed := []rune(text); len(reversed) > 1 {
			slices.Reverse(reversed)
			if err := set(string(reversed)).Validate(); err != nil {
				t.Errorf("the order matters in %q: %v", text, err)
			}
		}
	}
	if valid != 15 || invalid != 49 {
		t.Errorf("want 15 valid and 49 invalid sets, got %d and %d", valid, invalid)
	}
	if err := (resource.Policies{"Destroy"}).Validate(); err == nil || !strings.Contains(err.Error(), "Destroy") {
		t.Errorf("want an error about the unknown action, got %v", err)
	}
}

func TestPoliciesAllowTheirActions(t *testing.T) {
	none := resource.Policies(nil)
	cases := map[string]struct {
		policies          resource.Policies
		paused, exclusive bool
		allowed           string
	}{
		"nil allows all":           {none, false, true, "OCUDL"},
		"* allows all":             {set("*"), false, true, "OCUDL"},
		"an empty list pauses":     {set(""), true, false, ""},
		"Observe is not exclusive": {set("OL"), false, false, "OL"},
		"Update is not exclusive":  {set("OUL"), false, false, "OUL"},
		"Create is exclusive":      {set("OC"), false, true, "OC"},
		"Delete is exclusive":      {set("OD"), false, true, "OD"},
	}
	for name, tc := range cases {
		var allowed string
		for _, r := range "OCUDL" {
			if tc.policies.Allow(letters[r]) {
				allowed += string(r)
			}
		}
		if allowed != tc.allowed || tc.policies.Paused() != tc.paused || tc.policies.Exclusive() != tc.exclusive {
			t.Errorf("%s: got allowed %q, paused %t, exclusive %t", name, allowed, tc.policies.Paused(), tc.policies.Exclusive())
		}
	}
}

func TestPoliciesDecideAboutDeletion(t *testing.T) {
	cases := map[string]struct {
		policies resource.Policies
		legacy   resource.DeletionPolicy
		want     bool
	}{
		"the default deletes": {nil, "", true},
		"both delete":         {set("*"), resource.DeletionDelete, true},
		"Orphan applies against the default policies":              {set("*"), resource.DeletionOrphan, false},
		"nil counts as the default":                                {nil, resource.DeletionOrphan, false},
		"policies without Delete apply against the default Delete": {set("OCU"), resource.DeletionDelete, false},
		"an explicit Delete applies against Orphan":                {set("OCUD"), resource.DeletionOrphan, true},
		"none deletes": {set("O"), resource.DeletionOrphan, false},
	}
	for name, tc := range cases {
		if got := resource.Deletes(tc.policies, tc.legacy); got != tc.want {
			t.Errorf("%s: got %t", name, got)
		}
	}
}
