package resourcetype

import (
	"maps"
	"slices"
	"strings"
)

// secretEndings end the names of properties that are secrets, in lower case.
var secretEndings = []string{
	"password", "passphrase", "secret", "token", "credential", "credentials", "privatekey", "secretkey", "accesskey",
	"sharedkey", "apikey", "apikeyvalue", "activationkey", "secretstring", "keytab", "hostkeybody",
}

// notSecret are names with such an ending that are no secrets, in lower case.
var notSecret = []string{"clienttoken", "creatorrequesttoken", "removeprivatekey"}

// IsSecret reports by its name whether the property at a path is a secret, such as MasterUserPassword.
func IsSecret(path Path) bool {
	if len(path) == 0 {
		return false
	}
	name := strings.ToLower(path[len(path)-1])
	return !slices.Contains(notSecret, name) &&
		slices.ContainsFunc(secretEndings, func(ending string) bool { return strings.HasSuffix(name, ending) })
}

// SecretPaths returns the properties that a resource can take from a Secret, sorted: strings that the schema lists as
// write-only, and strings below a write-only property with the name of a secret. Items of arrays and values of maps
// that are strings themselves are not among them, because these have no name.
func SecretPaths(t *Type) []Path {
	w := secretWalk{t: t, reachable: t.definitionsWithSecrets(), found: map[string]Path{}}
	for _, path := range t.WriteOnlyProperties {
		if Has(t.ReadOnlyProperties, path) {
			continue
		}
		for _, s := range t.At(path) {
			if len(path) > 0 && path[len(path)-1] != Any && isFreeString(s) {
				w.found[path.String()] = path
			}
			w.below(s, path, nil)
		}
	}
	return w.sorted()
}

// maxSecretDepth is how deep readable secrets are looked for, and maxSecrets how many there are of a type.
const (
	maxSecretDepth = 9
	maxSecrets     = 50
)

// ReadableSecretPaths returns the strings with the name of a secret that the schema does not list as write-only, so AWS
// may return them, sorted: only the upper levels' if there are many.
func ReadableSecretPaths(t *Type) []Path {
	w := secretWalk{
		t: t, reachable: t.definitionsWithSecrets(), found: map[string]Path{}, maxDepth: maxSecretDepth,
		skip: slices.Concat(t.WriteOnlyProperties, t.ReadOnlyProperties),
	}
	w.below(&t.Schema, nil, nil)
	out := w.sorted()
	slices.SortStableFunc(out, func(a, b Path) int { return len(a) - len(b) })
	out = out[:min(len(out), maxSecrets)]
	slices.SortFunc(out, comparePaths)
	return out
}

func comparePaths(a, b Path) int { return strings.Compare(a.String(), b.String()) }

type secretWalk struct {
	t *Type
	// reachable are the definitions below which there is a secret. Others are not walked, because the
	// definitions of some types lead to hundred thousands of paths.
	reachable map[*Schema]bool
	found     map[string]Path
	// skip are properties that are left out, and maxDepth is how deep properties are walked; 0 for any depth.
	skip     []Path
	maxDepth int
}

func (w *secretWalk) sorted() []Path {
	return slices.SortedFunc(maps.Values(w.found), comparePaths)
}

// It leaves out what is inside of itself.
func (w *secretWalk) below(s *Schema, path Path, above []*Schema) {
	if s = w.t.Resolve(s); s == nil || !w.reachable[s] || slices.Contains(above, s) || w.maxDepth > 0 && len(path) >= w.maxDepth {
		return
	}
	above = append(slices.Clip(above), s)
	for name, c := range w.t.children(s) {
		next := append(slices.Clip(path), name)
		if Has(w.skip, next) {
			continue
		}
		if isSecretLeaf(next, w.t.Resolve(c)) {
			w.found[next.String()] = next
		}
		w.below(c, next, above)
	}
	for _, alternative := range s.alternatives() {
		w.below(alternative, path, above)
	}
}

func (t *Type) definitionsWithSecrets() map[*Schema]bool {
	out := map[*Schema]bool{}
	for changed := true; changed; {
		changed = false
		visited := map[*Schema]bool{}
		var visit func(s *Schema) bool
		visit = func(s *Schema) bool {
			if s = t.Resolve(s); s == nil || out[s] || visited[s] {
				return out[s]
			}
			visited[s] = true
			found := false
			for name, c := range t.children(s) {
				found = isSecretLeaf(Path{name}, t.Resolve(c)) || found
				found = visit(c) || found
			}
			for _, alternative := range s.alternatives() {
				found = visit(alternative) || found
			}
			if found {
				out[s], changed = true, true
			}
			return found
		}
		visit(&t.Schema)
	}
	return out
}

func isSecretLeaf(path Path, s *Schema) bool { return s != nil && isFreeString(s) && IsSecret(path) }

func isFreeString(s *Schema) bool {
	return slices.Equal(s.Types, Types{"string"}) && len(s.Enum) == 0 && len(s.EnumCaseInsensitive) == 0 &&
		len(s.Const) == 0
}

// Items or values are under Any. Children of alternatives are left out.
func (t *Type) children(s *Schema) func(func(string, *Schema) bool) {
	return func(yield func(string, *Schema) bool) {
		for name, c := range s.Properties {
			if !yield(name, c) {
				return
			}
		}
		for _, c := range s.PatternProperties {
			if !yield(Any, c) {
				return
			}
		}
		if s.Items != nil && !yield(Any, s.Items) {
			return
		}
		if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
			yield(Any, s.AdditionalProperties.Schema)
		}
	}
}

func (s *Schema) alternatives() []*Schema { return slices.Concat(s.AllOf, s.AnyOf, s.OneOf) }
