package registry

import (
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
)

// Keychain has the credentials of Secrets, for registries and for repositories in them.
type Keychain struct {
	entries []entry
}

// entry is for a registry, which may be a pattern such as *.example.org, and what is below a path in it.
type entry struct {
	registry, path string
	auth           authn.AuthConfig
}

// NewKeychain parses the data of Secrets of the types kubernetes.io/dockerconfigjson and kubernetes.io/dockercfg. Errors name no data.
func NewKeychain(secrets ...map[string][]byte) (*Keychain, error) {
	k := &Keychain{}
	for _, data := range secrets {
		var file struct {
			Auths map[string]authn.AuthConfig `json:"auths"`
		}
		var err error
		if raw, has := data[".dockerconfigjson"]; has {
			err = json.Unmarshal(raw, &file)
		} else if raw, has := data[".dockercfg"]; has {
			err = json.Unmarshal(raw, &file.Auths)
		} else {
			return nil, errors.New("the Secret has no .dockerconfigjson")
		}
		if err != nil {
			return nil, errors.New("the Secret has credentials that cannot be read: its .dockerconfigjson is not the configuration of docker login")
		}
		for key, auth := range file.Auths {
			k.add(key, auth)
		}
	}
	slices.SortStableFunc(k.entries, func(a, b entry) int { // the most specific first
		if a.path != b.path {
			return len(b.path) - len(a.path)
		}
		return strings.Count(a.registry, "*") - strings.Count(b.registry, "*")
	})
	return k, nil
}

func (k *Keychain) add(key string, auth authn.AuthConfig) {
	key = strings.TrimPrefix(strings.TrimPrefix(key, "https://"), "http://")
	registry, below, _ := strings.Cut(strings.TrimSuffix(key, "/"), "/")
	switch below { // as docker login writes it
	case "v1", "v2":
		below = ""
	}
	if registry == "docker.io" || registry == "registry-1.docker.io" {
		registry = "index.docker.io"
	}
	k.entries = append(k.entries, entry{strings.ToLower(registry), below, auth})
}

// Resolve implements authn.Keychain: it returns the credentials for the longest path that a repository is in.
func (k *Keychain) Resolve(target authn.Resource) (authn.Authenticator, error) {
	registry := strings.ToLower(target.RegistryStr())
	_, repository, _ := strings.Cut(target.String(), "/")
	for _, e := range k.entries {
		if matchesRegistry(e.registry, registry) && (e.path == "" || repository == e.path || strings.HasPrefix(repository, e.path+"/")) {
			return authn.FromConfig(e.auth), nil
		}
	}
	return authn.Anonymous, nil
}

// matchesRegistry compares label by label, so a * stands for one label.
func matchesRegistry(pattern, registry string) bool {
	if !strings.Contains(pattern, "*") {
		return pattern == registry
	}
	want, got := strings.Split(pattern, "."), strings.Split(registry, ".")
	for i := range want {
		if len(want) != len(got) {
			return false
		}
		if ok, err := path.Match(want[i], got[i]); err != nil || !ok {
			return false
		}
	}
	return true
}

var _ fmt.Stringer = (*Keychain)(nil)

// String hides the credentials.
func (k *Keychain) String() string { return fmt.Sprintf("%d credentials", len(k.entries)) }
