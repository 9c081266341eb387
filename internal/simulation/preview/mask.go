package preview

import (
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/object"
)

// Values of Secrets are looked for in text from these lengths on, in bytes: as the whole text, and within
// it. Shorter ones, such as "true", "postgres" or a port, are in text that has nothing to do with the Secret.
const (
	minWholeSecret  = 6
	minSecretInText = 12
)

// mask knows which values are hidden.
type mask struct {
	whole  map[string]bool
	within *strings.Replacer // nil if there is nothing to look for
}

func newMask(secrets []string) mask {
	m := mask{whole: map[string]bool{}}
	var pairs []string
	for _, s := range secrets {
		if len(s) >= minWholeSecret {
			m.whole[s] = true
		}
		if len(s) >= minSecretInText {
			pairs = append(pairs, s, "")
		}
	}
	if len(pairs) > 0 {
		m.within = strings.NewReplacer(pairs...)
	}
	return m
}

// of returns which values of an object are hidden: all of a node that may hold data of Secrets, the
// data of a Secret, and text that contains a value of one.
func (m mask) of(o *unstructured.Unstructured, sensitive bool) func(object.Path, any) bool {
	isSecret := o.GetKind() == "Secret" && o.GroupVersionKind().Group == ""
	return func(at object.Path, v any) bool {
		inData := strings.HasPrefix(at.String(), "data") || strings.HasPrefix(at.String(), "stringData")
		return sensitive || isSecret && inData || m.contains(v)
	}
}

// contains says whether a value contains one of a Secret.
func (m mask) contains(v any) bool {
	switch v := v.(type) {
	case string:
		return m.whole[v] || m.within != nil && m.within.Replace(v) != v
	case map[string]any:
		for key, value := range v {
			if m.contains(key) || m.contains(value) {
				return true
			}
		}
	case []any:
		for _, item := range v {
			if m.contains(item) {
				return true
			}
		}
	}
	return false
}
