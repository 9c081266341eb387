package registry

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
)

func TestKeychain(t *testing.T) {
	config := `{"auths": {
		"registry.example.org": {"username": "all", "password": "p"},
		"registry.example.org/team": {"username": "team", "password": "p"},
		"https://registry.example.org/team/network/": {"auth": "bmV0d29yazpw"},
		"*.example.net": {"username": "pattern", "password": "p"},
		"eu.example.net": {"username": "exact", "password": "p"},
		"registry.example.com:5000": {"identitytoken": "token"},
		"https://index.docker.io/v1/": {"username": "docker", "password": "p"}}}`
	keychain, err := NewKeychain(map[string][]byte{".dockerconfigjson": []byte(config)}, map[string][]byte{".dockercfg": []byte(`{"old.example.org": {"username": "old", "password": "p"}}`)})
	if err != nil {
		t.Fatal(err)
	}
	for repository, want := range map[string]string{
		"registry.example.org/other":         "all",
		"registry.example.org/team":          "team",
		"registry.example.org/team/database": "team",
		"registry.example.org/teams/a":       "all",
		"registry.example.org/team/network":  "network",
		"us.example.net/a":                   "pattern",
		"eu.example.net/a":                   "exact",
		"a.b.example.net/a":                  "",
		"registry.example.com:5000/a":        "token",
		"registry.example.com/a":             "",
		"docker.io/library/a":                "docker",
		"old.example.org/a":                  "old",
	} {
		target, err := name.NewRepository(repository)
		if err != nil {
			t.Fatal(err)
		}
		found, err := keychain.Resolve(target)
		if err != nil {
			t.Fatal(err)
		}
		got, err := found.Authorization()
		if err != nil || got.Username+got.IdentityToken != want {
			t.Errorf("%s: %+v, %v", repository, got, err)
		}
	}
	if shown := fmt.Sprintf("%v %s", keychain, keychain); strings.Contains(shown, "all") {
		t.Errorf("credentials are shown: %s", shown)
	}
}

func TestASecretThatCannotBeRead(t *testing.T) {
	for name, data := range map[string]map[string][]byte{"no key": {"password": []byte("hidden")}, "no JSON": {".dockerconfigjson": []byte(`{"hidden`)}, "no base64": {".dockerconfigjson": []byte(`{"auths": {"a.example.org": {"auth": "hidden!"}}}`)}} {
		if _, err := NewKeychain(data); err == nil || strings.Contains(err.Error(), "hidden") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
