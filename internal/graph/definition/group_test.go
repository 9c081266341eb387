package definition

import "testing"

func TestGroupsOfNamespacedDefinitions(t *testing.T) {
	patterns := []string{"kro.run", "*.team.example.com"}
	for group, allowed := range map[string]bool{
		"kro.run": true, "a.team.example.com": true, "a.b.team.example.com": true,
		"a.kro.run": false, "team.example.com": false, "ateam.example.com": false, "cert-manager.io": false,
	} {
		if got := allowsGroup(patterns, group); got != allowed {
			t.Errorf("%s: got %t", group, got)
		}
	}
	for _, all := range [][]string{nil, {"kro.run", "*"}} {
		if !allowsGroup(all, "cert-manager.io") {
			t.Errorf("%v does not allow all", all)
		}
	}
}
