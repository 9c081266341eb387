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

// TestFifteenSetsOfSixtyFourAreLegal goes through every set of the six actions.
func TestFifteenSetsOfSixtyFourAreLegal(t *testing.T) {
	want := strings.Fields("* O OC OU OD OL OCU OCD OCL OUL OCUD OCUL OCDL OCUDL")
	legal, refused := 0, 0
	for bits := range 64 {
		var text string
		for i, r := range "*OCUDL" {
			if bits&(1<<i) != 0 {
				text += string(r)
			}
		}
		err := set(text).Validate()
		if isLegal := text == "" || slices.Contains(want, text); isLegal != (err == nil) {
			t.Errorf("%q: %v", text, err)
		}
		if err != nil {
			refused++
			if len(err.Error()) < 60 {
				t.Errorf("%q: the refusal doesn't say what to do: %v", text, err)
			}
			continue
		}
		legal++
		if reversed := []rune(text); len(reversed) > 1 {
			slices.Reverse(reversed)
			if err := set(string(reversed)).Validate(); err != nil {
				t.Errorf("the order counts in %q: %v", text, err)
			}
		}
	}
	if legal != 15 || refused != 49 {
		t.Errorf("%d are legal, %d refused", legal, refused)
	}
	if err := (resource.Policies{"Destroy"}).Validate(); err == nil || !strings.Contains(err.Error(), "Destroy") {
		t.Errorf("what is no action: %v", err)
	}
}

func TestWhatPoliciesAllow(t *testing.T) {
	none := resource.Policies(nil)
	cases := map[string]struct {
		policies          resource.Policies
		paused, exclusive bool
		allowed           string
	}{
		"Left out, all":        {none, false, true, "OCUDL"},
		"All":                  {set("*"), false, true, "OCUDL"},
		"An empty list pauses": {set(""), true, false, ""},
		"Observing is shared":  {set("OL"), false, false, "OL"},
		"So is updating":       {set("OUL"), false, false, "OUL"},
		"Creating is not":      {set("OC"), false, true, "OC"},
		"Nor is deleting":      {set("OD"), false, true, "OD"},
	}
	for name, tc := range cases {
		var allowed string
		for _, r := range "OCUDL" {
			if tc.policies.Allow(letters[r]) {
				allowed += string(r)
			}
		}
		if allowed != tc.allowed || tc.policies.Paused() != tc.paused || tc.policies.Exclusive() != tc.exclusive {
			t.Errorf("%s: allowed %q, paused %t, exclusive %t", name, allowed, tc.policies.Paused(), tc.policies.Exclusive())
		}
	}
}

func TestWhoDecidesOfDeletion(t *testing.T) {
	cases := map[string]struct {
		policies resource.Policies
		legacy   resource.DeletionPolicy
		want     bool
	}{
		"By default it is deleted":                     {nil, "", true},
		"All and Delete":                               {set("*"), resource.DeletionDelete, true},
		"The older policy decides against the default": {set("*"), resource.DeletionOrphan, false},
		"Left out counts as the default":               {nil, resource.DeletionOrphan, false},
		"Without the action it stays":                  {set("OCU"), resource.DeletionDelete, false},
		"An explicit action goes before Orphan":        {set("OCUD"), resource.DeletionOrphan, true},
		"Neither":                                      {set("O"), resource.DeletionOrphan, false},
	}
	for name, tc := range cases {
		if got := resource.Deletes(tc.policies, tc.legacy); got != tc.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
