package manifest

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/espalier-dev/espalier/providers/aws/model"
)

// maxName is the length of names, so they can be values of labels.
const maxName = 63

// They are the same for the same resources, and different for objects of one kind. first is the name of the first one,
// if it is set.
func namesOf(resources []Resource, first string) []string {
	out := make([]string, len(resources))
	used := map[string]int{}
	key := func(i int) string { return resources[i].Type.Name + " " + out[i] }
	for i, r := range resources {
		if out[i] = nameOf(r); i == 0 && first != "" {
			out[i] = first
		}
		used[key(i)]++
	}
	for i, r := range resources {
		if used[key(i)] > 1 && (i > 0 || first == "") {
			out[i] = withSuffix(out[i], r.Identifier)
		}
	}
	return out
}

// It comes from the tag Name, or from the identifier.
func nameOf(r Resource) string {
	for _, text := range []string{model.TagsOf(r.Type).Read(r.Properties)["Name"], r.Identifier} {
		if name := clean(text); name != "" && len(name) <= maxName {
			return name
		}
	}
	if name := clean(r.Identifier); name != "" {
		return withSuffix(name, r.Identifier)
	}
	return withSuffix("resource", r.Identifier)
}

// The suffix is a digest of the identifier.
func withSuffix(name, identifier string) string {
	sum := sha256.Sum256([]byte(identifier))
	suffix := "-" + hex.EncodeToString(sum[:4])
	if len(name) > maxName-len(suffix) {
		name = strings.TrimRight(name[:maxName-len(suffix)], "-")
	}
	return name + suffix
}

// clean returns a text as the name of an object; empty if nothing of it can be in a name.
func clean(text string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(text) {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			b.WriteRune(r)
		case b.Len() > 0 && !strings.HasSuffix(b.String(), "-"):
			b.WriteByte('-')
		}
	}
	return strings.TrimRight(b.String(), "-")
}
